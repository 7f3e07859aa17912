package pages

import (
	"bufio"
	"context"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
)

// newSite returns the pages on an API that answers as told, for a viewer.
func newSite(t *testing.T, inside http.HandlerFunc) http.Handler {
	t.Helper()
	d, err := New(Options{
		May: func(p access.Principal, _ string) bool { return p.May(access.Viewer) },
		Log: slog.New(slog.DiscardHandler), Namespace: "press", Version: "v1",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	pages := d.Handler(inside)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := access.With(r.Context(), access.Principal{Name: "anna", Role: access.Viewer, Via: access.ViaSession})
		pages.ServeHTTP(w, r.WithContext(ctx))
	})
}

func ask(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func answering(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// A refusal of the API is shown in the visitor's language, also to visitors who share its reply.
func TestRefusalsAreInTheVisitorsLanguage(t *testing.T) {
	site := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"status":422,"detail":"validation failed","errors":[{"location":"query.since","message":"must be one duration such as 1h"}]}`)
	})
	for _, path := range []string{"/", "/accounts", "/problems", "/account?id=a"} {
		for cookie, want := range map[string][]string{
			"en": {"validation failed", "must be one duration such as 1h"},
			"zh": {"校验未通过", "必须是一个时长，例如 1h"},
		} {
			w := ask(site, "GET", path, "Cookie", languageCookie+"="+cookie)
			for _, text := range want {
				if !strings.Contains(w.Body.String(), text) {
					t.Errorf("%s in %s: %d, lacks %s in\n%s", path, cookie, w.Code, text, w.Body)
				}
			}
		}
	}
}

func TestPageIsSafeAndInTheVisitorsLanguage(t *testing.T) {
	site := newSite(t, answering(`{}`))
	for _, c := range []struct{ name, accept, cookie, want string }{
		{"default", "", "", `<html lang="en">`},
		{"browser's", "zh-CN,zh;q=0.9", "", `<html lang="zh">`},
		{"chosen", "zh-CN", languageCookie + "=en", `<html lang="en">`},
		{"unknown choice", "zh", languageCookie + "=xx", `<html lang="zh">`},
	} {
		w := ask(site, "GET", "/", "Accept-Language", c.accept, "Cookie", c.cookie)
		if w.Code != 200 || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d, %.80s, want %s", c.name, w.Code, w.Body, c.want)
		}
		if got := w.Header().Get("Content-Security-Policy"); got != policy {
			t.Errorf("%s: policy %q", c.name, got)
		}
	}
}

func TestRefusalsAreShownWithTheirStatusAndTheirFields(t *testing.T) {
	site := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"status":403,"detail":"the role <b>admin</b> is needed","errors":[{"location":"role","message":"must be admin"}]}`)
	})
	w := ask(site, "GET", "/")
	body := w.Body.String()
	if w.Code != http.StatusForbidden || !strings.Contains(body, "the role &lt;b&gt;admin&lt;/b&gt; is needed") || !strings.Contains(body, "must be admin") {
		t.Errorf("%d\n%s", w.Code, body)
	}
	for path, want := range map[string]int{"/nowhere": 404, "/assets/0/style.css": 404, "/failure": 404, "/live/nowhere": 404} {
		if w := ask(site, "GET", path); w.Code != want {
			t.Errorf("GET %s: %d, want %d", path, w.Code, want)
		}
	}
	if w := ask(site, "POST", "/"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /: %d", w.Code)
	}
}

func TestBrokenReplyIsNoHalfPage(t *testing.T) {
	for name, body := range map[string]string{"no JSON": "oops", "too large": strings.Repeat("x", maxReply+1)} {
		if w := ask(newSite(t, answering(body)), "GET", "/"); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "</html>") {
			t.Errorf("%s: %d %.100s", name, w.Code, w.Body)
		}
	}
}

