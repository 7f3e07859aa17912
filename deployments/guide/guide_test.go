package guide

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// top is the repository's top folder.
const top = "../.."

func newHandler(t *testing.T) *Handler {
	t.Helper()
	h := New("/docs/guide")
	if _, err := h.book(); err != nil {
		t.Fatal(err)
	}
	return h
}

func get(t *testing.T, h http.Handler, url string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
	return w
}

func TestEveryPageIsShown(t *testing.T) {
	h := newHandler(t)
	b, _ := h.book()
	if len(b.pages) < 8 {
		t.Errorf("only %d pages", len(b.pages))
	}
	for name, p := range b.pages {
		w := get(t, h, p.Href("/docs/guide"))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<h1") {
			t.Errorf("%q: status %d, without a heading", name, w.Code)
		}
		if got := w.Header().Get("Content-Security-Policy"); got != policy {
			t.Errorf("%q: policy %q", name, got)
		}
	}
	for url, want := range map[string]int{
		"/docs/guide/guide.css": 200, "/docs/guide/connector.schema.json": 200, "/docs/guide/": 200, "/docs/guide/none": 404, "/docs/guide/../secret": 404,
		"/docs/guide?q=" + strings.Repeat("a", maxQuery+1): 400,
	} {
		if w := get(t, h, url); w.Code != want {
			t.Errorf("%s: status %d, want %d", url, w.Code, want)
		}
	}
}

// The dashboard leads to the rows of the table of settings.
func TestSettingsHaveAnchors(t *testing.T) {
	_, table, _ := strings.Cut(get(t, newHandler(t), "/docs/guide/operations?lang=en").Body.String(), `<h2 id="settings"`)
	if n := strings.Count(table, `<tr id="ROUNDS`); n < 80 {
		t.Errorf("%d rows have an anchor", n)
	}
	for _, name := range []string{"ROUNDS_REDIS_URL", "ROUNDS_EGRESS", "ROUNDS_SECRET_NAME"} {
		if strings.Count(table, `<tr id="`+name+`">`) != 1 {
			t.Errorf("%s has no anchor of its own", name)
		}
	}
}

