package pages

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
)

const someTalk = `{"types":["text"],"windowed":true,"peer":"<i>anna","peers":[
{"peer":"<i>anna","waiting":0,"reply_to":"7:1795360488588-0","window":{"open":true,"until":"2026-11-22T14:20:00Z","left":3,"most":10}},
{"peer":"ben","waiting":2,"waits_for_message":true}],
"entries":[{"time":"2026-11-22T14:10:00Z","message":{"account":"a","id":"m1","type":"text","data":{"item_list":[{"text_item":{"text":"Are you <b>there?"}}]},"shard":7,"position":"1795360488588-0"}},
{"time":"2026-11-22T14:11:00Z","send":{"id":"S1","account":"a","to":"<i>anna","type":"text","data":{"text":"Yes & no"},"state":"accepted","queued":"2026-11-22T14:11:00Z","attempts":1}},
{"time":"2026-11-22T14:12:00Z","send":{"id":"S2","account":"a","to":"<i>anna","type":"text","data":{"text":"lost"},"state":"unknown","code":"cut","queued":"2026-11-22T14:12:00Z","attempts":1}}]}`

// talkSite returns the pages on an API with one account that has conversations. Sends get a reply of
// a status; what was asked to be sent is written down with its key.
type talkSite struct {
	http.Handler
	role         access.Role
	talk, record string
	status       int
	reply        string
	refuseFrom   int // sends that are taken before status applies to them
	sent         []string
	asked        []string

	uploadStatus int
	uploadReply  string
	uploaded     []string // the query of each upload, and its bytes
	discards     bool     // uploads are counted, not written down
	discarded    int64
	patience     time.Time // the deadlines of an upload
}

// renew sets everything back, for a visitor with a role. It costs less than another site.
func (s *talkSite) renew(role access.Role) {
	*s = talkSite{
		Handler: s.Handler, role: role, talk: someTalk, record: `{"id":"a","kind":"weixin"}`, status: http.StatusAccepted, reply: `{}`,
		uploadStatus: http.StatusCreated, uploadReply: `{"id":"F1","name":"NAME"}`,
	}
}

// upload is the API's route of uploads.
func (s *talkSite) upload(t *testing.T, w http.ResponseWriter, r *http.Request) {
	who, _ := access.From(r.Context())
	if who.Role != access.Sender {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	for _, set := range []func(time.Time) error{http.NewResponseController(w).SetReadDeadline, http.NewResponseController(w).SetWriteDeadline} {
		if err := set(s.patience); err != nil && !errors.Is(err, http.ErrNotSupported) {
			t.Error(err)
		}
	}
	if s.discards {
		s.discarded, _ = io.Copy(io.Discard, r.Body) // it breaks off
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	s.uploaded = append(s.uploaded, r.URL.RawQuery+" "+r.Header.Get("Content-Type")+" "+string(body))
	if s.uploadStatus >= 300 {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(s.uploadStatus)
	_, _ = io.WriteString(w, strings.Replace(s.uploadReply, "NAME", r.URL.Query().Get("name"), 1))
}

func newTalkSite(t *testing.T, role access.Role) *talkSite {
	t.Helper()
	site := &talkSite{}
	site.renew(role)
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case r.URL.Path == "/v1/files":
			site.upload(t, w, r)
		case r.Method == http.MethodPost:
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			site.sent = append(site.sent, r.URL.EscapedPath()+" "+r.Header.Get("Idempotency-Key")+" "+string(body))
			status, reply := site.status, site.reply
			if len(site.sent) <= site.refuseFrom {
				status, reply = http.StatusAccepted, "{}"
			}
			if status >= 300 {
				w.Header().Set("Content-Type", "application/problem+json")
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, reply)
		case strings.HasSuffix(path, "/conversations"):
			site.asked = append(site.asked, r.URL.RequestURI())
			answering(site.talk)(w, r)
		case strings.HasSuffix(path, "/schedule"):
			answering(`{"place":"scheduled","rule":"cadence","due_rule":"cadence","answers":{"unknown":1,"unknown_since":"2026-11-22T14:12:00Z","windows":1,"peers":[{"peer":"ben","waiting":2,"waits_for_message":true},{"peer":"<i>anna","waiting":1,"window":{"open":true,"until":"2026-11-22T14:20:00Z","left":3,"most":10}}]}}`)(w, r)
		case path == "/v1/accounts/a":
			answering(site.record)(w, r)
		default:
			answering(`{}`)(w, r)
		}
	})
	d, err := New(Options{May: func(p access.Principal, route string) bool {
		return strings.HasPrefix(route, "GET ") || p.Role == access.Sender && (route == routeSend || route == routeUpload)
	}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	pages := d.Handler(inside)
	site.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Principal{Name: "anna", Role: site.role, Via: access.ViaSession})))
	})
	return site
}

// page returns a page on one line.
func (s *talkSite) page(t *testing.T, method, path string, form url.Values) (*httptest.ResponseRecorder, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w, strings.Join(strings.Fields(w.Body.String()), " ")
}

