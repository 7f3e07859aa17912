package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"
)

const (
	eventStream = "text/event-stream"
	// liveLasts is how long a stream lasts. The browser then opens it again, and so shows
	// again who the visitor is. No visitor can look on for longer than that without the
	// right.
	liveLasts = 30 * time.Second
	// liveAgain is the time after which a browser opens the stream again.
	liveAgain = time.Second
)

// agoText matches the text of a relative time.
var agoText = regexp.MustCompile(` data-ago>[^<]*<`)

// swap is an event of a live stream: a block of the page that changed.
type swap struct {
	ID   string `json:"id"`
	HTML string `json:"html"`
}

// streams answers the live stream of a page. The first look is sent whole, because the stream
// does not know what the browser has.
func (s *site) streams(p *page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.live.Add(1) > int64(s.options.MaxLive) {
			s.live.Add(-1)
			http.Error(w, "too many live pages are open", http.StatusServiceUnavailable)
			return
		}
		defer s.live.Add(-1)
		w.Header().Set("Content-Type", eventStream)
		out := http.NewResponseController(w)
		if _, err := fmt.Fprintf(w, "retry: %d\n\n", liveAgain.Milliseconds()); err != nil {
			return
		}
		turn, end := time.NewTicker(s.options.Turn), time.NewTimer(liveLasts)
		defer turn.Stop()
		defer end.Stop()
		known := make(map[string]string)
		for {
			if s.send(w, p, s.visit(w, r), known) != nil || out.Flush() != nil {
				return
			}
			select {
			case <-turn.C:
			case <-end.C:
				return
			case <-r.Context().Done():
				return
			case <-s.closing.Done():
				return
			}
		}
	}
}

// send writes the blocks that differ from the known ones. If the page cannot be made now, send
// tries again later. Meanwhile the visitor sees the old page, with a note that it is old.
func (s *site) send(w http.ResponseWriter, p *page, v *visit, known map[string]string) error {
	shown, err := p.view(v)
	if err != nil {
		if v.r.Context().Err() != nil {
			return err
		}
		s.options.Log.DebugContext(v.r.Context(), "a live page could not be made", "page", p.name, "error", err)
		_, err = fmt.Fprint(w, "event: away\ndata: {}\n\n")
		return err
	}
	var out bytes.Buffer
	for _, block := range p.blocks {
		var html bytes.Buffer
		if err := p.templates[v.lang.Tag].ExecuteTemplate(&html, "live/"+block, shown); err != nil {
			s.options.Log.ErrorContext(v.r.Context(), "a block could not be made", "page", p.name, "block", block, "error", err)
			return err
		}
		// Relative times change by themselves, and scripts update them.
		same := agoText.ReplaceAllString(html.String(), "")
		if known[block] == same {
			continue
		}
		known[block] = same
		event, err := json.Marshal(swap{"live-" + block, html.String()})
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "event: swap\ndata: %s\n\n", event)
	}
	fmt.Fprint(&out, "event: looked\ndata: {}\n\n")
	_, err = w.Write(out.Bytes())
	return err
}
