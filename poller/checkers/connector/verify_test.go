package connector

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// flawed is a connector whose only fault is the one named.
type flawed struct {
	t        *testing.T
	messages int
	flaw     string
	files    string // what each message names as files; BASE is where the connector is

	mu  sync.Mutex
	ids map[string]bool // of requests
}

func (f *flawed) has(flaw string) bool { return f.flaw == flaw }

// refused refuses a request whose signature is wrong, and reports whether it did.
func (f *flawed) refused(w http.ResponseWriter, header http.Header, body []byte) bool {
	webhook, err := standardwebhooks.NewWebhook(signingKey)
	if err != nil {
		f.t.Error(err)
	}
	signed := webhook.Verify(body, header) == nil
	at, _ := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	switch dated := webhook.VerifyIgnoringTimestamp(body, header) == nil; {
	case f.has("any signature"), f.has("old signatures") && dated && at < time.Now().Unix(), f.has("signatures ahead") && dated && at > time.Now().Unix():
		return false
	case f.has("one signature") && strings.Contains(header.Get("webhook-signature"), " "):
		signed = false
	case f.has("each id once"):
		f.mu.Lock()
		signed = signed && !f.ids[header.Get("webhook-id")]
		f.ids[header.Get("webhook-id")] = true
		f.mu.Unlock()
	}
	if signed {
		return false
	}
	switch {
	case f.has("blames the account"):
		_, _ = io.WriteString(w, `{"error":{"kind":"auth","message":"wrong signature"}}`)
	case f.has("blames it by 401"):
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"kind":"auth","message":"wrong signature"}}`)
	case f.has("gone for whom it does not know"):
		w.WriteHeader(http.StatusGone)
	case f.has("crashes at signatures"):
		w.WriteHeader(http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusUnauthorized)
	}
	return true
}

func (f *flawed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if f.refused(w, r.Header, body) {
		return
	}
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, "file")
		return
	}
	var request struct {
		Account struct {
			ID string `json:"id"`
		} `json:"account"`
		Cursor  json.RawMessage `json:"cursor"`
		Limit   int             `json:"limit"`
		Unknown any             `json:"x_unknown"`
	}
	err := json.Unmarshal(body, &request)
	at := 0
	badCursor := err == nil && json.Unmarshal(request.Cursor, &at) != nil
	switch {
	case f.has("down"):
		w.WriteHeader(http.StatusServiceUnavailable)
	case f.has("elsewhere"):
		w.Header().Set("Location", "/other")
		w.WriteHeader(http.StatusFound)
	case f.has("wrong form"):
		_, _ = io.WriteString(w, `{"messages":[],"has_more":"no"}`)
	case f.has("no list"):
		_, _ = io.WriteString(w, `{"mesages":[]}`)
	case f.has("cuts") && err != nil:
		panic(http.ErrAbortHandler)
	case f.has("slow") && err != nil:
		<-r.Context().Done()
	case err != nil && f.has("crashes"):
		w.WriteHeader(http.StatusInternalServerError)
	case err != nil, f.has("strict") && request.Unknown != nil:
		w.WriteHeader(http.StatusBadRequest)
	case request.Account.ID != "a" && f.has("404 for nobody"):
		w.WriteHeader(http.StatusNotFound)
	case request.Account.ID != "a" && f.has("misplaced wait"):
		_, _ = io.WriteString(w, `{"error":{"kind":"gone","retry_after":30}}`)
	case request.Account.ID != "a":
		_, _ = io.WriteString(w, `{"error":{"kind":"gone"}}`)
	case badCursor && !f.has("any cursor"):
		_, _ = io.WriteString(w, `{"error":{"kind":"cursor_invalid"}}`)
	default:
		f.page(w, r, at, request.Limit)
	}
}

// page answers with the messages behind a cursor.
func (f *flawed) page(w http.ResponseWriter, r *http.Request, at, limit int) {
	switch {
	case f.has("no cursor"):
		at = 0
	case f.has("overlaps") && at > 0:
		at--
	case f.has("skips") && at > 0:
		at++
	case f.has("last page again") && at == f.messages:
		at--
	}
	if at >= f.messages && !f.has("never ends") {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	to := min(at+limit, f.messages)
	if f.has("no limit") {
		to = f.messages
	}
	list := []map[string]any{}
	for n := at + 1; n <= to; n++ {
		message := map[string]any{"id": fmt.Sprint(n), "data": n}
		switch {
		case f.has("new ids"):
			message["id"] = fmt.Sprint(time.Now().UnixNano(), n)
		case f.has("secrets"):
			message["data"] = r.Header.Get("Authorization")
		case f.has("large data"):
			message["data"] = strings.Repeat("x", maxData)
		case f.files != "":
			message["data"] = json.RawMessage(fmt.Sprintf(`{"files":%s}`, strings.ReplaceAll(f.files, "BASE", "http://"+r.Host)))
		case f.has("misspelt time"):
			message["Time"] = "2026-11-21T12:00:00Z"
		}
		list = append(list, message)
	}
	answer := map[string]any{"messages": list, "has_more": to < f.messages || f.has("never ends"), "next_cursor": max(to, at), "mine": 1}
	switch {
	case f.has("no cursor"):
		delete(answer, "next_cursor")
	case f.has("cursor stays"):
		answer["next_cursor"] = 0
	case f.has("misspelt more"):
		answer["hasMore"] = answer["has_more"]
		delete(answer, "has_more")
	case f.has("too large"):
		answer["padding"] = strings.Repeat("x", maxBody)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func verify(t *testing.T, f *flawed, signed bool) map[string]Finding {
	t.Helper()
	f.t, f.ids = t, make(map[string]bool)
	server := httptest.NewServer(f)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handlers that abort
	defer server.Close()
	config := fmt.Sprintf(`{"url":%q}`, server.URL)
	if signed {
		config = string(signedConfig(server.URL))
	}
	trial := Trial{Config: json.RawMessage(config), Account: "a"}
	if f.has("slow") {
		trial.Deadline = 200 * time.Millisecond
	}
	return findingsOf(t, trial)
}

// findingsOf verifies a connector, and checks what must be true of all findings.
func findingsOf(t *testing.T, trial Trial) map[string]Finding {
	t.Helper()
	findings, err := New(checktest.Client(t, fetch.Options{}), source()).Verify(t.Context(), trial)
	if err != nil {
		t.Fatal(err)
	}
	byRule := make(map[string]Finding)
	for i, finding := range findings {
		byRule[finding.Name] = finding
		if finding.Rule != Rules()[i] || finding.Seen == "" || (finding.Verdict == Fail) != (finding.Advice != "") && finding.Verdict != NotJudged {
			t.Errorf("%+v", finding)
		}
		for _, secret := range []string{signingKey, apiToken} {
			if strings.Contains(finding.Seen+finding.Advice, secret) {
				t.Errorf("%s tells a secret: %+v", finding.Name, finding)
			}
		}
	}
	if len(findings) != len(Rules()) {
		t.Errorf("%d findings of %d rules", len(findings), len(Rules()))
	}
	return byRule
}

// unjudged returns the rules that were not judged, except for the rules about holds, files and sends:
// these configs have no hold, these messages have no files, and nothing is sent.
func unjudged(t *testing.T, findings map[string]Finding) string {
	t.Helper()
	if hold := findings[ruleHold]; hold.Verdict != NotJudged {
		t.Errorf("judged a hold: %+v", hold)
	}
	delete(findings, ruleHold)
	if files := findings[ruleFiles]; files.Verdict != NotJudged {
		t.Errorf("judged files: %+v", files)
	}
	delete(findings, ruleFiles)
	for _, rule := range []string{ruleSend, ruleSendSigned, ruleSendRepeated, ruleSendMalformed} {
		if f := findings[rule]; f.Verdict != NotJudged {
			t.Errorf("judged a send that nobody asked for: %+v", f)
		}
		delete(findings, rule)
	}
	return with(NotJudged, findings)
}

// with returns the rules with a verdict, in alphabetical order.
func with(verdict Verdict, findings map[string]Finding) string {
	var rules []string
	for rule, finding := range findings {
		if finding.Verdict == verdict {
			rules = append(rules, rule)
		}
	}
	slices.Sort(rules)
	return strings.Join(rules, ", ")
}

// flaws are wrong connectors, each with the rules that must fail for it and the rules that can
// then not be judged.
var flaws = []struct{ flaw, failed, left string }{
	{"", "", ""},
	{"any signature", "ahead, replay, signature", "refusal"},
	{"old signatures", "replay", ""},
	{"signatures ahead", "ahead", ""},
	{"one signature", "rotation", ""},
	{"each id once", "repeated id", ""},
	{"blames the account", "refusal", ""},
	{"blames it by 401", "refusal", ""},
	{"gone for whom it does not know", "refusal", ""},
	{"crashes at signatures", "refusal", ""},
	{"strict", "unknown fields", ""},
	{"crashes", "malformed", ""},
	{"cuts", "every request", "malformed"},
	{"slow", "deadline", "malformed"},
	{"no limit", "limit", "cursor resumes"},
	{"no cursor", "cursor moves, nothing twice", "cursor resumes, end"},
	{"cursor stays", "cursor moves, nothing twice", "cursor resumes, end"},
	{"new ids", "cursor resumes, same cursor", ""},
	{"overlaps", "cursor resumes, nothing twice", "end"},
	{"skips", "cursor resumes", ""},
	{"last page again", "nothing twice", ""},
	{"never ends", "end", "nothing twice"},
	{"any cursor", "unknown cursor", ""},
	{"404 for nobody", "unknown account", ""},
	{"secrets", "secrets", ""},
	{"misspelt more", "field names", ""},
	{"misspelt time", "field names", ""},
	{"misplaced wait", "field names", ""},
}

// ended are connectors that fail so early that few rules can be judged.
var ended = []struct{ flaw, failed string }{
	{"down", "answer"},
	{"elsewhere", "answer"},
	{"wrong form", "form"},
	{"no list", "field names, form"},
	{"too large", "size"},
	{"large data", "size"},
}

func TestVerify(t *testing.T) {
	fails := make(map[string]bool)
	for _, c := range flaws {
		t.Run(c.flaw, func(t *testing.T) {
			findings := verify(t, &flawed{messages: 60, flaw: c.flaw}, true)
			if got := with(Fail, findings); got != c.failed {
				t.Errorf("failed: got %s, want %s\n%+v", got, c.failed, findings)
			}
			if got := unjudged(t, findings); got != c.left {
				t.Errorf("not judged: got %s, want %s\n%+v", got, c.left, findings)
			}
		})
		for rule := range strings.SplitSeq(c.failed, ", ") {
			fails[rule] = true
		}
	}
	for _, c := range ended {
		t.Run(c.flaw, func(t *testing.T) {
			findings := verify(t, &flawed{messages: 60, flaw: c.flaw}, true)
			if got := with(Fail, findings); got != c.failed {
				t.Errorf("failed: got %s, want %s\n%+v", got, c.failed, findings)
			}
			if c.flaw == "elsewhere" && !strings.HasPrefix(findings[ruleAnswer].Advice, "redirects are not followed: set the account's url to http://") {
				t.Errorf("of a redirect: %+v", findings[ruleAnswer])
			}
			if findings[ruleSignature].Verdict != NotJudged || findings[ruleReachable].Verdict != Pass {
				t.Errorf("judged what cannot be: %+v", findings)
			}
		})
		for rule := range strings.SplitSeq(c.failed, ", ") {
			fails[rule] = true
		}
	}
	fails[ruleReachable] = true // TestVerifyWhereNobodyListens
	fails[ruleHold] = true      // TestVerifyHold
	fails[ruleFiles] = true     // TestVerifyFiles
	for _, c := range sendFlaws {
		fails[c.failed] = true // TestVerifySends
	}
	for _, rule := range Rules() {
		if !fails[rule.Name] {
			t.Errorf("nothing fails %s", rule.Name)
		}
		if !strings.HasSuffix(rule.Why, ".") {
			t.Errorf("%s: %q is no sentence", rule.Name, rule.Why)
		}
	}
	if len(Rules()) < 15 {
		t.Errorf("%d rules", len(Rules()))
	}
}

func TestVerifyWhereNobodyListens(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	server.Close()
	findings := findingsOf(t, Trial{Config: signedConfig(url), Account: "a"})
	if got := with(Fail, findings); got != ruleReachable || len(findings)-1 != strings.Count(with(NotJudged, findings), ",")+1 {
		t.Errorf("got %s, not judged %s", got, with(NotJudged, findings))
	}
	if f := findings[ruleReachable]; !strings.Contains(f.Seen, strings.TrimPrefix(url, "http://")+": no connection to the host: connection refused") || !strings.Contains(f.Advice, "start the connector") {
		t.Errorf("got %+v", f)
	}
	if f := findings[ruleSignature]; !strings.Contains(f.Seen, "could not be reached") {
		t.Errorf("got %+v", f)
	}
	findings = findingsOf(t, Trial{Config: signedConfig("http://localhost.:1"), Account: "a"})
	if got := with(Fail, findings); got != ruleReachable {
		t.Errorf("got %s", got)
	}
}

// A connector that speaks no TLS needs no certificate, but another address.
func TestVerifyOverTLSWhereNoneIsSpoken(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	findings := findingsOf(t, Trial{Config: signedConfig(strings.Replace(server.URL, "http:", "https:", 1)), Account: "a"})
	f := findings[ruleReachable]
	if f.Verdict != Fail || !strings.Contains(f.Seen, "speaks HTTP on this port, not TLS") || strings.Contains(f.Advice, "certificate") || !strings.Contains(f.Advice, "http://") {
		t.Errorf("got %+v", f)
	}
}

// A connector that answers at once to a request that may be held fails the rule.
func TestVerifyHold(t *testing.T) {
	f := &flawed{messages: 3, flaw: "any signature", t: t, ids: make(map[string]bool)}
	server := httptest.NewServer(f)
	defer server.Close()
	findings := findingsOf(t, Trial{Config: json.RawMessage(fmt.Sprintf(`{"url":%q,"hold":120}`, server.URL)), Account: "a"})
	if hold := findings[ruleHold]; hold.Verdict != Fail || !strings.Contains(hold.Seen, "of 2m0s") || with(Fail, findings) != ruleHold {
		t.Errorf("got %+v, failed %s", hold, with(Fail, findings))
	}
	page := poller.Result{Messages: []poller.Message{{ID: "1"}}}
	for want, r := range map[Verdict][]reply{
		Pass:      {{status: 204, took: 8 * time.Second}, {status: 200, took: 30 * time.Second}},
		Fail:      {{status: 204, took: time.Second}, {none: true, code: fetch.CodeTimeout, err: &poller.CheckError{}, took: 40 * time.Second}},
		NotJudged: {{status: 200, took: time.Second, result: page}, {none: true, code: fetch.CodeReset, err: &poller.CheckError{}}, {status: 500, err: &poller.CheckError{Scope: poller.ScopeChecker}}},
	} {
		for _, one := range r {
			v := &verification{hold: 30 * time.Second, found: make(map[string]Finding)}
			if v.judgeHold(one); v.found[ruleHold].Verdict != want {
				t.Errorf("%+v: got %+v, want %s", one, v.found[ruleHold], want)
			}
		}
	}
}

// Files are judged by their form, and one of them by whether it is there.
func TestVerifyFiles(t *testing.T) {
	sum := sha256.Sum256([]byte("file"))
	for _, tt := range []struct{ files, seen string }{
		{`[{"url":"BASE/1","size":4,"sha256":"` + hex.EncodeToString(sum[:]) + `"},{"url":"https://example.com"}]`, ""},
		{`[{"url":"http://127.0.0.1:1/1"}]`, "the first file: no connection to the host: connection refused"},
		{`[{"url":"http://10.0.0.1/1"}]`, "the first file: refused address"},
		{`[{"url":"BASE/1","size":5}]`, "the first file has 4 bytes, and its message says 5"},
		{`[{"url":"BASE/1","sha256":"` + strings.Repeat("0", 64) + `"}]`, "the first file has another sha256 than its message says"},
		{`{}`, "data.files: must be an array"},
		{`[{"url":"BASE/1"},7]`, "data.files[1]: must be an object"},
		{`[{"url":"/1","size":4}]`, ""},
		{`[{"url":"1"}]`, "data.files[0].url: must be an address"},
		{`[{"url":"BASE/1","size":"4"}]`, "data.files[0].size: must be a whole number of bytes"},
	} {
		findings := verify(t, &flawed{messages: 3, files: tt.files}, true)
		f, want := findings[ruleFiles], Fail
		if tt.seen == "" {
			want = Pass
		}
		if f.Verdict != want || !strings.HasPrefix(f.Seen, tt.seen) {
			t.Errorf("%s: %+v", tt.files, f)
		}
		delete(findings, ruleFiles)
		if failed := with(Fail, findings); failed != "" {
			t.Errorf("%s: %s fails too", tt.files, failed)
		}
	}
}

func TestVerifyNamesMisspeltFields(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[],"nextCursor":1}`:                  "nextCursor: no field has this name, next_cursor is likely meant",
		`{"messages":[],"next_curosr":1}`:                 "next_curosr: no field has this name, next_cursor is likely meant",
		`{"messages":[],"cursor":1}`:                      "cursor: no field has this name, next_cursor is likely meant",
		`{"messages":[],"more":true}`:                     "more: no field has this name, has_more is likely meant",
		`{"message":[]}`:                                  "message: no field has this name, messages is likely meant",
		`{"messages":[{"id":"1","date":{}}]}`:             "messages[0].date: no field has this name, data is likely meant",
		`{"messages":[{"id":"1","data":1,"Type":"a"}]}`:   "messages[0].Type: no field has this name, type is likely meant",
		`{"error":{"knd":"auth"}}`:                        "error.knd: no field has this name, kind is likely meant",
		`{"error":{"kind":"auth"},"retryAfter":1}`:        "retryAfter: no field has this name, retry_after is likely meant",
		`{"error":{"kind":"auth"},"message":"x"}`:         "",
		`{"messages":[],"next_cursor":1,"cursor":2}`:      "",
		`{"messages":[{"id":"1","data":1,"date":"now"}]}`: "",
		`{"messages":[],"took":12,"version":"1"}`:         "",
		`[]`: "", `nonsense`: "", `{"messages":7}`: "",
	} {
		if got := misspelt([]byte(body)); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	for words, want := range map[[2]string]int{{"", "abc"}: 3, {"data", "data"}: 0, {"data", "daat"}: 1, {"data", "dat"}: 1, {"data", "dates"}: 2, {"kind", "mine"}: 2} {
		if got := edits(words[0], words[1]); got != want {
			t.Errorf("%q: got %d, want %d", words, got, want)
		}
	}
}