// keyOf returns the key of a page's form.
func keyOf(t *testing.T, body string) string {
	t.Helper()
	key := regexp.MustCompile(`name="key" value="([A-Z0-9]{20,})"`).FindStringSubmatch(body)
	if key == nil {
		t.Fatalf("no key in\n%s", body)
	}
	return key[1]
}

func TestAnAccountShowsItsConversation(t *testing.T) {
	site := newTalkSite(t, access.Sender)
	_, body := site.page(t, "GET", "/account?id=a", nil)
	for _, want := range []string{
		"Are you &lt;b&gt;there?", "Yes &amp; no", ">accepted</span>", ">unknown</span> cut", "3 of 10 left, until <time", `href="/account?id=a&amp;peer=ben#talk"`,
		`action="/account?id=a&amp;peer=%3Ci%3Eanna#talk"`, "Answer &lt;i&gt;anna", `name="reply_to" value="7:1795360488588-0"`, `name="when" value="now">Send`,
		`data-live="/account?id=a&amp;peer=%3Ci%3Eanna"`, `href="/message?at=7%3A1795360488588-0"`,
		"1 is unknown", "since <time", `href="/delivery/sends?account=a"`, "2 answers to ben wait for a message of theirs", "1 answer to &lt;i&gt;anna waits for its turn", "The window to <b>&lt;i&gt;anna</b>: 3 of 10 left",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, `value="open"`) || strings.Contains(body, "<i>anna") || strings.Index(body, ">lost<") > strings.Index(body, "Are you") {
		t.Errorf("too much, or in disorder, in\n%s", body)
	}
	_, again := site.page(t, "GET", "/account?id=a&peer=ben", nil)
	if keyOf(t, body) == keyOf(t, again) || !strings.Contains(again, `data-live=""`) {
		t.Errorf("a page with a peer:\n%s", again)
	}
	if strings.Join(site.asked, " ") != "/v1/accounts/a/conversations /v1/accounts/a/conversations?peer=ben" {
		t.Errorf("asked %q", site.asked)
	}
	site.talk = strings.Replace(someTalk, `"peer":"<i>anna","peers"`, `"peer":"ben","peers"`, 1)
	if _, body := site.page(t, "GET", "/account?id=a&peer=ben", nil); !strings.Contains(body, `name="when" value="open">Send after their next message`) || !strings.Contains(body, "They have to write before") || !strings.Contains(body, `name="reply_to" value=""`) {
		t.Errorf("a peer outside their window:\n%s", body)
	}
}

// A send with a file shows the file's name and a small image, and its caption.
func TestAConversationShowsFilesOfSends(t *testing.T) {
	site := newTalkSite(t, access.Sender)
	site.talk = strings.Replace(someTalk, `"data":{"text":"Yes & no"}`,
		`"data":{"file":"F1","caption":"My <cat>"},"file":{"n":0,"name":"cat.png","type":"image/png","size":2048,"state":"kept","url":"/v1/sends/S1/file","thumbnail":"/v1/sends/S1/file/thumbnail"}`, 1)
	_, body := site.page(t, "GET", "/account?id=a", nil)
	for _, want := range []string{`>My &lt;cat&gt;</span>`, `<img src="/v1/sends/S1/file/thumbnail"`, `<a href="/v1/sends/S1/file" download><bdi>cat.png</bdi></a>`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, "F1") {
		t.Errorf("the file's id in\n%s", body)
	}
}

// Whoever may not send sees the conversation alone. An account that cannot send says so.
func TestWhoHasNoAnswerBox(t *testing.T) {
	viewer := newTalkSite(t, access.Viewer)
	if _, body := viewer.page(t, "GET", "/account?id=a", nil); strings.Contains(body, "<textarea") || !strings.Contains(body, "Are you &lt;b&gt;there?") {
		t.Errorf("a viewer:\n%s", body)
	}
	site := newTalkSite(t, access.Sender)
	for record, want := range map[string]string{
		`{"id":"a","kind":"feed"}`: "accounts of the kind feed send nothing", `{"id":"a","kind":"http"}`: "the config of the account has no send_url",
	} {
		site.record, site.talk = record, `{"types":[],"peers":[],"entries":[]}`
		if _, body := site.page(t, "GET", "/account?id=a", nil); strings.Contains(body, "<textarea") || strings.Contains(body, `id="talk"`) || !strings.Contains(body, want) {
			t.Errorf("%s:\n%s", record, body)
		}
	}
	site.talk = `{"types":["text"],"peers":[],"entries":[]}`
	if _, body := site.page(t, "GET", "/account?id=a", nil); strings.Contains(body, "<textarea") || !strings.Contains(body, "Nobody has written yet") {
		t.Errorf("nobody has written:\n%s", body)
	}
	if w, _ := site.page(t, "POST", "/account?id=a", url.Values{"text": {"x"}}); w.Code != http.StatusUnprocessableEntity || len(site.sent) > 0 {
		t.Errorf("an answer to nobody: %d, %q", w.Code, site.sent)
	}
}

