package sample

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T) *Upstream {
	t.Helper()
	u, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	u.slowest = 0
	t.Cleanup(u.Close)
	return u
}

// do returns the status and the body of an answer.
func do(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSites(t *testing.T) {
	u := start(t)
	member := request(t, "GET", u.URL(Members, "/club-1.xml"), "")
	member.SetBasicAuth("reader", Password)
	stranger := request(t, "GET", u.URL(Members, "/club-1.xml"), "")
	stranger.SetBasicAuth("reader", "wrong")
	for name, c := range map[string]struct {
		request *http.Request
		status  int
		has     string
	}{
		"a feed":             {request(t, "GET", u.URL(News, "/news-1.xml"), ""), 200, "<guid>news-1/1</guid>"},
		"no feed":            {request(t, "GET", u.URL(News, "/news-1"), ""), 404, ""},
		"a page":             {request(t, "GET", u.URL(Blogs, "/blog-1"), ""), 200, `href="/blog-1/feed.xml"`},
		"a page, by a rogue": {request(t, "GET", u.URL(Blogs, "/%3Cscript%3E"), ""), 200, `href="/&lt;script&gt;/feed.xml"`},
		"its feed":           {request(t, "GET", u.URL(Blogs, "/blog-1/feed.xml"), ""), 200, "<guid>blog-1/1</guid>"},
		"broken":             {request(t, "GET", u.URL(Wiki, "/wiki-1.xml"), ""), 500, ""},
		"closed":             {request(t, "GET", u.URL(Wiki, "/closed-1.xml"), ""), 410, ""},
		"busy":               {request(t, "GET", u.URL(Weather, "/weather-1.xml"), ""), 429, ""},
		"a member":           {member, 200, "<guid>club-1/1</guid>"},
		"somebody else":      {request(t, "GET", u.URL(Members, "/club-1.xml"), ""), 401, ""},
		"a wrong password":   {stranger, 401, ""},
		"half a request":     {request(t, "POST", u.URL(Shops, "/shop-1"), "{"), 400, ""},
		"a delivery":         {request(t, "POST", u.URL(Office, "/hook"), `{"type":"x","data":{"type":"chat.text"}}`), 204, ""},
		"a refused delivery": {request(t, "POST", u.URL(Office, "/hook"), `{"type":"x","data":{"type":"order.cancelled"}}`), 400, ""},
	} {
		answer, body := do(t, c.request)
		if answer.StatusCode != c.status || !strings.Contains(body, c.has) {
			t.Errorf("%s: %d %s, want %d with %q", name, answer.StatusCode, body, c.status, c.has)
		}
		if answer.StatusCode == 429 && answer.Header.Get("Retry-After") != "20" {
			t.Errorf("busy for %q", answer.Header.Get("Retry-After"))
		}
	}
	hosts := make(map[string]bool)
	for _, site := range []Site{News, Shops, Blogs, Wiki, Weather, Members, WeChat, Office} {
		hosts[u.Host(site)] = true
	}
	if len(hosts) != 8 || hosts[""] {
		t.Errorf("the sites' hosts are %v", hosts)
	}
}

func TestAShopGoesOnAtTheCursor(t *testing.T) {
	u := start(t)
	u.born = u.born.Add(-time.Hour)
	types := make(map[string]int)
	for _, shop := range []string{"shop-1", "shop-2", "shop-3"} {
		cursor, seen := "", 0
		for {
			_, body := do(t, request(t, "POST", u.URL(Shops, "/"+shop), `{"cursor":"`+cursor+`","limit":50}`))
			var page struct {
				Messages []found
				Next     string `json:"next_cursor"`
			}
			if err := json.Unmarshal([]byte(body), &page); err != nil {
				t.Fatal(err)
			}
			if len(page.Messages) == 0 {
				break
			}
			for _, m := range page.Messages {
				seen++
				if want := u.happened(shop, seen); m.ID != want.ID || m.Type != want.Type {
					t.Errorf("message %d is %s, a %s, want %s, a %s", seen, m.ID, m.Type, want.ID, want.Type)
				}
				types[m.Type]++
			}
			cursor = page.Next
		}
		if least := int(time.Hour / (41 * time.Second)); seen < least {
			t.Errorf("%s had %d messages in an hour, want %d or more", shop, seen, least)
		}
	}
	for _, sort := range []string{"order.created", "order.paid", "chat.text", refused} {
		if types[sort] == 0 {
			t.Errorf("there is no %s among %v", sort, types)
		}
	}
}
