package feed

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/processes"
)

// Tests that only decode answers, which one goroutine does, run without the race detector. It
// watches the suite on one of the three formats, and that of files in telegram.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestHostileBodies", "TestDataIsBounded", "TestLargeFeed", "TestNotAFeed",
		"TestControlBytesHideNothing", "TestEscapedItemsAreCutAgain", "TestEachLimitIsNamed", "TestItemsThatDepartAreKnownForAWhile",
		"TestSuite/atom", "TestSuite/jsonfeed", "TestFileSuite", "TestFileAddresses"))
}

func TestSuite(t *testing.T) {
	for _, route := range []string{"feed", "atom", "jsonfeed"} {
		t.Run(route, func(t *testing.T) {
			checktest.RunHTTP(t, checktest.HTTP{
				New:         func(client *fetch.Client) poller.Checker { return New(client, vault()) },
				WithSecrets: func(client *fetch.Client, s secrets.Source) poller.Checker { return New(client, s) },
				Values:      vault().Lookup,
				Config:      private,
				Route:       route,
				Secret:      password,
			})
		})
	}
}

const password = "0pen-sesame-42"

// vault has the secrets PASS and TOKEN.
func vault() secrets.Source {
	values := map[string]string{"ROUNDS_SECRET_PASS": password, "ROUNDS_SECRET_TOKEN": "Bearer " + password}
	return secrets.Source{Lookup: func(name string) (string, bool) { v, ok := values[name]; return v, ok }}
}

// private is the config of a feed with a login and a header.
func private(url string) json.RawMessage {
	raw, err := json.Marshal(map[string]any{
		"url": url, "login": map[string]any{"user": "me", "password": map[string]string{"secret": "PASS"}},
		"headers": map[string]any{"X-Token": map[string]string{"secret": "TOKEN"}, "X-Plain": "yes"},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func plain(url string) json.RawMessage {
	raw, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		panic(err)
	}
	return raw
}

// site serves one feed, whose text the test chooses.
type site struct {
	body, etag, modified string
	status               int         // of an answer without a body; 0: with one
	more                 http.Header // of each answer
	seen                 http.Header // of the last request
	url                  string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.seen = r.Header.Clone()
	maps.Copy(w.Header(), s.more)
	w.Header().Set("ETag", s.etag)
	w.Header().Set("Last-Modified", s.modified)
	if s.etag != "" && r.Header.Get("If-None-Match") == s.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if s.status != 0 {
		w.WriteHeader(s.status)
		return
	}
	_, _ = fmt.Fprint(w, s.body)
}

func rss(items ...string) string {
	body := `<rss version="2.0"><channel><title>t</title>`
	for _, item := range items {
		body += "<item>" + item + "</item>"
	}
	return body + "</channel></rss>"
}

func guids(ids ...string) (items []string) {
	for _, id := range ids {
		items = append(items, "<guid>"+id+"</guid>")
	}
	return items
}

func ids(messages []poller.Message) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.ID)
	}
	return ids
}
