package signin

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/locale"
)

// Pages are where people sign in and out. They work without
// JavaScript, load nothing from other sites, and are in English and Chinese.
//
// When an identity provider sends a browser back, that request comes from another site. The
// browser does not send cookies with SameSite=Strict along. So each sign-in under way is in a
// cookie of its own, sealed, with SameSite=Lax and a life of ten minutes. After the sign-in a page of this service sends the browser on. That request comes from the same
// site, so it has the session's cookie. Links from other sites lead on in the same way: see Onward.

//go:embed assets
var assets embed.FS

const policy = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const (
	// Path is the path of the sign-in page.
	Path = "/signin"
	// maxForm is the most bytes of a form. maxNext is the most bytes of the address to which
	// a browser is sent after signing in.
	maxForm = 8 << 10
	maxNext = 1024
)

// Options are what the pages need. Door and Log are required.
type Options struct {
	Door     Door
	People   *Provider // nil: there is no identity provider
	At       string    // the pages' public address, such as https://rounds.example
	Unneeded bool      // the service can be used without signing in
	Home     string    // where people go after signing in, such as / for a dashboard; empty: to the sign-in page
	Log      *slog.Logger
}

// Pages serves the pages.
type Pages struct {
	options Options
	page    *template.Template
}

// NewPages returns the pages. An error means that the embedded template is wrong.
func NewPages(o Options) (*Pages, error) {
	page, err := template.ParseFS(assets, "assets/signin.html", "assets/head.html")
	if err != nil {
		return nil, fmt.Errorf("sign-in page: %w", err)
	}
	return &Pages{options: o, page: page}, nil
}

// Each calls add with the pattern and the handler of every route. None of them needs
// authentication.
func (p *Pages) Each(add func(pattern string, handler func(http.ResponseWriter, *http.Request))) {
	add("GET "+Path, p.show)
	add("POST "+Path, p.signIn)
	add("POST /signout", p.signOut)
	add("GET "+Path+"/start", p.start)
	add("GET "+CallbackPath, p.callback)
	add("GET "+Path+"/signin.css", css)
}

func css(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	http.ServeFileFS(w, r, assets, "assets/signin.css")
}

// view is the data of a page.
type view struct {
	T         text
	Problem   string
	Name      string // of the person who is signed in
	Role      string
	Labels    string
	Next      string // where to send the browser after signing in
	Onward    string // where to send the browser now
	Elsewhere string // where to sign out of the provider too
	People    bool
	Unneeded  bool
	Home      string // the dashboard; empty: none
}

func (p *Pages) write(w http.ResponseWriter, r *http.Request, status int, v view) {
	v.T, v.People, v.Home = textFor(r), p.options.People != nil, p.options.Home
	v.Unneeded = v.Unneeded || p.options.Unneeded
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", v.T.Lang)
	h.Set("Vary", "Accept-Language")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin") // a stricter policy would remove the origin of forms
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if v.Onward != "" {
		h.Set("Refresh", "0; url="+v.Onward)
	}
	w.WriteHeader(status)
	if err := p.page.Execute(w, v); err != nil {
		p.options.Log.DebugContext(r.Context(), "a sign-in page was not written", "error", err)
	}
}

// show serves the sign-in page, which also shows who is signed in.
func (p *Pages) show(w http.ResponseWriter, r *http.Request) {
	v := view{Next: p.next(r.URL.Query().Get("next"))}
	who, _, err := p.options.Door.Who(r)
	switch {
	case err == nil:
		v.Name, v.Role, v.Labels = who.Name, who.Role.String(), who.Labels.String()
	case errors.Is(err, ErrNone), errors.Is(err, ErrOver), errors.Is(err, ErrForeign):
	default:
		p.fail(w, r, v, err)
		return
	}
	p.write(w, r, http.StatusOK, v)
}

func (p *Pages) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		p.write(w, r, http.StatusBadRequest, view{Problem: textFor(r).TooLarge, Next: p.next("")})
		return
	}
	v := view{Next: p.next(r.PostForm.Get("next"))}
	if _, err := p.options.Door.SignIn(w, r, strings.TrimSpace(r.PostForm.Get("secret"))); err != nil {
		p.fail(w, r, v, err)
		return
	}
	http.Redirect(w, r, v.Next, http.StatusSeeOther)
}

func (p *Pages) signOut(w http.ResponseWriter, r *http.Request) {
	v := view{Next: p.next("")}
	ended, err := p.options.Door.SignOut(w, r)
	if err != nil {
		p.fail(w, r, v, err)
		return
	}
	if v.Elsewhere = p.elsewhere(r, ended); v.Elsewhere != "" {
		p.write(w, r, http.StatusOK, v)
		return
	}
	http.Redirect(w, r, Path, http.StatusSeeOther)
}

