package pages

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/rounds-dev/rounds/accounts/access"
)

//go:embed assets
var assets embed.FS

// policy is the Content-Security-Policy of every page. Nothing is inline, and nothing comes
// from other hosts.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// Options are what the pages need. May and Log are required.
type Options struct {
	// May reports whether a principal may call a route of the API, such as
	// "POST /v1/accounts/{id}/pause". It decides which buttons are drawn.
	May func(p access.Principal, route string) bool
	Log *slog.Logger

	Namespace string // of the ring, shown to people
	Version   string // of the program
	Demo      bool   // the Overview kills pollers: the API has the routes of a demonstration

	Settings []Setting // of the program, for the finder

	// AwaySince returns the time since which Redis has not served, or zero if it serves. It is nil if
	// nobody knows.
	AwaySince func() time.Time

	MaxLive int           // the most live streams at once; default 256
	Turn    time.Duration // the time between two looks of a live stream; default 2 s
}

// Dashboard makes the pages. It is safe for concurrent use.
type Dashboard struct {
	options   Options
	languages []*language
	static    *static
	pages     []*page

	shared  *shared
	live    atomic.Int64 // streams that are open
	closing context.Context
	close   context.CancelFunc
}

// New makes the pages. An error means that an embedded asset is wrong.
func New(o Options) (*Dashboard, error) {
	o.MaxLive, o.Turn = cmp.Or(o.MaxLive, 256), cmp.Or(o.Turn, 2*time.Second)
	static, err := newStatic(assets)
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	d := &Dashboard{options: o, static: static, shared: newShared()}
	d.closing, d.close = context.WithCancel(context.Background())
	d.pages = allPages()
	if d.languages, err = newLanguages(assets); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	frames, err := parseFrames(assets, d.languages)
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	for _, p := range d.pages {
		if err := p.parse(assets, frames, static); err != nil {
			return nil, fmt.Errorf("dashboard: %w", err)
		}
	}
	return d, nil
}

// Close ends the live streams. Pass it to http.Server.RegisterOnShutdown.
func (d *Dashboard) Close() { d.close() }

// Handler returns the pages for admitted visitors, whose requests carry the principal in their
// context. The pages ask the API by calling inside with that context.
func (d *Dashboard) Handler(inside http.Handler) http.Handler {
	mux := http.NewServeMux()
	s := &site{Dashboard: d, inside: inside}
	for _, p := range d.pages {
		mux.HandleFunc("GET "+p.path, s.shows(p))
		if p.lives() {
			mux.HandleFunc("GET /live"+p.path, s.streams(p))
		}
		for path, action := range p.actions {
			mux.HandleFunc("POST "+path, s.acts(p, action))
		}
		for pattern, handler := range p.raw {
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { handler(s.visit(w, r), w) })
		}
	}
	mux.Handle("GET /assets/", d.static)
	mux.HandleFunc("GET /language", changeLanguage)
	mux.HandleFunc("/", s.missing)
	return secured(compressed(mux))
}

// site is the dashboard on one API.
type site struct {
	*Dashboard
	inside http.Handler
}

// compressed compresses replies, except streams of events, which must not wait in a buffer.
func compressed(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(512), gzhttp.ContentTypeFilter(gzhttp.CompressAllContentTypeFilter))
	if err != nil {
		panic(err) // the options are constant
	}
	packed := wrap(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/live/") {
			next.ServeHTTP(w, r)
			return
		}
		packed.ServeHTTP(w, r)
	})
}

// secured sets the headers of every page.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "same-origin") // a stricter policy would remove the origin of forms
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}