// The first pages say which version they are of: the newest of the changelog.
func TestFirstPagesNameTheVersion(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	newest := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) - \d{4}-\d{2}-\d{2}$`).FindStringSubmatch(read("CHANGELOG.md"))
	if newest == nil {
		t.Fatal("the changelog has no version")
	}
	named := regexp.MustCompile(`(?i)(?:version|对应) (\d+\.\d+\.\d+)`)
	for _, name := range []string{"README.md", "deployments/guide/README.md", "deployments/guide/zh-CN/README.md"} {
		if got := named.FindStringSubmatch(read(name)); got == nil || got[1] != newest[1] {
			t.Errorf("%s says %q, the changelog %q", name, got, newest[1])
		}
	}
}

// A page is also found by the name of its file, as the files link to each other.
func TestFilesLeadToTheirPages(t *testing.T) {
	h := newHandler(t)
	for url, want := range map[string]string{
		"/docs/guide/connectors.md": "/docs/guide/connectors", "/docs/guide/README.md": "/docs/guide", "/docs/guide/zh-CN/README.md": "/docs/guide/zh-CN",
		"/docs/guide/zh-CN/accounts.md?lang=en": "/docs/guide/zh-CN/accounts?lang=en", "/docs/guide/nosuch.md": "", "/docs/guide/accounts.md.md": "",
	} {
		w := get(t, h, url)
		if got := w.Header().Get("Location"); got != want || (want == "") != (w.Code == http.StatusNotFound) {
			t.Errorf("%s: %d, to %q, want %q", url, w.Code, got, want)
		}
	}
}

func TestAMissingPageIsNamedInTheBrowsersLanguage(t *testing.T) {
	for language, want := range map[string]string{"": "there is no such page of the guide\n", "zh-CN": "指南中没有这个页面\n"} {
		r, w := httptest.NewRequest(http.MethodGet, "/docs/guide/nosuch", nil), httptest.NewRecorder()
		r.Header.Set("Accept-Language", language)
		newHandler(t).ServeHTTP(w, r)
		if got := w.Body.String(); w.Code != http.StatusNotFound || got != want {
			t.Errorf("%q: %d %q, want %q", language, w.Code, got, want)
		}
	}
}

func TestALongSearchIsRefusedInTheBrowsersLanguage(t *testing.T) {
	for language, want := range map[string]string{"": "q: must have at most 200 bytes\n", "zh-CN": "q：最多 200 字节\n"} {
		r, w := httptest.NewRequest(http.MethodGet, "/docs/guide/zh-CN?q="+strings.Repeat("a", 201), nil), httptest.NewRecorder()
		r.Header.Set("Accept-Language", language)
		newHandler(t).ServeHTTP(w, r)
		if got := w.Body.String(); w.Code != http.StatusBadRequest || got != want {
			t.Errorf("%q: %d %q, want %q", language, w.Code, got, want)
		}
	}
}

// A browser that asks for Chinese gets Chinese pages, and English ones on demand.
func TestPagesFollowTheBrowser(t *testing.T) {
	h := newHandler(t)
	for _, c := range []struct {
		url, asks, to string
	}{
		{"/docs/guide", "zh-CN,zh;q=0.9,en;q=0.8", "/docs/guide/zh-CN"},
		{"/docs/guide/", "zh-TW", "/docs/guide/zh-CN"},
		{"/docs/guide", "en-GB,en;q=0.9,zh;q=0.1", ""},
		{"/docs/guide", "", ""},
		{"/docs/guide", strings.Repeat("zh,", 100), ""},
		{"/docs/guide?lang=en", "zh-CN", ""},
		{"/docs/guide/accounts", "zh-CN", "/docs/guide/zh-CN/accounts"},
		{"/docs/guide/accounts?lang=en", "zh-CN", ""},
		{"/docs/guide/accounts", "en", ""},
		{"/docs/guide/zh-CN/accounts", "en", ""},
		{"/docs/guide?q=a+b", "zh", "/docs/guide/zh-CN?q=a+b"},
	} {
		r, w := httptest.NewRequest(http.MethodGet, c.url, nil), httptest.NewRecorder()
		r.Header.Set("Accept-Language", c.asks)
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != c.to || (c.to == "") != (w.Code == http.StatusOK) {
			t.Errorf("%s with %q: %d, to %q, want %q", c.url, c.asks, w.Code, got, c.to)
		}
	}
	if w := get(t, h, "/docs/guide/zh-CN"); !strings.Contains(w.Body.String(), `href="/docs/guide?lang=en"`) {
		t.Error("the Chinese page does not lead to the English one")
	}
	for path, link := range map[string]string{
		"/docs/guide":                  `<a href="/docs/guide/zh-CN" lang="zh-CN">`,
		"/docs/guide/accounts":         `<a href="/docs/guide/zh-CN/accounts" lang="zh-CN">`,
		"/docs/guide/accounts?lang=en": `<a href="/docs/guide/zh-CN/accounts" lang="zh-CN">`,
		"/docs/guide/zh-CN/accounts":   `<a href="/docs/guide/accounts?lang=en" lang="en">`,
	} {
		if w := get(t, h, path); !strings.Contains(w.Body.String(), link) {
			t.Errorf("%s has not %s", path, link)
		}
	}
	// Who has chosen English stays there.
	body := get(t, h, "/docs/guide/accounts?lang=en").Body.String()
	for _, link := range regexp.MustCompile(`href="/docs/guide[^"]*"`).FindAllString(body, -1) {
		if !strings.Contains(link, "?lang=en") && !strings.Contains(link, "/zh-CN") && !strings.Contains(link, "guide.css") {
			t.Errorf("%s leads a browser that asks for Chinese away from English", link)
		}
	}
	if !strings.Contains(body, `<input type="hidden" name="lang" value="en">`) || !strings.Contains(body, `href="/docs/guide/operations?lang=en#`) {
		t.Error("a search, or a link with an anchor, forgets English")
	}
}

func TestSearch(t *testing.T) {
	h := newHandler(t)
	body := get(t, h, "/docs/guide?q=quarantine+revive").Body.String()
	if !strings.Contains(body, "/docs/guide/operations#troubleshooting") {
		t.Errorf("not found: %s", body)
	}
	if body := get(t, h, "/docs/guide?q=%3Cscript%3Ealert(1)%3C/script%3E").Body.String(); strings.Contains(body, "<script") {
		t.Error("a query is not escaped")
	}
	if body := get(t, h, "/docs/guide?q=xyzzy").Body.String(); !strings.Contains(body, "Nothing was found") {
		t.Error("finding nothing is not said")
	}
}

func TestLinksBetweenPages(t *testing.T) {
	files := fstest.MapFS{
		"README.md":       {Data: []byte("# A\n\n[b](b.md#x) [c](../../circulate/doc.go) [d](https://example.com) [e](#a) [f](zh-CN/README.md)\n")},
		"b.md":            {Data: []byte("# B\n")},
		"zh-CN/README.md": {Data: []byte("# C\n\n[b](../b.md) [self](README.md#c)\n")},
	}
	pages, err := readPages(files, "/docs/guide")
	if err != nil {
		t.Fatal(err)
	}
	for name, hrefs := range map[string][]string{
		"":      {"/docs/guide/b#x", "https://github.com/rounds-dev/rounds/blob/main/circulate/doc.go", "https://example.com", "#a", "/docs/guide/zh-CN"},
		"zh-CN": {"/docs/guide/b", "/docs/guide/zh-CN#c"},
	} {
		for _, href := range hrefs {
			if !strings.Contains(string(pages[name].Body), `href="`+href+`"`) {
				t.Errorf("%q has no link to %s: %s", name, href, pages[name].Body)
			}
		}
	}
	if _, err := readPages(fstest.MapFS{"bad.md": {Data: []byte("no heading\n")}}, "/"); err == nil {
		t.Error("a page without a heading is taken")
	}
}