// elsewhere returns the address at which a person whose session has ended can sign out of the
// identity provider too. It is empty if there is none, or if the provider is away.
//
// The browser is not sent there unasked: that would also end what the person does at other
// services, and may end at a page of the provider that leads nowhere.
func (p *Pages) elsewhere(r *http.Request, ended Session) string {
	if p.options.People == nil || ended.Via != access.ViaOIDC {
		return ""
	}
	address, err := p.options.People.SignOut(r.Context(), ended.IDToken(), p.options.At+Path)
	if err != nil {
		p.options.Log.WarnContext(r.Context(), "the identity provider could not be used", "error", err)
		return ""
	}
	return address
}

// fail shows why signing in or out failed. It logs errors that the person did not cause.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, v view, err error) {
	t := textFor(r)
	var tooMany TooManyError
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, ErrWrong):
		status, v.Problem = http.StatusUnauthorized, t.Refused
	case errors.Is(err, ErrForeign):
		status, v.Problem = http.StatusForbidden, t.Foreign
	case errors.Is(err, ErrPlain):
		status, v.Problem = http.StatusForbidden, t.Plain
	case errors.As(err, &tooMany):
		status, v.Problem = http.StatusTooManyRequests, fmt.Sprintf(t.TooMany, tooMany.Seconds())
		w.Header().Set("Retry-After", fmt.Sprint(tooMany.Seconds()))
	case errors.Is(err, errAway):
		p.options.Log.WarnContext(r.Context(), "the identity provider could not be used", "error", err)
		status, v.Problem = http.StatusBadGateway, t.ProviderAway
	case errors.Is(err, errStale):
		status, v.Problem = http.StatusBadRequest, fmt.Sprintf(t.Stale, p.options.At+Path)
	case errors.Is(err, errRefused):
		status, v.Problem = http.StatusUnauthorized, t.NotVouched
	case r.Context().Err() != nil:
		v.Problem = t.Away
	default:
		p.options.Log.ErrorContext(r.Context(), "request failed", "doing", "sign in or out", "error", err)
		v.Problem = t.Away
	}
	p.write(w, r, status, v)
}

// next returns where to send the browser after signing in: to next, or home if that is empty.
func (p *Pages) next(next string) string {
	if (next == "" || next == Path) && p.options.Home != "" {
		return p.options.Home
	}
	return local(next)
}

// local returns next if it is an address of this service, and the sign-in page otherwise.
// It rejects an address that would change when it is parsed and escaped again, because it
// might then lead elsewhere.
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || len(next) > maxNext || u.String() != next || strings.ContainsRune(next, '\\') ||
		!strings.HasPrefix(next, "/") || strings.HasPrefix(u.Path, "//") || u.Scheme != "" || u.Host != "" || u.User != nil {
		return Path
	}
	return next
}

// named returns the view with the name and the rights of the person who is signed in.
func named(v view, who access.Principal) view {
	v.Name, v.Role, v.Labels = who.Name, who.Role.String(), who.Labels.String()
	return v
}

// awayReload is after how many seconds the page about an outage loads again.
const awayReload = 5

// Away answers a browser with 503 and a page that says that Redis cannot be used, for what
// reason and since when, and that loads again by itself until that is over. A zero time is
// not shown. It is for requests that cannot be authenticated meanwhile.
func Away(w http.ResponseWriter, r *http.Request, reason string, since time.Time) {
	t := textFor(r)
	h := w.Header()
	h.Set("Vary", "Accept-Language")
	h.Set("Refresh", fmt.Sprint(awayReload))
	h.Set("Retry-After", fmt.Sprint(awayReload))
	alone(w, http.StatusServiceUnavailable, "away.html", t, struct {
		T      text
		Reason string
		Since  time.Time
	}{t, locale.Asked(r.Header).Translate(reason), since.UTC()})
}

// alone writes a page that needs no Pages.
func alone(w http.ResponseWriter, status int, file string, t text, data any) {
	page, err := template.ParseFS(assets, "assets/"+file, "assets/head.html")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", t.Lang)
	h.Set("Content-Security-Policy", policy)
	w.WriteHeader(status)
	_ = page.Execute(w, data) // a caller that has gone needs no answer
}

// FromElsewhere reports whether a browser follows a link on another site, in a chat or in a mail to a page
// of this service, and would show it in a window of its own. With such a request it sends no session, or
// one that does not count, because that page might have been opened by anybody.
func FromElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Method == http.MethodGet && (site == "cross-site" || site == "same-site") &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && local(r.URL.RequestURI()) == r.URL.RequestURI()
}

// Onward answers a request that is FromElsewhere with a page that leads to the same address once more:
// that request comes from this service. The browser goes there by itself if unasked is true, or else
// once its user has said so.
func Onward(w http.ResponseWriter, r *http.Request, unasked bool) {
	t, status := textFor(r), http.StatusForbidden
	h := w.Header()
	h.Set("Vary", "Accept-Language, Sec-Fetch-Site")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if unasked {
		status = http.StatusOK
		h.Set("Refresh", "0; url="+r.URL.RequestURI())
	}
	alone(w, status, "onward.html", t, struct {
		T    text
		Next string
	}{t, r.URL.RequestURI()})
}

// Style serves the style sheet of the pages.
func Style(w http.ResponseWriter, r *http.Request) { css(w, r) }