func TestAssetsAreKeptForEverUnderTheirDigest(t *testing.T) {
	site := newSite(t, answering(`{}`))
	addresses := regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`).FindAllStringSubmatch(ask(site, "GET", "/").Body.String(), -1)
	if len(addresses) < 3 {
		t.Fatalf("only %d assets", len(addresses))
	}
	for _, a := range addresses {
		w := ask(site, "GET", a[1])
		if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("GET %s: %d %v", a[1], w.Code, w.Header())
		}
	}
}

func TestNothingLeadsAwayFromTheSite(t *testing.T) {
	site := newSite(t, answering(`{}`))
	for next, want := range map[string]string{
		"/accounts?state=failing": "/accounts?state=failing", "https://evil.example/": "/", "//evil.example": "/", `/\evil.example`: "/",
		"javascript:alert(1)": "/", "": "/", "/a\r\nX: y": "/",
	} {
		w := ask(site, "GET", link("/language", "to", "zh", "next", next))
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != want {
			t.Errorf("%q leads to %d %q, want %q", next, w.Code, got, want)
		}
	}
}

func TestSearchFindsAnAccountOrWhatHasIt(t *testing.T) {
	site := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.EscapedPath() == "/v1/accounts/a%2Fb%3Fc":
		case r.URL.Path == "/v1/accounts" && r.URL.Query().Get("part") == "b=2":
			_, _ = io.WriteString(w, `{"accounts":[{"id":"a?b=2"}]}`)
		case r.URL.Path == "/v1/accounts":
			_, _ = io.WriteString(w, `{"accounts":[]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	feed := "https://press.example/" + strings.Repeat("新", 100) + "/"
	for q, want := range map[string]string{
		" a/b?c ": "/account?id=a%2Fb%3Fc", "a/b": "/accounts?part=a%2Fb", "": "/accounts", "..": "/accounts?part=..",
		"team=press": "/accounts?label=team%3Dpress", "team=": "/accounts?part=team%3D", "b=2": "/accounts?part=b%3D2",
		"http://press.example/feed?key=1": "/account/new?id=press.example%2Ffeed&kind=feed&url=http%3A%2F%2Fpress.example%2Ffeed%3Fkey%3D1",
		feed:                              link(newPath, "id", "press.example/"+strings.Repeat("新", (mostID-14)/3), "kind", "feed", "url", feed),
		"http://":                         "/accounts?part=http%3A%2F%2F", "http://me:secret@press.example/": "/accounts?part=http%3A%2F%2Fme%3Asecret%40press.example%2F",
		"ftp://press.example/feed": "/accounts?part=ftp%3A%2F%2Fpress.example%2Ffeed",
	} {
		w := ask(site, "GET", link("/search", "q", q))
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != want {
			t.Errorf("%q leads to %d %q, want %q", q, w.Code, got, want)
		}
	}
}

func TestLiveStreamSendsWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n int
		site := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
			n++
			scheduled := "7"
			if n > 2 {
				scheduled = "8"
			}
			_, _ = io.WriteString(w, `{"accounts":{"registered":9,"scheduled":`+scheduled+`}}`)
		})
		r, w := io.Pipe()
		out := &pipeWriter{w: w, header: make(http.Header)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			site.ServeHTTP(out, httptest.NewRequest("GET", "/live/", nil).WithContext(ctx))
			_ = w.Close()
			close(ended)
		}()
		var events []string
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() && len(events) < 60 {
			if line := lines.Text(); strings.HasPrefix(line, "event: ") || strings.HasPrefix(line, "data: {\"id") {
				events = append(events, strings.SplitN(line, `","html`, 2)[0])
			}
			if len(events) > 0 && slices.Index(events, "event: looked") >= 0 && strings.Count(strings.Join(events, "\n"), "looked") == 3 {
				break
			}
		}
		cancel()
		_ = r.Close()
		<-ended
		got := strings.Join(events, "\n")
		if strings.Count(got, `data: {"id":"live-menu`) != 1 {
			t.Errorf("the menu did not change and is sent once: %s", got)
		}
		if !strings.Contains(got, "event: looked\nevent: looked") && strings.Count(got, "looked") != 3 {
			t.Errorf("events: %s", got)
		}
	})
}

type pipeWriter struct {
	w      io.Writer
	header http.Header
}

func (p *pipeWriter) Header() http.Header         { return p.header }
func (p *pipeWriter) WriteHeader(int)             {}
func (p *pipeWriter) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p *pipeWriter) Flush()                      {}

func TestStreamsEndWithTheDashboardAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := New(Options{May: func(access.Principal, string) bool { return true }, Log: slog.New(slog.DiscardHandler), MaxLive: 1})
		if err != nil {
			t.Fatal(err)
		}
		pages := d.Handler(answering(`{}`))
		first := httptest.NewRecorder()
		ended := make(chan struct{})
		go func() {
			pages.ServeHTTP(first, httptest.NewRequest("GET", "/live/", nil))
			close(ended)
		}()
		synctest.Wait()
		if w := ask(pages, "GET", "/live/"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a second stream: %d", w.Code)
		}
		d.Close()
		<-ended
		began := time.Now()
		again, err := New(Options{May: func(access.Principal, string) bool { return true }, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ask(again.Handler(answering(`{}`)), "GET", "/live/")
		if took := time.Since(began); took != liveLasts {
			t.Errorf("a stream lasts %s", took)
		}
	})
}

// verbs are the arguments that a text names.
var verbs = regexp.MustCompile(`%(?:\[\d\]s|%)`)

