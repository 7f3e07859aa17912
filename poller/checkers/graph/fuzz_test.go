package graph

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/graphd"
)

// A link leads to nothing but Graph, and a token comes back as it was.
func FuzzLinks(f *testing.F) {
	for _, seed := range []string{
		"https://graph.microsoft.com/v1.0/me/mailFolders('x')/messages/delta?$skiptoken=a_.b-", "https://graph.microsoft.com:443/?%24skipToken=%2B+",
		"https://graph.microsoft.com.example.com/?$skiptoken=a", "https://graph.microsoft.com@example.com/?$skiptoken=a", "http://graph.microsoft.com/?$skiptoken=a",
		"//graph.microsoft.com/?$skiptoken=a", "?$skiptoken=a", "https://graph.microsoft.com/?$skiptoken=a&$skiptoken=b", "https://graph.microsoft.com/?$skiptoken=",
	} {
		f.Add(seed)
	}
	m := &mailbox{config: config{base: defaultBaseURL, folder: defaultFolder}}
	f.Fuzz(func(t *testing.T, link string) {
		token, ok := m.stateToken(link, "$skiptoken")
		if !ok {
			return
		}
		u, err := url.Parse(link)
		if err != nil || u.Scheme != "https" || !strings.EqualFold(u.Hostname(), "graph.microsoft.com") || token == "" || len(token) > maxToken {
			t.Errorf("%q: got %q", link, token)
		}
		next, err := url.Parse(m.call(m.next(cursor{Skip: token})).URL)
		if err != nil || next.Host != "graph.microsoft.com" || next.Path != "/v1.0/me/mailFolders/inbox/messages/delta" || next.Query().Get("$skiptoken") != token || len(next.Query()) != 1 {
			t.Errorf("%q: the next request is %v, %v", link, next, err)
		}
	})
}

func TestLinks(t *testing.T) {
	m := &mailbox{config: config{base: defaultBaseURL}}
	for link, want := range map[string]string{
		"https://graph.microsoft.com/x?$skiptoken=a":                                  "a",
		"https://graph.microsoft.com/x?$skipToken=%2B%20+":                            "+  ",
		"https://graph.microsoft.com/x?$skiptoken=a&$skipToken=b":                     "",
		"https://graph.microsoft.us/x?$skiptoken=a":                                   "",
		"https://graph.microsoft.com@example.com/x?$skiptoken=a":                      "",
		"http://graph.microsoft.com/x?$skiptoken=a":                                   "",
		"https://graph.microsoft.com/x?$deltatoken=a":                                 "",
		"https://graph.microsoft.com/x?$skiptoken=" + strings.Repeat("x", maxToken+1): "",
	} {
		if got, ok := m.stateToken(link, "$skiptoken"); ok && got != want || ok != (want != "") {
			t.Errorf("%.80s: got %q, %t", link, got, ok)
		}
	}
}

// answering is a transport that answers requests for changes with a text.
type answering struct {
	text   string
	status int
}

// RoundTrip implements http.RoundTripper.
func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/$value") {
		a = answering{"Subject: x\r\n\r\ntext", http.StatusOK}
	}
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.text)), ContentLength: -1, Request: r}, nil
}

// Whatever Graph answers, a check ends with a result that the pool takes, or with an error.
func FuzzPages(f *testing.F) {
	f.Add(`{"value":[{"id":"x","receivedDateTime":"2026-01-01T00:00:00Z","isRead":true,"flag":{"flagStatus":"flagged"}}],"@odata.deltaLink":"https://graph.microsoft.com/x?$deltatoken=a"}`, 200)
	f.Add(`{"value":[{"id":"x","@removed":{"reason":"deleted"}},{"id":"y","receivedDateTime":"9999-12-31T23:59:59-12:00"}],"@odata.nextLink":"https://graph.microsoft.com/x?$skiptoken=a"}`, 200)
	f.Add(`{"error":{"code":"SyncStateNotFound","message":"x"}}`, 410)
	f.Add(`{"error":{"code":7}}`, 404)
	g := graphd.New(graphd.Options{})
	f.Fuzz(func(t *testing.T, text string, status int) {
		if status < 200 || status > 599 {
			return
		}
		c := New(fetch.New(fetch.Options{Transport: answering{text, status}}), issued{g})
		at := cursor{Of: folderOf(config{base: defaultBaseURL, folder: defaultFolder, oauth: secrets.Ref{Name: "T"}}), Delta: "d"}
		result, err := c.Check(t.Context(), poller.Request{Account: "a", Config: configOf(""), Cursor: at.encode(), Limit: 10})
		if err != nil {
			_ = checktest.Failure(t, err)
			return
		}
		for i := range result.Messages {
			if id := result.Messages[i].ID; len(id) > 256 {
				return // which the pool refuses
			}
		}
		if err := result.Validate(); err != nil {
			t.Error(err)
		}
		if _, err := decodeCursor(result.Cursor); err != nil {
			t.Errorf("the cursor %s: %v", result.Cursor, err)
		}
	})
}
