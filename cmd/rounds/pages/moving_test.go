package pages

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// form sends a form with a file, or with the list of a preview.
func (d *desk) form(language string, parts ...formPart) (*httptest.ResponseRecorder, string) {
	d.Helper()
	r := posted(d.T, "/accounts/moving", parts...)
	r.Host = "localhost"
	r.Header.Set("Accept-Language", language)
	w := httptest.NewRecorder()
	d.server.Config.Handler.ServeHTTP(w, r)
	return w, strings.Join(strings.Fields(w.Body.String()), " ")
}

// aList is the form of the preview, in the order in which a browser sends it.
func aList(format, from, name, content string) []formPart {
	return []formPart{{"format", "", format}, {"from", "", from}, {"file", name, content}}
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)

// offered returns the form that imports what a preview shows.
func offered(body string) (parts []formPart) {
	for _, field := range hiddenField.FindAllStringSubmatch(body, -1) {
		if field[1] != "back" && field[1] != "next" {
			parts = append(parts, formPart{field[1], "", field[2]})
		}
	}
	return parts
}

func (d *desk) exported() string {
	d.Helper()
	_, _, body := d.get("/v1/accounts:export")
	return body
}

// A list is shown before it is imported, and what is imported is what was shown.
func TestMovingInOnThePage(t *testing.T) {
	d := newDesk(t)
	if _, _, body := d.get("/accounts"); strings.Count(body, `href="/accounts/moving"`) != 2 {
		t.Errorf("the empty list leads nowhere:\n%s", body)
	}
	status, _, body := d.get("/accounts/moving")
	saying(t, status, 200, body, `enctype="multipart/form-data"`, `type="file"`, `href="/v1/accounts:export?format=opml" download`)
	opml, err := os.ReadFile("../moving/testdata/miniflux.opml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(opml), "<body>", `<body><outline type="rss" text="&lt;b&gt;" xmlUrl="ftp://x/"/>`, 1)
	w, body := d.form("en", aList("", "now", "<i>list.opml", text)...)
	saying(t, w.Code, 200, body, "What an import would do", "&lt;i&gt;list.opml", "<dd>OPML</dd>", "<dt>New accounts</dt><dd><b>3</b></dd>", `<dt>Refused</dt><dd class="bad">1</dd>`,
		"xmlUrl: must be an http or https URL", "crawler: has no counterpart", `name="from" value="now"`)
	if w.Header().Get("Cache-Control") != "no-store" {
		t.Error("a list may have passwords, and would stay in the browser")
	}
	if got := d.exported(); got != "" {
		t.Errorf("the preview wrote %s", got)
	}
	w, done := d.form("zh", offered(body)...)
	saying(t, w.Code, 200, done, "<dt>新账号</dt><dd><b>3</b></dd>", "xmlUrl：必须是 http 或 https 的 URL")
	if got := d.exported(); strings.Count(got, "\n") != 3 || strings.Contains(done, `name="list"`) {
		t.Errorf("imported %s\n%s", got, done)
	}
	w, body = d.form("en", aList("opml", "backfill", "list.opml", text)...)
	saying(t, w.Code, 200, body, "<dt>Unchanged</dt><dd>3</dd>", `name="list"`)
	w, body = d.form("en", aList("", "backfill", "accounts.ndjson", d.exported())...)
	saying(t, w.Code, 200, body, "<dd>records of rounds</dd>", "<dt>Unchanged</dt><dd>3</dd>")
}

func TestListsThatAreNotImported(t *testing.T) {
	d := newDesk(t)
	for name, c := range map[string]struct {
		form []formPart
		code int
		want string
	}{
		"no file":          {aList("", "backfill", "", ""), 422, "Choose a file"},
		"an empty file":    {aList("", "backfill", "a.csv", ""), 422, "Choose a file"},
		"no list":          {nil, 422, "Choose a file"},
		"no base64":        {[]formPart{{"list", "", "a+b="}}, 400, "cannot be read"},
		"cut off":          {aList("", "backfill", "a.opml", "<opml><body>"), 422, "nothing was imported: the list cannot be read"},
		"another format":   {aList("csv", "backfill", "a.opml", "<opml/>"), 422, "is not a column"},
		"an unknown one":   {aList("excel", "backfill", "a.xls", "x"), 422, "must be records, opml"},
		"all lines bad":    {aList("", "backfill", "a.ndjson", strings.Repeat("{}\n", linesShown+7)), 200, "and 7 more lines"},
		"a repeated id":    {aList("", "backfill", "a.csv", "id,url\na,https://a.example/\na,https://a.example/\n"), 200, "has the id of line 2"},
		"too long":         {aList("", "backfill", "a.csv", strings.Repeat("x", maxList+1)), 422, "larger than 4 MiB"},
		"much too long":    {aList("", "backfill", "a.csv", strings.Repeat("x", 2*maxList)), 422, "larger than 4 MiB"},
		"too long a list":  {[]formPart{{"list", "", strings.Repeat("x", 2*maxList)}}, 422, "larger than 4 MiB"},
		"two files":        {append(aList("", "", "a.csv", "id"), formPart{"file", "b.csv", "id"}), 400, "cannot be read"},
		"too many fields":  {make([]formPart, maxParts+1), 400, "cannot be read"},
		"an unknown begin": {aList("", "never", "a.csv", "id\na\n"), 422, "from"},
	} {
		w, body := d.form("en", c.form...)
		if saying(t, w.Code, c.code, body, c.want); c.want != "has the id of line 2" && strings.Contains(body, `name="list"`) {
			t.Errorf("%s can be imported:\n%s", name, body)
		}
	}
	if got := d.exported(); got != "" {
		t.Errorf("imported %s", got)
	}
}

// A viewer may take accounts out, and sees no form. An import that is cut off says so.
func TestMovingOfAViewerAndACut(t *testing.T) {
	reply := `{"line":1,"errors":[{"field":"id","reason":"is missing"}]}` + "\n"
	for _, role := range []access.Role{access.Viewer, access.Editor} {
		pages, err := New(Options{May: api.May, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pages.Close)
		called := 0
		site := pages.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/v1/accounts:import") {
				called++
			}
			_, _ = io.WriteString(w, reply)
		}))
		show := func(r *http.Request) (int, string) {
			w := httptest.NewRecorder()
			site.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Principal{Name: "anna", Role: role, Via: access.ViaSession})))
			return w.Code, w.Body.String()
		}
		may := role == access.Editor
		if status, body := show(httptest.NewRequest("GET", "/accounts/moving", nil)); status != 200 || !strings.Contains(body, "format=opml") || strings.Contains(body, `type="file"`) != may {
			t.Errorf("%s: %d\n%s", role, status, body)
		}
		status, body := show(posted(t, "/accounts/moving", formPart{"list", "", "eA"}))
		if may != (called == 1) || may != strings.Contains(body, "The reply ended early") || may != (status == 200) {
			t.Errorf("%s: %d, called %d times\n%s", role, status, called, body)
		}
	}
	nobody, err := New(Options{May: func(access.Principal, string) bool { return false }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nobody.Close)
	if w := ask(nobody.Handler(answering(`{}`)), "GET", "/accounts/moving"); w.Code != 403 {
		t.Errorf("who may do neither: %d", w.Code)
	}
}