func TestVerifyWhatCannotBeShown(t *testing.T) {
	if got := with(Fail, verify(t, &flawed{messages: 40, flaw: "no limit"}, true)); got != "limit" {
		t.Errorf("no limit, but few messages: %s", got)
	}
	if got := unjudged(t, verify(t, &flawed{messages: 1}, true)); got != "cursor resumes" {
		t.Errorf("1 message: %s", got)
	}
	got := verify(t, &flawed{messages: 0}, true)
	if unjudged(t, got) != "cursor moves, cursor resumes, limit, nothing twice, same cursor" || with(Fail, got) != "" {
		t.Errorf("no message: %+v", got)
	}
	got = verify(t, &flawed{messages: 60, flaw: "any signature"}, false)
	if unjudged(t, got) != "ahead, refusal, replay, rotation, secrets, signature" || with(Fail, got) != "" {
		t.Errorf("without a secret: %+v", got)
	}
	if _, err := New(checktest.Client(t, fetch.Options{}), source()).Verify(t.Context(), Trial{Config: json.RawMessage(`{"url":"x"}`)}); err == nil {
		t.Error("a bad config: no error")
	}
	if _, err := New(checktest.Client(t, fetch.Options{}), source()).Verify(t.Context(), Trial{Config: json.RawMessage(`{"url":"http://127.0.0.1:1","signing_secret":{"secret":"NONE"}}`)}); err == nil {
		t.Error("no such secret: no error")
	}
}
