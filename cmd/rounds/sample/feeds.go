package sample

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// window is how many items a feed shows.
const window = 20

func (u *Upstream) news(w http.ResponseWriter, r *http.Request) {
	if id, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/"), ".xml"); ok && id != "" {
		u.feed(w, id)
		return
	}
	http.NotFound(w, r)
}

// members is news for clients that know the password.
func (u *Upstream) members(w http.ResponseWriter, r *http.Request) {
	if user, password, ok := r.BasicAuth(); !ok || user != "reader" || password != Password {
		w.Header().Set("WWW-Authenticate", `Basic realm="members"`)
		http.Error(w, "members only", http.StatusUnauthorized)
		return
	}
	u.news(w, r)
}

// blog answers with a web page: what a client gets that mistakes the address of a blog for the
// address of its feed.
func (u *Upstream) blog(w http.ResponseWriter, r *http.Request) {
	id, isFeed := strings.CutSuffix(strings.Trim(r.URL.Path, "/"), "/feed.xml")
	if isFeed && id != "" {
		u.feed(w, id)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, `<!doctype html>
<html lang="en"><head><title>A blog</title><link rel="alternate" type="application/rss+xml" href="/%[1]s/feed.xml"></head>
<body><h1>A blog</h1><p>This is the page. The feed is at <a href="/%[1]s/feed.xml">/%[1]s/feed.xml</a>.</p></body></html>
`, xmlText(strings.Trim(r.URL.Path, "/"))) // a client that has hung up misses nothing
}

func xmlText(text string) string {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(text)) // a strings.Builder never fails
	return escaped.String()
}

// feed answers with the newest items of a feed.
func (u *Upstream) feed(w http.ResponseWriter, id string) {
	type item struct {
		Title string `xml:"title"`
		GUID  string `xml:"guid"`
		Date  string `xml:"pubDate"`
	}
	feed := struct {
		XMLName xml.Name `xml:"rss"`
		Version string   `xml:"version,attr"`
		Title   string   `xml:"channel>title"`
		Items   []item   `xml:"channel>item"`
	}{Version: "2.0", Title: "Sample " + id}
	for n := u.posted(id); n > 0 && len(feed.Items) < window; n-- {
		feed.Items = append(feed.Items, item{
			fmt.Sprintf("News %d of %s", n, id), fmt.Sprintf("%s/%d", id, n), u.postedAt(id, n).Format(time.RFC1123Z),
		})
	}
	w.Header().Set("Content-Type", "application/rss+xml")
	_ = xml.NewEncoder(w).Encode(feed) // a client that has hung up misses nothing
}

func broken(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/closed") {
		http.Error(w, "this wiki has closed", http.StatusGone)
		return
	}
	http.Error(w, "the database is away", http.StatusInternalServerError)
}

func busy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", fmt.Sprint(int(patience.Seconds())))
	http.Error(w, "too many requests", http.StatusTooManyRequests)
}
