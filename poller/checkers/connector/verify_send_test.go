package connector

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/fetch"
)

// sendFlaws are wrong send_urls, each with the rule that must fail for it, and the rules that can then
// not be judged.
var sendFlaws = []struct{ flaw, failed, left string }{
	{"", "", ""},
	{"any signature", ruleSendSigned, ""},
	{"blames the account", ruleSendSigned, ""},
	{"delivers again", ruleSendRepeated, ""},
	{"refuses what it knows", ruleSendRepeated, ""},
	{"no ids", "", ruleSendRepeated},
	{"no ids, delivers again", "", ruleSendRepeated},
	{"says nothing of duplicates", "", ruleSendRepeated},
	{"crashes at bad requests", ruleSendMalformed, ""},
	{"refuses", ruleSend, ruleSendRepeated},
	{"answers no object", ruleSend, ruleSendRepeated},
}

// flawedSends is a send_url with a flaw.
type flawedSends struct {
	t    *testing.T
	flaw string

	mu  sync.Mutex
	ids []string // delivered, in order
}

func (f *flawedSends) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	want := http.Header{}
	if err := fetch.Sign(want, r.Header.Get(fetch.HeaderID), stampOf(f.t, r), body, checkKey(f.t)); err != nil {
		f.t.Error(err)
	}
	if want.Get(fetch.HeaderSignature) != r.Header.Get(fetch.HeaderSignature) && f.flaw != "any signature" {
		if f.flaw == "blames the account" {
			_, _ = io.WriteString(w, `{"error":{"kind":"auth"}}`)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var q sendRequest
	switch err := json.Unmarshal(body, &q); {
	case err != nil && f.flaw == "crashes at bad requests":
		w.WriteHeader(http.StatusInternalServerError)
		return
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case f.flaw == "refuses":
		_, _ = io.WriteString(w, `{"error":{"kind":"rejected"}}`)
		return
	}
	if !strings.HasPrefix(q.SendID, "verify-") || q.To != "anna" || !strings.Contains(string(q.Data), "a test") {
		f.t.Errorf("a send that is not marked as a test: %+v", q)
	}
	known := slices.Contains(f.ids, q.SendID)
	if !known || strings.Contains(f.flaw, "delivers again") {
		f.ids = append(f.ids, q.SendID)
	}
	switch {
	case known && f.flaw == "refuses what it knows":
		w.WriteHeader(http.StatusConflict)
	case f.flaw == "answers no object":
		_, _ = io.WriteString(w, "sent")
	case strings.Contains(f.flaw, "no ids"):
		w.WriteHeader(http.StatusNoContent)
	default:
		_, _ = fmt.Fprintf(w, `{"id":"v%d"}`, len(f.ids))
	}
}

// sendFindings verifies a send_url, and returns the findings about sends.
func sendFindings(t *testing.T, f *flawedSends, to string) map[string]Finding {
	t.Helper()
	f.t = t
	checks := httptest.NewServer(&flawed{messages: 3, t: t, ids: make(map[string]bool)})
	defer checks.Close()
	sends := httptest.NewServer(f)
	defer sends.Close()
	config := strings.TrimSuffix(string(signedConfig(checks.URL)), "}") + fmt.Sprintf(`,"send_url":%q,"deduplicates":%t}`, sends.URL, f.flaw != "says nothing of duplicates")
	found := make(map[string]Finding)
	for name, finding := range findingsOf(t, Trial{Config: json.RawMessage(config), Account: "a", SendTo: to, Deadline: 10 * time.Second}) {
		if strings.HasPrefix(name, "send") {
			found[name] = finding
		}
	}
	return found
}

func TestVerifySends(t *testing.T) {
	for _, c := range sendFlaws {
		t.Run(c.flaw, func(t *testing.T) {
			f := &flawedSends{flaw: c.flaw}
			found := sendFindings(t, f, "anna")
			if got, left := with(Fail, found), with(NotJudged, found); got != c.failed || left != c.left || len(found) != 4 {
				t.Errorf("failed %q, want %q; not judged %q, want %q: %+v", got, c.failed, left, c.left, found)
			}
			if c.flaw == "" && len(f.ids) != 1 {
				t.Errorf("delivered %q", f.ids)
			}
		})
	}
}

func TestVerifySendsOnlyIfItIsAskedTo(t *testing.T) {
	f := &flawedSends{}
	if found := sendFindings(t, f, ""); strings.Count(with(NotJudged, found), ",") != 3 || len(f.ids) != 0 {
		t.Errorf("got %+v, delivered %q", found, f.ids)
	}
	checks := httptest.NewServer(&flawed{messages: 3, t: t, ids: make(map[string]bool)})
	defer checks.Close()
	findings := findingsOf(t, Trial{Config: signedConfig(checks.URL), Account: "a", SendTo: "anna"})
	if f := findings[ruleSend]; f.Verdict != NotJudged || f.Seen != "the config has no send_url" {
		t.Errorf("got %+v", f)
	}
}
