package pages

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
)

// fileTalk is someTalk of an account that sends files of up to 1000 bytes.
func fileTalk(captions bool) string {
	return strings.Replace(someTalk, `{"types":["text"]`, fmt.Sprintf(`{"types":["text","image","file"],"files":["image","file"],"file_most":1000,"captions":%t`, captions), 1)
}

// formPart is a field of a form or, with a file name, a file.
type formPart struct{ field, file, content string }

// posted is the request of a form with these parts.
func posted(t *testing.T, path string, parts ...formPart) *http.Request {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, p := range parts {
		h := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name=%q`, p.field)}}
		if p.field == "file" {
			h.Set("Content-Disposition", fmt.Sprintf(`form-data; name="file"; filename=%q`, p.file))
			h.Set("Content-Type", "some/type")
		}
		part, err := w.CreatePart(h)
		if err == nil {
			_, err = io.WriteString(part, p.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", path, &body)
	r.Header.Set("Content-Type", w.FormDataContentType())
	return r
}

// aForm is the form of the box with a text and a file, in the order in which a browser sends it.
func aForm(text, name, content string) []formPart {
	return []formPart{{"key", "", "KEYOFTHEPAGEWITHTHEFORM"}, {"reply_to", "", "7:1-0"}, {"text", "", text}, {"file", name, content}, {"when", "", "now"}}
}

func (s *talkSite) post(r *http.Request) (*httptest.ResponseRecorder, string) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w, strings.Join(strings.Fields(w.Body.String()), " ")
}

const answerOfAnna = "/account?id=a&peer=%3Ci%3Eanna"

// Only the box of an account that sends files has a field for one.
func TestABoxTakesFilesWhereTheAccountSendsThem(t *testing.T) {
	site := newTalkSite(t, access.Sender)
	if _, body := site.page(t, "GET", "/account?id=a", nil); strings.Contains(body, `type="file"`) || strings.Contains(body, "multipart") || !strings.Contains(body, "required") {
		t.Errorf("without files:\n%s", body)
	}
	site.talk = fileTalk(true)
	_, body := site.page(t, "GET", "/account?id=a", nil)
	for _, want := range []string{`enctype="multipart/form-data"`, `<input type="file" id="reply-file" name="file"`, "At most 1,000 B."} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Index(body, `name="key"`) > strings.Index(body, `type="file"`) || strings.Contains(body, "required") {
		t.Errorf("the fields in disorder, or a text demanded:\n%s", body)
	}
}

func TestAnswersWithFilesAreQueued(t *testing.T) {
	site := newTalkSite(t, access.Sender)
	const image = `/v1/accounts/a/sends KEYOFTHEPAGEWITHTHEFORM {"data":{%s"file":"F1"},"reply_to":"7:1-0","type":"%s","when":"now"}`
	for name, c := range map[string]struct {
		captions bool
		form     []formPart
		uploaded string
		sent     []string
	}{
		"with a caption": {true, aForm("My\r\ncat", "cat.png", "\x89PNG"), "account=a&name=cat.png some/type \x89PNG", []string{fmt.Sprintf(image, `"caption":"My\ncat",`, "image")}},
		"alone":          {true, aForm(" ", "my cat.PDF", "%PDF"), "account=a&name=my+cat.PDF some/type %PDF", []string{fmt.Sprintf(image, "", "file")}},
		"of a type that the account does not send": {true, aForm("", "voice.amr", "#!AMR"), "account=a&name=voice.amr some/type #!AMR", []string{fmt.Sprintf(image, "", "file")}},
		"of no known type":                         {true, aForm("", "noname", "?"), "account=a&name=noname some/type ?", []string{fmt.Sprintf(image, "", "file")}},
		"and a text": {false, aForm("My cat", "cat.png", "\x89PNG"), "account=a&name=cat.png some/type \x89PNG", []string{
			fmt.Sprintf(image, "", "image"), `/v1/accounts/a/sends KEYOFTHEPAGEWITHTHEFORMT {"data":{"text":"My cat"},"reply_to":"7:1-0","type":"text","when":"now"}`,
		}},
		"not chosen": {true, aForm("Hello", "", ""), "", []string{`/v1/accounts/a/sends KEYOFTHEPAGEWITHTHEFORM {"data":{"text":"Hello"},"reply_to":"7:1-0","type":"text","when":"now"}`}},
	} {
		site.renew(access.Sender)
		site.talk = fileTalk(c.captions)
		if w, body := site.post(posted(t, answerOfAnna, c.form...)); w.Code != http.StatusSeeOther || !strings.HasSuffix(w.Header().Get("Location"), "said=account.answered") {
			t.Errorf("%s: %d\n%s", name, w.Code, body)
		}
		if got := strings.Join(site.uploaded, "\n"); got != c.uploaded || !slices.Equal(site.sent, c.sent) {
			t.Errorf("%s: uploaded %q, sent %q", name, got, site.sent)
		}
	}
}

// What is wrong with a file stands beside its field, and the text stays. Nothing is sent.
func TestRefusedFiles(t *testing.T) {
	site := newTalkSite(t, access.Sender)
	const after = "KEYOFTHEPAGEWITHTHEFORM"
	for name, c := range map[string]struct {
		change   func(*talkSite)
		content  string
		chunked  bool
		status   int
		want     string
		uploads  int
		attached bool
	}{
		"larger than the server takes": {nil, strings.Repeat("x", maxForm+64<<10), false, 413, "it is larger than 1,000 B, the most that this server takes (ROUNDS_FILES_MAX)", 0, false},
		"larger, as the upload shows": {func(s *talkSite) {
			s.uploadStatus, s.uploadReply = 422, `{"detail":"validation failed","errors":[{"location":"body","message":"must have at most 1000 bytes"}]}`
		}, strings.Repeat("x", 1001), true, 413, "it is larger than 1,000 B", 1, false},
		"the quota is reached": {func(s *talkSite) {
			s.uploadStatus, s.uploadReply = 507, `{"detail":"the quota of files is reached: see ROUNDS_FILES_QUOTA"}`
		}, "x", false, 507, "The file was not sent: the quota of files is reached: see ROUNDS_FILES_QUOTA", 1, false},
		"the store is away": {func(s *talkSite) {
			s.uploadStatus, s.uploadReply = 503, `{"detail":"the store of files does not answer"}`
		}, "x", false, 503, "The file was not sent: the store of files does not answer", 1, false},
		"the account sends no files": {func(s *talkSite) { s.talk = someTalk }, "x", false, 422, "The file was not sent: this account cannot send files", 0, false},
		"the kind takes less": {func(s *talkSite) {
			s.status, s.reply = 422, `{"detail":"validation failed","errors":[{"location":"body.data.file","message":"has 9 bytes, and WeCom takes at most 8"}]}`
		}, "x", false, 422, "The file was not sent: has 9 bytes, and WeCom takes at most 8", 1, false},
		"no window is open": {func(s *talkSite) {
			s.status, s.reply = 409, `{"detail":"closed","errors":[{"location":"body.when","message":"must be open"}]}`
		}, "x", false, 409, "cannot be answered now", 1, true},
	} {
		site.renew(access.Sender)
		site.talk = fileTalk(true)
		if c.change != nil {
			c.change(site)
		}
		r := posted(t, answerOfAnna, aForm("Hello <there>", "cat.png", c.content)...)
		if c.chunked {
			r.ContentLength = -1
		}
		w, body := site.post(r)
		if w.Code != c.status || !strings.Contains(body, c.want) || !strings.Contains(body, "Hello &lt;there&gt;</textarea>") || keyOf(t, body) != after || len(site.uploaded) != c.uploads {
			t.Errorf("%s: %d, %d uploads\n%s", name, w.Code, len(site.uploaded), body)
		}
		if got := strings.Contains(body, `name="attached" value="F1" checked> Send <b>cat.png</b>`); got != c.attached {
			t.Errorf("%s: attached %t\n%s", name, got, body)
		}
		if len(site.sent) > 0 && (len(site.sent) > 1 || !strings.Contains(site.sent[0], `"file"`)) {
			t.Errorf("%s: sent %q", name, site.sent)
		}
	}
}

// A file that was uploaded with an answer that was refused goes with the next one, unless another is
// chosen.
func TestAnUploadedFileStaysInTheBox(t *testing.T) {
	site := newTalkSite(t, access.Sender)
	attached := []formPart{{"key", "", "K"}, {"reply_to", "", ""}, {"text", "", ""}, {"attached_name", "", "cat.png"}, {"attached", "", "F7"}}
	for want, form := range map[string][]formPart{
		`{"data":{"file":"F7"},"to":"<i>anna","type":"image","when":"open"}`: append(attached, formPart{"file", "", ""}, formPart{"when", "", "open"}),
		`{"data":{"file":"F1"},"to":"<i>anna","type":"file","when":"open"}`:  append(attached, formPart{"file", "dog.txt", "x"}, formPart{"when", "", "open"}),
	} {
		site.renew(access.Sender)
		site.talk = fileTalk(true)
		w, _ := site.post(posted(t, answerOfAnna, form...))
		if got := strings.Join(site.sent, " "); w.Code != http.StatusSeeOther || strings.ReplaceAll(strings.ReplaceAll(got, `\u003c`, "<"), `\u003e`, ">") != "/v1/accounts/a/sends K "+want {
			t.Errorf("%d, sent %s, want %s", w.Code, got, want)
		}
	}
}

// The file was taken and its text was not: the box has the text alone, under a key of its own.
func TestATextAfterItsFileIsRefused(t *testing.T) {
	site := newTalkSite(t, access.Sender)
	site.talk, site.refuseFrom, site.status, site.reply = fileTalk(false), 1, 429, `{"detail":"too many sends wait"}`
	w, body := site.post(posted(t, answerOfAnna, aForm("My cat", "cat.png", "x")...))
	if w.Code != 429 || len(site.sent) != 2 || keyOf(t, body) != "KEYOFTHEPAGEWITHTHEFORMT" || strings.Contains(body, `name="attached"`) {
		t.Errorf("%d, sent %q\n%s", w.Code, site.sent, body)
	}
	for _, want := range []string{"The file is queued. The text is not:", "too many sends wait", "My cat</textarea>"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}

// endless is a form whose file has no end. It counts what is read of the form.
type endless struct {
	begins io.Reader
	read   int64
	most   int64
}

func (e *endless) Read(p []byte) (int, error) {
	if n, err := e.begins.Read(p); err == nil {
		e.read += int64(n)
		return n, nil
	}
	if e.read > e.most {
		return 0, io.ErrUnexpectedEOF
	}
	clear(p)
	e.read += int64(len(p))
	return len(p), nil
}

// unending is the request of a form with a file that has no end.
func unending(most int64, parts ...formPart) (*http.Request, *endless) {
	var begins bytes.Buffer
	for _, p := range parts {
		name := ""
		if p.field == "file" {
			name = fmt.Sprintf(`; filename=%q`, p.file)
		}
		fmt.Fprintf(&begins, "--x\r\nContent-Disposition: form-data; name=%q%s\r\n\r\n%s", p.field, name, p.content)
		if p.field != "file" {
			begins.WriteString("\r\n")
		}
	}
	body := &endless{begins: &begins, most: most}
	r := httptest.NewRequest("POST", answerOfAnna, body)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	r.ContentLength = -1
	return r, body
}

// A form that is no form of the box is refused before anything of its file is stored, and little of it
// is read.
func TestStrangeForms(t *testing.T) {
	site := newTalkSite(t, access.Sender)
	key, file := formPart{"key", "", "K"}, formPart{"file", "cat.png", "x"}
	fields := slices.Repeat([]formPart{key}, maxParts)
	for name, c := range map[string]struct {
		parts  []formPart
		role   access.Role
		status int
	}{
		"no key before the file":   {[]formPart{{"text", "", "x"}, file}, access.Sender, 422},
		"more fields than any":     {append(fields, file), access.Sender, 400},
		"a field without a name":   {[]formPart{key, {"", "", "x"}, file}, access.Sender, 400},
		"a field without an end":   {[]formPart{key, {"text", "", strings.Repeat("x", maxForm)}, file}, access.Sender, 400},
		"a header without an end":  {[]formPart{key, {"file", strings.Repeat("x", maxForm), ""}}, access.Sender, 400},
		"a visitor without rights": {aForm("x", "cat.png", "x")[:4], access.Viewer, 403},
	} {
		site.renew(c.role)
		site.talk = fileTalk(true)
		r, body := unending(64<<20, c.parts...)
		if w, shown := site.post(r); w.Code != c.status || len(site.uploaded)+len(site.sent) > 0 || body.read > 2*maxForm {
			t.Errorf("%s: %d, %d bytes read, uploaded %q, sent %q\n%s", name, w.Code, body.read, site.uploaded, site.sent, shown)
		}
	}
	for name, parts := range map[string][]formPart{
		"two files":                  {key, file, file, {"when", "", "now"}},
		"a large field after a file": {key, file, {"when", "", strings.Repeat("x", 2*maxForm)}},
		"too many after a file":      append([]formPart{key, file}, fields...),
	} {
		site.renew(access.Sender)
		site.talk = strings.Replace(fileTalk(true), `"file_most":1000`, `"file_most":104857600`, 1)
		if w, shown := site.post(posted(t, answerOfAnna, parts...)); w.Code != 400 || len(site.sent) > 0 {
			t.Errorf("%s: %d, sent %q\n%s", name, w.Code, site.sent, shown)
		}
	}
	site.renew(access.Sender)
	r := posted(t, answerOfAnna, key, file)
	r.Header.Set("Content-Type", "multipart/form-data")
	if w, _ := site.post(r); w.Code != 400 {
		t.Errorf("without a boundary: %d", w.Code)
	}
}

// connected is a reply on a connection with deadlines.
type connected struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (c *connected) SetReadDeadline(at time.Time) error  { c.read = at; return nil }
func (c *connected) SetWriteDeadline(at time.Time) error { c.write = at; return nil }

// An upload may take as long as the API allows, and the rest of a refused one is not waited for.
func TestAnUploadHasTheTimeThatTheAPIGives(t *testing.T) {
	site := newTalkSite(t, access.Sender)
	site.talk = fileTalk(true)
	for name, c := range map[string]struct {
		patience time.Time // of the API's route
		status   int
		read     time.Time
	}{
		"taken":   {time.Unix(1e10, 0), http.StatusCreated, time.Unix(1e10, 0)},
		"refused": {time.Unix(1e10, 0), http.StatusServiceUnavailable, time.Unix(1, 0)},
	} {
		site.uploadStatus, site.patience = c.status, c.patience
		w := &connected{ResponseRecorder: httptest.NewRecorder()}
		site.ServeHTTP(w, posted(t, answerOfAnna, aForm("x", "cat.png", "x")...))
		if !w.read.Equal(c.read) || !w.write.Equal(c.patience) {
			t.Errorf("%s: %d, reads until %v and writes until %v", name, w.Code, w.read, w.write)
		}
	}
}

// A file goes on to the API while it comes, however large it is.
func TestAFileIsNeverInMemory(t *testing.T) {
	const size = 32 << 20
	site := newTalkSite(t, access.Sender)
	site.talk = strings.Replace(fileTalk(true), `"file_most":1000`, `"file_most":104857600`, 1)
	site.discards = true
	r, _ := unending(size, aForm("x", "film.mp4", "")[:4]...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	site.post(r)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; site.discarded < size-1<<20 || took > size/8 {
		t.Errorf("%d bytes came to the API, and %d were allocated", site.discarded, took)
	}
}