func TestTextsAreTheSameInAllLanguages(t *testing.T) {
	languages, err := newLanguages(assets)
	if err != nil {
		t.Fatal(err)
	}
	first := languages[0]
	for _, l := range languages {
		for key, text := range l.texts {
			if rest := verbs.ReplaceAllString(text, ""); strings.Contains(rest, "%") {
				t.Errorf("%s %s: %q has a percent sign that is neither %%%% nor %%[n]s", l.Tag, key, text)
			}
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s %s: empty", l.Tag, key)
			}
			one := strings.HasSuffix(key, ".one")
			other, ok := first.texts[key]
			if !ok && !one {
				t.Errorf("%s has %s, %s has not", l.Tag, key, first.Tag)
			}
			named := func(text string) []string {
				return slices.Compact(slices.Sorted(slices.Values(verbs.FindAllString(text, -1))))
			}
			if ok && !one && !slices.Equal(named(text), named(other)) {
				t.Errorf("%s %s: %q and %q name other arguments", l.Tag, key, text, other)
			}
		}
		for key := range first.texts {
			if !l.has(key) && !strings.HasSuffix(key, ".one") {
				t.Errorf("%s lacks %s", l.Tag, key)
			}
		}
	}
	used := regexp.MustCompile(`\{\{-?\s*(?:t|th)\s+"([^"]+)"|\((?:t|th) "([^"]+)"`)
	for name, content := range files(t, "assets/pages/*.html") {
		for _, found := range used.FindAllStringSubmatch(content, -1) {
			if key := found[1] + found[2]; !first.has(key) {
				t.Errorf("%s: there is no text %s", name, key)
			}
		}
	}
}

// files returns the contents of embedded files by name.
func files(t *testing.T, pattern string) map[string]string {
	t.Helper()
	names, err := fs.Glob(assets, pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(names), err)
	}
	contents := make(map[string]string)
	for _, name := range names {
		content, err := fs.ReadFile(assets, name)
		if err != nil {
			t.Fatal(err)
		}
		contents[name] = string(content)
	}
	return contents
}

func TestNothingIsInline(t *testing.T) {
	inline := regexp.MustCompile(`(?i)\sstyle\s*=|\son[a-z]+\s*=|javascript:|<style|<script(?:\s[^>]*)?>[^<]`)
	for name, content := range files(t, "assets/pages/*.html") {
		if found := inline.FindString(content); found != "" {
			t.Errorf("%s: %q is inline", name, found)
		}
	}
	for _, bad := range []string{`<p style="x">`, `<a onclick="x">`, `<script>x</script>`, `<script type="module">x`} {
		if !inline.MatchString(bad) {
			t.Errorf("%s is not found", bad)
		}
	}
}

// TestStyleSheetsEndWhatTheyBegin holds because they are concatenated: a block that one leaves open
// would contain all that follow.
func TestStyleSheetsEndWhatTheyBegin(t *testing.T) {
	depth := func(sheet string) int { return strings.Count(sheet, "{") - strings.Count(sheet, "}") }
	for name, content := range files(t, "assets/css/*.css") {
		if n := depth(content); n != 0 {
			t.Errorf("%s: %d blocks are left open", name, n)
		}
	}
	if depth("@media (max-width: 1px) { a { color: red; }") != 1 {
		t.Error("an open block is not found")
	}
}

func TestScriptsStaySmall(t *testing.T) {
	const most = 700
	lines := 0
	for name, content := range files(t, "assets/js/*.js") {
		n := strings.Count(content, "\n")
		lines += n
		t.Logf("%s: %d lines", name, n)
	}
	if lines > most {
		t.Errorf("our own scripts have %d lines, at most %d", lines, most)
	}
}

func TestFormats(t *testing.T) {
	languages, err := newLanguages(assets)
	if err != nil {
		t.Fatal(err)
	}
	en, zh := languages[0], languages[1]
	got := map[string]string{
		"grouped":   en.number(1000000),
		"few":       en.number(0.3125),
		"share":     en.percent(0.0031),
		"tiny":      en.percent(0.00001),
		"ms":        en.duration(34 * time.Millisecond),
		"seconds":   en.duration(1.25),
		"minutes":   en.duration(192 * time.Second),
		"days":      en.duration(71 * time.Hour),
		"zh":        zh.duration(192 * time.Second),
		"size":      en.size(int64(1536 << 10)),
		"one":       en.text("layout.processes", 1),
		"many":      en.text("layout.processes", 1700),
		"unknown":   en.text("no.such%text", 1),
		"html":      string(en.html("layout.namespace", "<i>")),
		"html bold": string(en.html("layout.namespace", marked("b", "<i>"))),
	}
	want := map[string]string{
		"grouped": "1,000,000", "few": "0.31", "share": "0.31 %", "tiny": "< 0.01 %", "ms": "34 ms", "seconds": "1.2 s", "minutes": "3 min 12 s",
		"days": "2 d 23 h", "zh": "3 分钟 12 秒", "size": "1.5 MiB", "one": "1 process", "many": "1,700 processes", "unknown": "no.such%text",
		"html": "namespace &lt;i&gt;", "html bold": "namespace <b>&lt;i&gt;</b>",
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s: %q, want %q", name, got[name], want[name])
		}
	}
}