// A Chinese heading has the anchor of the English one, for links and for what a search finds.
func TestHeadingsHaveTheAnchorsThatTheyName(t *testing.T) {
	p, err := render([]byte("# 页\n\n## <a id=\"without-a-pause\"></a>不停机\n\n<a id=\"here\"></a>文\n"), "zh-CN/a.md", "/")
	if err != nil {
		t.Fatal(err)
	}
	if body := string(p.Body); !strings.Contains(body, `<h2 id="without-a-pause">不停机</h2>`) || !strings.Contains(body, `<a id="here"></a>`) {
		t.Error(body)
	}
	if got := p.sections[1]; got.anchor != "without-a-pause" || got.title != "不停机" {
		t.Errorf("a search finds %+v", got)
	}
}

// brokenLinks returns the links of a Markdown file that lead nowhere: to a file that is not in
// the tree, or to an anchor that its page does not have.
func brokenLinks(t *testing.T, root fs.FS, file string) (broken []string, links int) {
	t.Helper()
	source, err := fs.ReadFile(root, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(string(source), -1) {
		to, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(to, "://") {
			continue
		}
		links++
		target := file
		if to != "" {
			target = path.Join(path.Dir(file), to)
		}
		if _, err := fs.Stat(root, target); err != nil {
			broken = append(broken, m[1])
			continue
		}
		if anchor == "" || !strings.HasSuffix(target, ".md") {
			continue
		}
		text, err := fs.ReadFile(root, target)
		if err != nil {
			t.Fatal(err)
		}
		rendered, err := render(text, "x.md", "/")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(rendered.Body), `id="`+anchor+`"`) {
			broken = append(broken, m[1])
		}
	}
	return broken, links
}

func TestNoLinkIsBroken(t *testing.T) {
	example := fstest.MapFS{
		"a.md":   {Data: []byte("# A\n\n[1](b.md) [2](b.md#here) [3](#a) [4](gone.md) [5](b.md#gone) [6](https://example.com/gone)\n")},
		"b.md":   {Data: []byte("# B\n\n## Here\n")},
		"c/d.md": {Data: []byte("# D\n")},
	}
	if got, _ := brokenLinks(t, example, "a.md"); strings.Join(got, " ") != "gone.md b.md#gone" {
		t.Fatalf("the check finds %q", got)
	}
	links := 0
	root := os.DirFS(top)
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (file == ".git" || filepath.Base(file) == "testdata" || filepath.Base(file) == "node_modules") {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(file, ".md") {
			return nil
		}
		broken, n := brokenLinks(t, root, file)
		links += n
		for _, link := range broken {
			t.Errorf("%s: %s leads nowhere", file, link)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 40 {
		t.Errorf("only %d links were looked at", links)
	}
}

// Each page in the table of the dashboard's has its picture in both languages, and no picture is left that
// no page shows. That pages beside the table have theirs, the dashboard's own tests hold.
func TestEveryPageOfTheDashboardHasItsPicture(t *testing.T) {
	h := newHandler(t)
	for _, of := range []struct{ language, folder, guide, files string }{{"en", "en", "/docs/guide/", "*.md"}, {"zh-CN", "zh-CN", "/docs/guide/zh-CN/", "zh-CN/*.md"}} {
		body := get(t, h, of.guide+"dashboard?lang=en").Body.String()
		rows := regexp.MustCompile(`<tr>\s*<td>([^<]+)</td>`).FindAllStringSubmatch(body, -1)
		if len(rows) < 9 {
			t.Errorf("%s: the table has %d pages", of.language, len(rows))
		}
		for _, row := range rows {
			if !regexp.MustCompile(`<h3 id="\w+">` + row[1] + `</h3>\s*<p><img src="/docs/guide/assets/` + of.folder + `/\w+\.png"`).MatchString(body) {
				t.Errorf("%s: the page %s has no picture", of.language, row[1])
			}
		}
		var shown []string
		files, err := fs.Glob(sources, of.files)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			page := get(t, h, of.guide+strings.TrimSuffix(path.Base(file), ".md")+"?lang=en").Body.String()
			shown = append(shown, regexp.MustCompile(`/docs/guide/assets/[\w-]+/\w+\.png`).FindAllString(page, -1)...)
		}
		names, err := fs.Glob(pictures, "assets/"+of.folder+"/*.png")
		if err != nil || len(names) != len(shown) {
			t.Errorf("%d pictures are shown, of %d: %v", len(shown), len(names), err)
		}
		for _, src := range shown {
			if w := get(t, h, src); w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), "\x89PNG") || w.Header().Get("Content-Type") != "image/png" {
				t.Errorf("%s: %d %s", src, w.Code, w.Header())
			}
		}
	}
}
