package feed

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/websub"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// Every form of a feed can name its hub and itself. The first page plans the subscription, and the next
// one asks the hub.
func TestAHubIsFoundAndAsked(t *testing.T) {
	const atom = `xmlns:atom="http://www.w3.org/2005/Atom"`
	for name, test := range map[string]struct {
		body  string // with %[1]s for the hub and %[2]s for the feed
		link  string // likewise
		push  string
		asked bool
	}{
		"Atom":                     {body: `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="%[1]s"/><link rel="self" href="%[2]s"/><entry><id>1</id></entry></feed>`, asked: true},
		"RSS":                      {body: `<rss version="2.0" ` + atom + `><channel><atom:link rel="hub" href="%[1]s"/><atom:link rel="self" href="%[2]s"/><item><guid>1</guid></item></channel></rss>`, asked: true},
		"RSS, FeedBurner's prefix": {body: `<rss version="2.0" xmlns:atom10="http://www.w3.org/2005/Atom"><channel><atom10:link rel="self" href="%[2]s"/><atom10:link rel="hub" href="%[1]s"/><item><guid>1</guid></item></channel></rss>`, asked: true},
		"JSON Feed":                {body: `{"version":"https://jsonfeed.org/version/1.1","feed_url":"%[2]s","hubs":[{"type":"rssCloud","url":"%[2]s"},{"type":"WebSub","url":"%[1]s"}],"items":[{"id":"1"}]}`, asked: true},
		"Link fields":              {body: `<rss><channel><item><guid>1</guid></item></channel></rss>`, link: `<%[1]s>; rel="hub", <%[2]s>; rel="self"`, asked: true},
		"rssCloud":                 {body: `{"version":"https://jsonfeed.org/version/1.1","feed_url":"%[2]s","hubs":[{"type":"rssCloud","url":"%[1]s"}],"items":[{"id":"1"}]}`},
		"hubs of items":            {body: `<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id><link rel="hub" href="%[1]s"/><link rel="self" href="%[2]s"/></entry></feed>`},
		"no self":                  {body: `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="%[1]s"/><entry><id>1</id></entry></feed>`},
		"turned off":               {body: `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="%[1]s"/><link rel="self" href="%[2]s"/><entry><id>1</id></entry></feed>`, push: "off"},
		"hubs that are none":       {body: `{"version":"https://jsonfeed.org/version/1.1","hubs":7,"items":[{"id":"1"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			var site, hub string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/hub" {
					asked++
					return
				}
				if test.link != "" {
					w.Header().Set("Link", fmt.Sprintf(test.link, hub, site))
				}
				_, _ = fmt.Fprint(w, strings.NewReplacer("%[1]s", hub, "%[2]s", site).Replace(test.body))
			}))
			defer server.Close()
			site, hub = server.URL+"/feed", server.URL+"/hub"
			config := map[string]string{"url": site}
			if test.push != "" {
				config["push"] = test.push
			}
			raw, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			checker := New(checktest.Client(t, fetch.Options{}), secrets.Source{}).PushedTo("https://rounds.example.com")
			first, err := checker.Check(t.Context(), poller.Request{Account: "a", Config: raw})
			if err != nil || len(first.Messages) != 1 || asked != 0 || first.HasMore != test.asked {
				t.Fatalf("%+v, %v; the hub was asked %d times", first, err, asked)
			}
			second, err := checker.Check(t.Context(), poller.Request{Account: "a", Config: raw, Cursor: first.Cursor})
			if err != nil || second.HasMore || (asked == 1) != test.asked || (Subscription(second.Cursor) != nil) != test.asked {
				t.Errorf("then %+v, %v; the hub was asked %d times", second, err, asked)
			}
			if s := Subscription(second.Cursor); test.asked && (s.Hub != hub || s.Topic != site || s.Asks != 1) {
				t.Errorf("the subscription is %+v", s)
			}
		})
	}
}

// While pushes announce what is found, the feed is fetched every six hours besides. It is at its cadence
// again as soon as a check finds what no push announced, and with pace "account" always.
func TestAPushedFeedRests(t *testing.T) {
	s := newSite(t)
	s.body, s.etag = rss(guids("a")...), `"1"`
	s.more = http.Header{"Link": {"<" + s.url + "/hub>; rel=hub, <" + s.url + "/>; rel=self"}}
	checker := New(checktest.Client(t, fetch.Options{}), secrets.Source{}).PushedTo("https://rounds.example.com")
	var cursor []byte
	check := func(pace, what string) (time.Duration, int) {
		t.Helper()
		var hint json.RawMessage
		if has := Subscription(cursor); what != "" && has != nil {
			hint = websub.Heard{What: what, Lease: 864000, Token: has.Token}.Hint()
		}
		result, err := checker.Check(t.Context(), poller.Request{Account: "a", Config: fmt.Appendf(nil, `{"url":"%s/","pace":%q}`, s.url, pace), Cursor: cursor, Hint: hint})
		if err != nil {
			t.Fatal(err)
		}
		if result.Cursor != nil {
			cursor = result.Cursor
		}
		return result.NextPollAfter, len(result.Messages)
	}
	publish := func(id string) {
		s.body = rss(append(guids(id), guids("a")...)...)
		s.etag += "x"
	}
	if rest, n := check("feed", ""); rest != 0 || n != 1 {
		t.Errorf("first: %v, %d messages", rest, n)
	}
	if rest, _ := check("feed", websub.HeardLease); rest != 0 { // not modified
		t.Errorf("with a lease and no push it rests for %v", rest)
	}
	publish("b")
	if rest, n := check("feed", websub.HeardPush); rest != 6*time.Hour || n != 1 {
		t.Errorf("pushed: %v, %d messages", rest, n)
	}
	if rest, _ := check("account", ""); rest != 0 {
		t.Errorf("at the account's pace it rests for %v", rest)
	}
	if rest, _ := check("feed", ""); rest != 6*time.Hour {
		t.Errorf("between pushes it rests for %v", rest)
	}
	// The push is long ago.
	old := strings.Replace(string(cursor), `"pushed":"`+Subscription(cursor).Pushed.Format(time.RFC3339), `"pushed":"`+time.Now().Add(-time.Hour).Format(time.RFC3339), 1)
	if old == string(cursor) {
		t.Fatalf("no push is noted: %s", cursor)
	}
	cursor = []byte(old)
	publish("c")
	if rest, n := check("feed", ""); rest != 0 || n != 1 {
		t.Errorf("an item that no push announced: %v, %d messages", rest, n)
	}
	publish("d")
	if rest, n := check("feed", websub.HeardPush); rest != 6*time.Hour || n != 1 {
		t.Errorf("pushed again: %v, %d messages", rest, n)
	}
	if rest, _ := check("feed", websub.HeardDenied); rest != 0 {
		t.Errorf("denied it rests for %v", rest)
	}
}