func TestAnswersAreQueued(t *testing.T) {
	site := newTalkSite(t, access.Sender)
	form := url.Values{"key": {"K"}, "reply_to": {"7:1-0"}, "text": {"one\r\ntwo"}, "when": {"now"}}
	for range 2 { // as a double click does
		if w, _ := site.page(t, "POST", "/account?id=a&peer=ben", form); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/account?id=a&peer=ben&said=account.answered" {
			t.Errorf("%d to %s", w.Code, w.Header().Get("Location"))
		}
	}
	want := `/v1/accounts/a/sends K {"data":{"text":"one\ntwo"},"reply_to":"7:1-0","type":"text","when":"now"}`
	if len(site.sent) != 2 || site.sent[0] != want || site.sent[1] != want {
		t.Errorf("sent %q", site.sent)
	}
	form.Set("reply_to", "")
	site.page(t, "POST", "/account?id=a&peer=ben", form)
	if got := site.sent[2]; got != `/v1/accounts/a/sends K {"data":{"text":"one\ntwo"},"to":"ben","type":"text","when":"now"}` {
		t.Errorf("sent %s", got)
	}
}

// An answer that is refused stays in the box, with the reason beside it.
func TestRefusedAnswersStayInTheBox(t *testing.T) {
	form := url.Values{"key": {"KEYOFTHEPAGEWITHTHEFORM"}, "reply_to": {"7:1-0"}, "text": {"Hello <there>"}, "when": {"now"}}
	for _, c := range []struct {
		status   int
		reply    string
		want     []string
		sameKey  bool
		mayLater bool
	}{
		{409, `{"status":409,"detail":"the person could be answered until 2: send it with when = open","errors":[{"location":"body.when","message":"must be open"}]}`, []string{"&lt;i&gt;anna cannot be answered now"}, true, true},
		{409, `{"status":409,"detail":"another send of the account has this key","errors":[{"location":"header.Idempotency-Key","message":"must be another one"}]}`, []string{"another answer was sent from this form before"}, false, false},
		{422, `{"status":422,"detail":"validation failed","errors":[{"location":"body.data.text","message":"must have at most 4096 characters"}]}`, []string{"must have at most 4096 characters"}, true, false},
		{429, `{"status":429,"detail":"too many sends wait: try again later"}`, []string{"too many sends wait"}, true, false},
	} {
		site := newTalkSite(t, access.Sender)
		site.status, site.reply = c.status, c.reply
		w, body := site.page(t, "POST", "/account?id=a&peer=%3Ci%3Eanna", form)
		if w.Code != c.status {
			t.Errorf("%d: answered %d", c.status, w.Code)
		}
		for _, want := range append(c.want, "Hello &lt;there&gt;</textarea>", `name="reply_to" value="7:1-0"`) {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in\n%s", c.reply, want, body)
			}
		}
		if same := keyOf(t, body) == form.Get("key"); same != c.sameKey || strings.Contains(body, `value="open"`) != c.mayLater {
			t.Errorf("%s: the same key %t in\n%s", c.reply, same, body)
		}
	}
}

// A live page goes on showing the conversation with the peer whom its box answers, and reads it again
// only after a while.
func TestALiveConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newTalkSite(t, access.Sender)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		site.ServeHTTP(w, httptest.NewRequest("GET", "/live/account?id=a&peer=%3Ci%3Eanna", nil).WithContext(ctx))
		if body := w.Body.String(); len(site.asked) != 2 || strings.Contains(body, "textarea") || !strings.Contains(body, "Yes ") || strings.Contains(body, "Answer ") {
			t.Errorf("asked %q:\n%s", site.asked, body)
		}
		// Nobody had written when the page was opened.
		other, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		w = httptest.NewRecorder()
		site.ServeHTTP(w, httptest.NewRequest("GET", "/live/account?id=a", nil).WithContext(other))
		if !strings.Contains(w.Body.String(), "Answer ") {
			t.Errorf("no way to a box in\n%s", w.Body.String())
		}
	})
}

func TestContentOfMessages(t *testing.T) {
	for data, want := range map[string]string{
		`{"text":"plain"}`: "plain", `{"text":{"content":"of WeCom"}}`: "of WeCom", `{"message":{"text":"of Telegram"}}`: "of Telegram",
		`{"edited_message":{"text":"edited"}}`: "edited", `{"item_list":[{"text_item":{"text":"of WeChat"}}]}`: "of WeChat",
		`{"title":" ","text":7}`: `{"title":" ","text":7}`, `"x"`: `"x"`, `[1]`: `[1]`, ``: ``, `{"item_list":7,"message":[]}`: `{"item_list":7,"message":[]}`,
	} {
		if got := contentOf([]byte(data)); got != want {
			t.Errorf("%s: %q, want %q", data, got, want)
		}
	}
}
