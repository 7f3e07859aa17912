package pages

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// page is one page of the dashboard.
type page struct {
	name    string   // the NAME of its template assets/pages/NAME.html, and the prefix of its texts
	path    string   // the page's address
	menu    string   // the menu entry to which it belongs; empty: none
	scripts []string // its modules beside main.js, such as messages.js

	// data returns what the template shows as .D. If the API refused something, the page
	// about the refusal is shown, with its status.
	data func(*visit) (any, error)

	// actions carry out the page's forms, by the path to which they are posted.
	actions map[string]action
	// raw are routes that write their own reply, by pattern.
	raw map[string]func(*visit, http.ResponseWriter)

	templates map[string]*template.Template // by language
	blocks    []string                      // the live blocks' names, without live/
}

// action carries out a form. It returns the address to which the browser is sent next: an address
// of the dashboard, usually with said=KEY, for which the texts have an entry said.KEY.
type action func(*visit) (next string, err error)

// view is what a template shows.
type view struct {
	*visit
	Page   string // its name
	In     string // the menu entry to which it belongs
	Title  string
	D      any      // what the page's data returned
	Live   bool     // the page has live blocks
	LiveAt string   // the address whose live blocks they are; empty: the page's own
	Files  *static  // the addresses of assets
	Script []string // the page's own modules
}

// parseFrames reads what all pages share, for every language.
func parseFrames(files fs.FS, languages []*language) (map[string]*template.Template, error) {
	frames := make(map[string]*template.Template)
	for _, l := range languages {
		t, err := template.New("layout.html").Option("missingkey=error").Funcs(l.functions()).ParseFS(files, "assets/pages/layout.html", "assets/pages/parts.html")
		if err != nil {
			return nil, err
		}
		frames[l.Tag] = t
	}
	return frames, nil
}

// parse reads the page's template into a copy of each frame.
func (p *page) parse(files fs.FS, frames map[string]*template.Template, static *static) error {
	p.templates = make(map[string]*template.Template)
	for tag, frame := range frames {
		t, err := frame.Clone()
		if err == nil {
			_, err = t.ParseFS(files, "assets/pages/"+p.name+".html")
		}
		if err != nil {
			return fmt.Errorf("page %s: %w", p.name, err)
		}
		p.templates[tag] = t
		p.blocks = nil
		for _, one := range t.Templates() {
			if block, ok := strings.CutPrefix(one.Name(), "live/"); ok {
				p.blocks = append(p.blocks, block)
			}
		}
		slices.Sort(p.blocks)
	}
	for _, name := range p.scripts {
		if !static.has("js/" + name) {
			return fmt.Errorf("page %s: there is no script %s", p.name, name)
		}
	}
	return nil
}

// lives reports whether the page has changing blocks of its own. The menu alone is no reason to
// listen.
func (p *page) lives() bool { return len(p.blocks) > 1 }

// view returns what the page's template shows to a visitor.
func (p *page) view(v *visit) (*view, error) {
	data, err := p.data(v)
	if err != nil {
		return nil, err
	}
	return p.shown(v, data, p.lives()), nil
}

func (p *page) shown(v *visit, data any, live bool) *view {
	shown := &view{visit: v, Page: p.name, In: p.menu, Title: v.lang.text(p.name + ".title"), D: data, Live: live, Files: v.static, Script: p.scripts}
	if elsewhere, ok := data.(interface{ liveAt() string }); ok {
		shown.LiveAt = elsewhere.liveAt()
	}
	if list, ok := data.(interface{ still() bool }); ok && list.still() {
		shown.Live = false
	}
	return shown
}

// unopened is the data of a page that no address opens.
func unopened(key string) func(*visit) (any, error) {
	return func(v *visit) (any, error) { return nil, refusal(http.StatusNotFound, v.lang.text(key)) }
}

// shows answers a request for a page.
func (s *site) shows(p *page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		shown, err := p.view(v)
		var elsewhere *moved
		switch {
		case errors.As(err, &elsewhere):
			http.Redirect(w, r, local(elsewhere.to), http.StatusSeeOther)
		case err != nil:
			s.fail(w, v, err)
		default:
			s.write(w, v, http.StatusOK, p, shown)
		}
	}
}

// write sends a page. The template is executed in full before the first byte is sent, so that a
// fault in a template gives an honest 500 and not half a page.
func (s *site) write(w http.ResponseWriter, v *visit, status int, p *page, shown *view) {
	var out bytes.Buffer
	if err := p.templates[v.lang.Tag].Execute(&out, shown); err != nil {
		s.options.Log.ErrorContext(v.r.Context(), "a page could not be made", "page", p.name, "error", err)
		http.Error(w, v.lang.text("layout.broken"), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", v.lang.Tag)
	h.Add("Vary", "Accept-Language, Cookie")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // a visitor who has gone needs no answer
}

// acts answers a form.
func (s *site) acts(p *page, do action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		defer func() { v.fileForm.abandon(w) }()
		if !v.readForm(w) {
			return
		}
		next, err := do(v)
		var again *again
		switch {
		case errors.As(err, &again):
			s.write(w, v, again.status, p, p.shown(v, again.data, false))
		case err != nil:
			s.fail(w, v, err)
		default:
			http.Redirect(w, r, local(next), http.StatusSeeOther)
		}
	}
}

// readForm reads the posted form. If it cannot be read, the page about that is shown.
func (v *visit) readForm(w http.ResponseWriter) bool {
	read := func() error { return v.readFileForm(maxForm) }
	if kind, _, err := mime.ParseMediaType(v.r.Header.Get("Content-Type")); err != nil || kind != "multipart/form-data" {
		v.r.Body = http.MaxBytesReader(w, v.r.Body, maxForm)
		read = v.r.ParseForm
	}
	if err := read(); err != nil {
		v.fail(w, v, v.unreadable())
		return false
	}
	return true
}

// unreadable returns the refusal of a form that cannot be read.
func (v *visit) unreadable() error {
	return refusal(http.StatusBadRequest, v.lang.text("layout.unreadable"))
}

// again is the error of an action whose page is shown again, with other data, such as a form and
// its faults.
type again struct {
	status int
	data   any
}

func (a *again) Error() string { return "dashboard: the form is shown again" }

// moved is the error of a page that leads to another one.
type moved struct{ to string }

func (m *moved) Error() string { return "dashboard: the page leads elsewhere" }

// maxForm is the most bytes of a form: a record and its name in a form's encoding.
const maxForm = 512 << 10

// allPages returns all pages.
func allPages() []*page {
	return []*page{
		overviewPage(),
		messagesPage(), messagePage(), deliveryPage(), letterPage(), webhookPage(), sendsPage(), limitsPage(),
		problemsPage(), chartsPage(),
		accountsPage(), bulkPage(), movingPage(), jobsPage(), jobPage(), newPage(), editPage(), weixinPage(), scanPage(), mailPage(), mailCodePage(), mailBackPage(),
		systemPage(), administrationPage(),
		auditRunPage(),
		trailOfAllPage(),
		accountPage(), versionsPage(),
		failurePage(),
	}
}

// Paths returns the paths of all pages, among them those that only a form or a refusal leads to.
func Paths() []string {
	var paths []string
	for _, p := range allPages() {
		paths = append(paths, strings.TrimSuffix(p.path, "{$}"))
	}
	return paths
}

// link returns an address within the dashboard: a path and pairs of a parameter and a value.
// Empty values are left out.
func link(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return address(path, q)
}
