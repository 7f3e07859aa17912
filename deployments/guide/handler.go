package guide

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rounds-dev/rounds/cmd/rounds/locale"
)

//go:embed assets/page.html
var pageHTML string

//go:embed assets/guide.css
var css []byte

// pictures are those of the dashboard's pages, in a folder for each language.
//
//go:embed assets/en assets/zh-CN
var pictures embed.FS

//go:embed connector.schema.json
var connectorSchema []byte

// ConnectorSchema returns the JSON Schema of the protocol between rounds and a
// connector. The page about connectors links to it.
func ConnectorSchema() []byte { return slices.Clone(connectorSchema) }

const policy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const (
	maxQuery = 200 // the most bytes of a search
	chinese  = "zh-CN"
)

// Handler shows the guide at a path and below it: each page at its name, and with
// ?q=WORDS the sections that have these words. A browser that asks for Chinese is led from
// an English page to the Chinese one. If the address has ?lang=en it is not, and all links of
// the page have that too. It is safe for concurrent use.
type Handler struct {
	prefix string
	book   func() (*book, error)
}

// A book is the guide as it is shown at a path.
type book struct {
	prefix  string
	pages   map[string]*page
	shell   *template.Template
	english *regexp.Regexp // matches links to English pages: their address, and the text behind it
}

// New returns the handler for a prefix, such as "/docs/guide". It renders the pages when the first is
// asked for, because most processes show none.
func New(prefix string) *Handler {
	return &Handler{prefix, sync.OnceValues(func() (*book, error) { return newBook(prefix) })}
}

// newBook renders the pages. An error is one of the program, which any test finds.
func newBook(prefix string) (*book, error) {
	pages, err := readPages(sources, prefix)
	if err != nil {
		return nil, err
	}
	shell, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return nil, err
	}
	var english []string
	for _, p := range pages {
		if p.Language != chinese {
			english = append(english, regexp.QuoteMeta(p.Href(prefix)))
		}
	}
	links, err := regexp.Compile(`(href="(?:` + strings.Join(english, "|") + `))(["#])`)
	if err != nil {
		return nil, err
	}
	return &book{prefix: prefix, pages: pages, shell: shell, english: links}, nil
}

// order is the order of pages in the menu. Other pages follow by name.
var order = []string{"README", "dashboard", "accounts", "weixin", "telegram", "mail", "connectors", "messages", "installing", "operations", "signin", "access", "scaling", "embedding", "backup", "moving", "upgrading"}

// menu returns the pages of a language.
func (b *book) menu(tag string) []*page {
	var pages []*page
	for _, p := range b.pages {
		if p.Language == tag {
			pages = append(pages, p)
		}
	}
	rank := func(p *page) int {
		name := strings.TrimPrefix(strings.TrimPrefix(p.Name, chinese), "/")
		if i := slices.Index(order, cmp.Or(name, "README")); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortFunc(pages, func(a, b *page) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name)) })
	return pages
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.Trim(strings.TrimPrefix(r.URL.Path, h.prefix), "/")
	switch name {
	case "guide.css":
		serveFile(w, "text/css; charset=utf-8", css)
		return
	case "connector.schema.json":
		serveFile(w, "application/schema+json", connectorSchema)
		return
	}
	if strings.HasSuffix(name, ".png") {
		if picture, err := pictures.ReadFile(name); err == nil {
			serveFile(w, "image/png", picture)
			return
		}
	}
	b, err := h.book()
	if err != nil {
		http.Error(w, "the guide cannot be shown", http.StatusInternalServerError)
		return
	}
	b.show(w, r, name)
}

// show answers with the page of a name.
func (b *book) show(w http.ResponseWriter, r *http.Request, name string) {
	p := b.pages[name]
	if file, ok := strings.CutSuffix(name, ".md"); ok { // the name of the page's file in the repository
		p = b.pages[strings.Trim(strings.TrimSuffix(file, "README"), "/")]
		if p != nil {
			http.Redirect(w, r, (&url.URL{Path: p.Href(b.prefix), RawQuery: r.URL.RawQuery}).String(), http.StatusFound)
			return
		}
	}
	if p == nil {
		w.Header().Set("Vary", "Accept-Language")
		http.Error(w, locale.Asked(r.Header).Translate("there is no such page of the guide"), http.StatusNotFound)
		return
	}
	other := b.other(p)
	asked := r.URL.Query().Has("lang")
	if p.Language != chinese {
		w.Header().Set("Vary", "Accept-Language")
		if !asked && locale.Asked(r.Header) == locale.Chinese && other.Language == chinese {
			http.Redirect(w, r, (&url.URL{Path: other.Href(b.prefix), RawQuery: r.URL.RawQuery}).String(), http.StatusFound)
			return
		}
	}
	query := r.URL.Query().Get("q")
	if len(query) > maxQuery {
		w.Header().Set("Vary", "Accept-Language")
		http.Error(w, locale.Asked(r.Header).Translate("q: must have at most 200 bytes"), http.StatusBadRequest)
		return
	}
	menu := b.menu(p.Language)
	view := struct {
		*page
		Prefix, Query string
		Other         *page
		Asked         bool
		Menu          []*page
		Hits          []hit
	}{p, b.prefix, query, other, asked, menu, search(menu, query)}
	var out bytes.Buffer
	if err := b.shell.Execute(&out, view); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	shown := out.Bytes()
	if p.Language == chinese || asked {
		shown = b.english.ReplaceAll(shown, []byte("${1}?lang=en${2}"))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(shown)
}

// other returns the page in the other language, or the first one of that language.
func (b *book) other(p *page) *page {
	name, first := strings.Trim(strings.TrimPrefix(p.Name, chinese), "/"), ""
	if p.Language != chinese {
		name, first = path.Join(chinese, p.Name), chinese
	}
	return cmp.Or(b.pages[name], b.pages[first], p)
}

func serveFile(w http.ResponseWriter, contentType string, content []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(content) // after an error the caller has gone
}

// Href returns the path of a page below the handler's prefix.
func (p *page) Href(prefix string) string { return path.Join(prefix, p.Name) }
