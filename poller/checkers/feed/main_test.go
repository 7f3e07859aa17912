package feed

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	for _, route := range []string{"feed", "atom", "jsonfeed"} {
		t.Run(route, func(t *testing.T) {
			checktest.RunHTTP(t, checktest.HTTP{
				New:    func(client *fetch.Client) poller.Checker { return New(client) },
				Config: config,
				Route:  route,
			})
		})
	}
}

func config(url string) json.RawMessage {
	raw, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		panic(err)
	}
	return raw
}

// site is one feed that a test writes.
type site struct {
	body, etag, modified string
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
	w.Header().Set("ETag", s.etag)
	w.Header().Set("Last-Modified", s.modified)
	if s.etag != "" && r.Header.Get("If-None-Match") == s.etag {
		w.WriteHeader(http.StatusNotModified)
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
