package pages

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// reload is the number of seconds after which the page about an outage loads again.
const reload = "5"

// failed is what the page about a refusal shows.
type failed struct {
	Status int
	Detail string
	Faults []*api.Fault
	Back   string // where the visitor came from; empty: unknown
	Trail  string // the address of what happened to an account that is not there; empty: unknown

	Again bool      // the page loads again by itself, until it succeeds
	Since time.Time // since when Redis has not served; zero: unknown, or it serves
}

func (s *site) failurePage() *page {
	return s.pages[slices.IndexFunc(s.pages, func(p *page) bool { return p.name == "failure" })]
}

// fail shows why something was refused, with the status that the API gave.
func (s *site) fail(w http.ResponseWriter, v *visit, err error) {
	shown := failed{Status: http.StatusInternalServerError, Detail: v.lang.text("layout.broken")}
	switch refused := refusedFor(err); {
	case refused != nil:
		shown.Status, shown.Detail, shown.Faults = refused.Status, refused.Detail, refused.Errors
	case v.r.Context().Err() != nil:
		shown.Status = http.StatusServiceUnavailable
	default:
		s.options.Log.ErrorContext(v.r.Context(), "a page failed", "path", v.r.URL.Path, "error", err)
	}
	if v.r.Method == http.MethodPost {
		shown.Back = v.r.PostForm.Get("back")
		if shown.Back != "" {
			shown.Back = local(shown.Back)
		}
	}
	if id := v.Query("id"); shown.Status == http.StatusNotFound && id != "" && strings.HasPrefix(v.r.URL.Path, "/account") && v.May("GET /v1/trail") {
		shown.Trail = link("/trail", "account", id)
	}
	if shown.Status == http.StatusServiceUnavailable && v.r.Method == http.MethodGet {
		shown.Again = true
		w.Header().Set("Refresh", reload)
		if s.options.AwaySince != nil {
			shown.Since = s.options.AwaySince()
		}
	}
	p := s.failurePage()
	s.write(w, v, shown.Status, p, &view{visit: v, Page: p.name, Title: v.lang.text("failure.title"), D: shown, Files: s.static})
}

// missing answers requests for pages that do not exist.
func (s *site) missing(w http.ResponseWriter, r *http.Request) {
	v := s.visit(w, r)
	status, detail := http.StatusNotFound, "layout.missing"
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		status, detail = http.StatusMethodNotAllowed, "layout.method"
	}
	s.fail(w, v, refusal(status, v.lang.text(detail)))
}

// failurePage is the page about refusals. It has no address of its own.
func failurePage() *page {
	return &page{name: "failure", path: "/failure", data: unopened("layout.missing")}
}
