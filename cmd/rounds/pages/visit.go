package pages

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// visit is one request to a page.
type visit struct {
	*site
	r    *http.Request
	out  http.ResponseWriter // takes cookies until the page is written
	who  access.Principal
	lang *language

	fileForm *fileForm // the posted form, if it may have a file
	figures  *figures  // what the menu shows; nil: not asked yet

	counted *api.Problems // the problems that the page shows; nil: it shows none
}

func (s *site) visit(w http.ResponseWriter, r *http.Request) *visit {
	who, _ := access.From(r.Context()) // the zero principal may do nothing
	return &visit{site: s, out: w, r: r, who: who, lang: s.languageOf(r)}
}

// Lang returns the language of the page, such as en.
func (v *visit) Lang() string { return v.lang.Tag }

// Languages returns all languages, for the switch.
func (v *visit) Languages() []*language { return v.languages }

// Namespace and Version are for the foot of the menu.
func (v *visit) Namespace() string { return v.options.Namespace }

// Version returns the program's.
func (v *visit) Version() string { return v.options.Version }

// Who returns the visitor's name, role and labels.
func (v *visit) Who() access.Principal { return v.who }

// DemoOn reports whether this is a demonstration.
func (v *visit) DemoOn() bool { return v.options.Demo }

// CanSignOut reports whether the visitor signed in with a session.
func (v *visit) CanSignOut() bool {
	return v.who.Via == access.ViaSession || v.who.Via == access.ViaOIDC
}

// May reports whether the visitor may call a route of the API.
func (v *visit) May(route string) bool { return v.options.May(v.who, route) }

// Here returns the path and the query of this page, without said.
func (v *visit) Here() string {
	q := v.r.URL.Query()
	q.Del("said")
	here := url.URL{Path: strings.TrimPrefix(v.r.URL.Path, "/live"), RawQuery: q.Encode()}
	if v.r.Method != http.MethodGet {
		here.RawQuery = ""
	}
	return here.String()
}

// Said says in words what an action did before the browser was sent here, if it did anything.
func (v *visit) Said() string {
	key := v.r.URL.Query().Get("said")
	if key == "" || !v.lang.has("said."+key) {
		return ""
	}
	return v.lang.text("said." + key)
}

// Query returns a parameter of the page's address.
func (v *visit) Query(name string) string { return v.r.URL.Query().Get(name) }

// With returns this page's address with other parameters: pairs of a name and a value. An empty
// value removes the parameter. Cursors are removed unless they are given, because another filter
// makes them void.
func (v *visit) With(pairs ...string) string {
	q := v.r.URL.Query()
	q.Del("said")
	q.Del("cursor")
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Del(pairs[i])
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return address(strings.TrimPrefix(v.r.URL.Path, "/live"), q)
}

// address returns a path with a query.
func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// local returns an address if it is on this site, and otherwise the Overview's.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(to, "/") ||
		strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}
