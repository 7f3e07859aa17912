package upstream

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// page returns what a feed shows, or answers 304 and returns false.
func (u *Upstream) page(w http.ResponseWriter, r *http.Request, id, contentType string) ([]message, bool) {
	found, tag := u.account(id).newest(u.options.Window)
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil, false
	}
	w.Header().Set("Content-Type", contentType)
	return found, true
}

func (u *Upstream) rss(w http.ResponseWriter, r *http.Request, id string) {
	found, ok := u.page(w, r, id, "application/rss+xml")
	if !ok {
		return
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel><title>%s</title>`, escape(id))
	for _, m := range found {
		fmt.Fprintf(&out, `<item><guid isPermaLink="false">%s</guid><title>%d</title><pubDate>%s</pubDate>%s</item>`,
			escape(MessageID(id, m.number)), m.number, m.posted.Format(time.RFC1123Z), u.enclosure(id, m.number))
	}
	out.WriteString(`</channel></rss>`)
	_, _ = w.Write([]byte(out.String()))
}

func (u *Upstream) atom(w http.ResponseWriter, r *http.Request, id string) {
	found, ok := u.page(w, r, id, "application/atom+xml")
	if !ok {
		return
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom"><title>%s</title>`, escape(id))
	for _, m := range found {
		at := m.posted.Format(time.RFC3339Nano)
		fmt.Fprintf(&out, `<entry><id>%s</id><title>%d</title><published>%s</published><updated>%s</updated></entry>`,
			escape(MessageID(id, m.number)), m.number, at, at)
	}
	out.WriteString(`</feed>`)
	_, _ = w.Write([]byte(out.String()))
}

func (u *Upstream) jsonFeed(w http.ResponseWriter, r *http.Request, id string) {
	found, ok := u.page(w, r, id, "application/feed+json")
	if !ok {
		return
	}
	items := make([]map[string]any, 0, len(found))
	for _, m := range found {
		items = append(items, map[string]any{
			"id": MessageID(id, m.number), "content_text": fmt.Sprint(m.number), "date_published": m.posted.Format(time.RFC3339Nano),
		})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"version": "https://jsonfeed.org/version/1.1", "title": id, "items": items})
}

func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text))
	return out.String()
}
