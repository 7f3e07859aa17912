package moving

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"

	"github.com/rounds-dev/rounds/testing/processes"
)

// Large documents, which one goroutine reads, run without the race detector.
func TestMain(m *testing.M) { os.Exit(processes.Apart(m, "TestBounds").Run()) }

// shown returns an entry as one line, to be compared.
func shown(e Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d ", e.Line)
	if e.Faults != nil {
		fmt.Fprintf(&b, "%s %s", e.Faults[0].Field, e.Faults[0].Reason)
		return b.String()
	}
	if e.Again > 0 {
		fmt.Fprintf(&b, "again %d: %s %s", e.Again, e.Left[0].Field, e.Left[0].Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "%s %s %s", e.Account.ID, e.Account.Kind, e.Account.Config)
	for _, name := range slices.Sorted(maps.Keys(e.Account.Labels)) {
		fmt.Fprintf(&b, " %s=%s", name, e.Account.Labels[name])
	}
	if e.Account.Cadence != "" {
		fmt.Fprintf(&b, " %q", e.Account.Cadence)
	}
	if e.Paused {
		b.WriteString(" paused")
	}
	for _, s := range e.Secrets {
		fmt.Fprintf(&b, " (%s %s %s)", s.Name, s.Value, s.Host)
	}
	for _, left := range e.Left {
		fmt.Fprintf(&b, " -%s", left.Field)
	}
	return b.String()
}

// readAll reads a list as the API does.
func readAll(t testing.TB, text io.Reader, want Format) (entries []string, err error) {
	in := Plain(text)
	if f := Recognise(in); f != want {
		t.Fatalf("it is recognised as %s", f)
	}
	for e, err := range Read(want, in) {
		if err != nil {
			return entries, err
		}
		entries = append(entries, shown(e))
	}
	return entries, nil
}

// The files are in the form of each program's writer, with feeds that do not exist. miniflux.opml
// was written by internal/reader/opml/serializer.go of Miniflux 106cdd09; freshrss.opml follows
// app/views/helpers/export/opml.phtml of FreshRSS 6c58b905, netnewswire.opml OPMLFile of
// NetNewsWire, miniflux.json Feed in internal/model/feed.go, uptime-kuma.json downloadBackup in
// src/components/settings/Backup.vue of Uptime Kuma 1.23.16.
func TestListsOfOtherPrograms(t *testing.T) {
	for _, c := range []struct {
		file   string
		format Format
		want   []string
	}{
		{"miniflux.opml", OPML, []string{
			`9 comics.example-feed.json-e6b8a8a0b6 feed {"url":"https://comics.example/feed.json"} folder=All title=Comics -crawler -userAgent`,
			`12 go.example-blog-feed.atom-x feed {"url":"https://go.example/blog/feed.atom?format=xml&lang=en"} folder=Programming title=Go <Blog> & more`,
			`15 news.example-rss-x feed {"url":"https://news.example/rss"} folder=新闻 title=每日新闻 paused`,
		}},
		{"freshrss.opml", OPML, []string{
			`9 ab.example-feed-x feed {"url":"https://ab.example/feed"} folder=Blogs title=A & B -CURLOPT_COOKIE -priority`,
			`10 json.example-feed.json-x feed {"url":"https://json.example/feed.json"} folder=Blogs title=JSON`,
			`11 type is a page that the other program scrapes, and no feed; a connector can do that`,
			`14 again 9: folder has no counterpart: the feed is in that of line 9 too, and an account has one`,
		}},
		{"netnewswire.opml", OPML, []string{
			`8 loose.example-atom.xml-x feed {"url":"https://loose.example/atom.xml"} title=Loose`,
			`10 swift.example-news.rss-x feed {"url":"http://swift.example/news.rss"} folder=Apple & co title=Swift`,
		}},
		{"spec.opml", OPML, []string{
			`7 cafe.example-rss-x feed {"url":"http://cafe.example/rss?a=1&b=2"} folder=Outer/Inner title=Café é`,
			`11 boston.example-rss-x feed {"url":"https://boston.example/rss"} folder=Boston/Weather title=Boston`,
			`12 type is another list, which is not fetched: import that one too`,
			`13 xmlUrl is missing`,
			`14 xmlUrl must be an http or https URL`,
			`15 private.example-feed-x feed {"login":{"password":{"secret":"password-x"},"user":"ann"},"url":"https://private.example:8443/feed?token=t0k3n"} title=private (password-x s3cr3t private.example:8443)`,
		}},
		{"miniflux.json", Miniflux, []string{
			`2 go.example-blog-feed.atom-x feed {"url":"https://go.example/blog/feed.atom"} folder=Programming title=Go`,
			`3 paid.example-feed-x feed {"headers":{"Cookie":{"secret":"cookie-x"}},"login":{"password":{"secret":"password-x"},"user":"ann"},"url":"https://paid.example/feed"} folder=All title=Paid paused (password-x s3cr3t paid.example) (cookie-x sid=c00k13 paid.example) -crawler -user_agent`,
			`4 feed is not a feed as Miniflux writes it`,
		}},
		{"uptime-kuma.json", UptimeKuma, []string{
			`7 news.example-rss.xml-x feed {"url":"https://news.example/rss.xml"} folder=Sites/News team=press title=Headlines urgent=true "every 5m" paused -keyword`,
			`8 url does not look like a feed's: rounds finds messages, and does not say whether a page is up. If it is a feed, add it by itself`,
			`9 type is "ping": rounds finds messages, and does not say whether something is up`,
			`10 paid.example-feed-x feed {"login":{"password":{"secret":"password-x"},"user":"ann"},"url":"https://paid.example/feed/"} title=Paid "every 1m" (password-x s3cr3t paid.example) -headers`,
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			text, err := os.ReadFile("testdata/" + c.file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := readAll(t, bytes.NewReader(text), c.format)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i] = digests.ReplaceAllString(got[i], "-x")
			}
			for i := range c.want {
				c.want[i] = digests.ReplaceAllString(c.want[i], "-x")
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			// Cut anywhere, a document is no list: not even its beginning counts.
			for i := range 20 {
				cut := len(bytes.TrimSpace(text)) * i / 20
				for e, err := range Read(c.format, bytes.NewReader(text[:cut])) {
					if !isUnreadable(err) {
						t.Fatalf("cut at %d: %v %v", cut, e, err)
					}
				}
			}
		})
	}
}

// The rows of a database are as sqlite3 -json writes them: numbers in place of truth, and nothing of
// tags. A monitor that is there twice is one account.
func TestRowsOfUptimeKuma(t *testing.T) {
	const rows = `[{"id":1,"name":"News","active":1,"user_id":1,"interval":60,"url":null,"type":"group","parent":null,"basic_auth_user":null},
{"id":2,"name":"On","active":1,"interval":300,"url":"https://on.example/feed","type":"http","parent":1,"basic_auth_user":null,"basic_auth_pass":null,"method":"GET","ignore_tls":0,"upside_down":1},
{"id":3,"name":"Off","active":0,"interval":60,"url":"https://off.example/rss","type":"keyword","parent":null,"method":"GET","keyword":"item"},
{"id":4,"name":"Unsaid","url":"https://unsaid.example/atom.xml","type":"http"},
{"id":5,"name":"On","active":1,"interval":20,"url":"https://on.example/feed","type":"http","parent":1,"basic_auth_user":"ann","basic_auth_pass":"s3cr3t"},
{"id":6,"name":"Soon","active":1,"interval":-1,"url":"https://soon.example/feed","type":"http"},
{"id":7,"name":"Sent","url":"https://sent.example/feed","type":"http","method":"POST"}]
`
	got, err := readAll(t, strings.NewReader(rows), UptimeKuma)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`2 on.example-feed-x feed {"url":"https://on.example/feed"} folder=News title=On "every 5m" -upside_down`,
		`3 off.example-rss-x feed {"url":"https://off.example/rss"} title=Off "every 1m" paused -keyword`,
		`4 unsaid.example-atom.xml-x feed {"url":"https://unsaid.example/atom.xml"} title=Unsaid`,
		`5 again 2: url is the feed of line 2 again; the first one counts`,
		`6 interval `,
		`7 method must be GET: a feed is not asked otherwise`,
	}
	for i := range got {
		if got[i] = digests.ReplaceAllString(got[i], "-x"); i >= len(want) || got[i] != want[i] && (i != 4 || !strings.HasPrefix(got[i], want[i])) {
			t.Errorf("got %s", got[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d entries", len(got))
	}
}

// An id is a promise: the same feed must get the same one for ever.
func TestFeedID(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/feed.xml":       "example.com-feed.xml-7a775db75c",
		"http://example.com/feed.xml":        "example.com-feed.xml-d9a14ab1eb",
		"https://www.example.com/a/?key=abc": "example.com-a-3fa3cdc5a2",
		"https://例え.jp/é":                    "jp-3ca41340b0",
		"https://日本/":                        "feed-0da382dd8f",
		"https://a.example/" + long("p"):     "a.example-" + strings.Repeat("p", 50) + "-7bc6d84aa1",
	} {
		if got := FeedID(address); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
	if FeedID("https://a.example/x-y") == FeedID("https://a.example/x/y") || FeedID("https://a.example/?a") == FeedID("https://a.example/?b") {
		t.Error("two feeds have one id")
	}
	if id := FeedID("https://a.example/?token=t0k3n"); strings.Contains(id, "t0k3n") {
		t.Error(id)
	}
}

func long(text string) string { return strings.Repeat(text, 300) }

func TestTables(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"comma", "id,kind,url,cadence,label.team,config.pace\na,feed,https://a.example/f,every 5m,press,account\n\n\"b\",feed,\"https://b.example/,\",,\"x\"\"y\",\n",
			`2 a feed {"pace":"account","url":"https://a.example/f"} team=press "every 5m"; 4 b feed {"url":"https://b.example/,"} team=x"y`},
		{"Excel", "\ufeffURL;Title;Folder;Paused\r\nhttps://a.example/f;Eins;Presse;yes\r\n", `2 a.example-f-x feed {"url":"https://a.example/f"} folder=Presse title=Eins paused`},
		{"tab", "id\tkind\tconfig.host\tconfig.port\tconfig.password.secret\nm\timap\tmail.example\t993\tMAIL\n", `2 m imap {"host":"mail.example","password":{"secret":"MAIL"},"port":993}`},
		{"one column", "url\nhttps://a.example/1\nhttps://a.example/2", `2 a.example-1-x feed {"url":"https://a.example/1"}; 3 a.example-2-x feed {"url":"https://a.example/2"}`},
		{"other kinds", "id,kind,url\nc,http,https://c.example/check\n", `2 c http {"url":"https://c.example/check"}`},
		{"login", "url,label.a\nhttps://ann:pw@a.example/f,1\n", `2 a.example-f-x feed {"login":{"password":{"secret":"password-x"},"user":"ann"},"url":"https://a.example/f"} a=1 (password-x pw a.example)`},
		{"faults", "id,url,paused,config.a.b,config.a\na,ftp://x,,,\nb,,maybe,,\nc,,,1,2,3\nd,\"x\"y,,\ne,https://e.example/,,,\n",
			`2 url must be an http or https URL; 3 paused must be true or false; 4 record has 6 columns, and the first line names 5; 5 record line 5, column 5: a quote is out of place; a cell with one stands in quotes, and the quote in it twice; 6 e feed {"url":"https://e.example/"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readAll(t, strings.NewReader(c.text), CSV)
			for i := range got {
				got[i] = digests.ReplaceAllString(got[i], "-x")
			}
			if all := strings.Join(got, "; "); err != nil || all != c.want {
				t.Errorf("%v\n got %s\nwant %s", err, all, c.want)
			}
		})
	}
	wide, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String("id\turl\n日\thttps://a.example/\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(t, strings.NewReader(wide), CSV); err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "2 日 feed ") {
		t.Errorf("UTF-16: %q, %v", got, err)
	}
	for text, want := range map[string]string{
		"id,nonsense\n":            `line 1, column 2: "nonsense" is not a column: there are cadence, folder, id, kind, paused, priority, title, url, label.NAME and config.NAME`,
		"id,url,id\n":              `line 1, column 3: there are two columns "id"`,
		"":                         "there is no first line that names the columns",
		"id,\"" + long("id,") + "": "a quote is out of place",
	} {
		for e, err := range Read(CSV, strings.NewReader(text)) {
			if !isUnreadable(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v %v", text, e, err)
			}
		}
	}
}

func TestRecognise(t *testing.T) {
	for text, want := range map[string]Format{
		"":                                       Records,
		" \n\t":                                  Records,
		`{"id":"a","kind":"feed"}`:               Records,
		"{\n  \"id\": \"a\"":                     Records,
		`[{"id":"a"}]`:                           Records,
		"a,b\n":                                  Records, // no column is known
		"{id,url}\n":                             Records,
		long(long("x")):                          Records,
		"\n\ufeff<?xml?>":                        Records,
		"\ufeff<?xml?>":                          OPML,
		"<opml>":                                 OPML,
		`[{"id":1,"feed_url":"u"}]`:              Miniflux,
		`[{"id":1,"type":"http","interval":60}]`: UptimeKuma,
		`{ "version":"1.23"`:                     UptimeKuma,
		"SQLite format 3\x00":                    UptimeKuma,
		"kind;ID\n":                              CSV,
		"url":                                    CSV,
	} {
		if got := Recognise(Plain(strings.NewReader(text))); got != want {
			t.Errorf("%.30q: %s", text, got)
		}
	}
	// It decides as soon as it can: the other end may wait for an answer.
	in, out := io.Pipe()
	defer in.Close()
	go func() { _, _ = io.WriteString(out, `{"id":`) }()
	if got := Recognise(Plain(in)); got != Records {
		t.Error(got)
	}
}

func TestBounds(t *testing.T) {
	deep := func(n int) string {
		return "<opml><body>" + strings.Repeat("<outline text='a'>", n) + strings.Repeat("</outline>", n) + "</body></opml>"
	}
	many := func(n int, one, between string) string {
		return strings.Repeat(one+between, n-1) + one
	}
	for _, c := range []struct {
		name   string
		format Format
		text   string
		want   string // empty: it is read
	}{
		{"deep", OPML, deep(maxDepth - 2), ""},
		{"too deep", OPML, deep(maxDepth - 1), "nested more than 64 deep"},
		{"many", OPML, "<opml>" + many(MaxEntries, "<outline xmlUrl='u'/>", "") + "</opml>", ""},
		{"too many", OPML, "<opml>" + many(MaxEntries+1, "<outline xmlUrl='u'/>", "") + "</opml>", "more than 100000 entries"},
		{"attributes", OPML, "<opml><outline " + many(maxToken/4, "a=''", "") + "/></opml>", "an element has more than 262144 bytes"},
		{"large", OPML, "<opml>" + strings.Repeat(" ", MaxDocument) + "</opml>", "more than 16777216 bytes"},
		{"entities", OPML, `<!DOCTYPE o [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><opml><outline text="&b;" xmlUrl="https://a.example/"/></opml>`, ""},
		{"a bare quote", OPML, "<opml><body>\n<outline description=\"a \"b\"\" xmlUrl=\"https://a.example/\"/></body></opml>", "line 2: it is not XML; within an attribute"},
		{"bare ampersands", OPML, "<opml><body><outline text='a & b' xmlUrl='https://a.example/?a&b=1'/></body></opml>", ""},
		{"other XML", OPML, "<rss/>", "OPML begins with <opml>"},
		{"many monitors", UptimeKuma, `{"monitorList":[` + many(MaxEntries+1, "{}", ",") + "]}", "more than 100000 entries"},
		{"deep JSON", Miniflux, `[{"feed_url":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}]", "nested more than 32 deep"},
		{"database", UptimeKuma, "SQLite format 3\x00", "sqlite3 -json kuma.db"},
		{"no monitors", UptimeKuma, `{"version":"1"}`, "no monitorList"},
		{"an open quote", CSV, "id\n\"" + strings.Repeat("a", 2*rowBudget), "a quote may be open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var last error
			for _, err := range Read(c.format, strings.NewReader(c.text)) {
				last = err
			}
			if c.want == "" && last != nil || c.want != "" && (!isUnreadable(last) || !strings.Contains(last.Error(), c.want)) {
				t.Errorf("got %v", last)
			}
		})
	}
	// A table may be of any length.
	n := 0
	for e, err := range Read(CSV, io.MultiReader(strings.NewReader("id,url\n"), strings.NewReader(strings.Repeat("a,https://a.example/f\n", MaxEntries+1)))) {
		if n++; err != nil || e.Faults != nil {
			t.Fatal(e, err)
		}
	}
	if n != MaxEntries+1 {
		t.Errorf("%d lines", n)
	}
	broken := errors.New("broken")
	for _, f := range Formats()[1:] {
		var last error
		for _, err := range Read(f, io.MultiReader(strings.NewReader("id\n"), failing{broken})) {
			last = err
		}
		if !errors.Is(last, broken) || isUnreadable(last) {
			t.Errorf("%s: %v", f, last)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// What is written is read again: ids, folders, titles and cadences.
func TestOPMLRoundTrip(t *testing.T) {
	feeds := []Outline{
		{ID: "plain", URL: "https://a.example/f"},
		{ID: "每日 <&\">", URL: "https://b.example/f?a=1&b='", Title: "T <&\"'>", Folder: "新闻/a & b", Cadence: "every 5m"},
		{ID: "c", URL: "https://c.example/", Title: "same", Folder: "新闻"},
		{ID: "d", URL: "https://d.example/", Title: "same", Folder: "新闻/a & b/deep"},
		{ID: "e", URL: "https://e.example/", Folder: strings.TrimSuffix(strings.Repeat("x/", 120), "/"), Cadence: "cron 0 9 * * MON-FRI Asia/Shanghai"},
	}
	var want []string
	for _, f := range feeds {
		want = append(want, fmt.Sprint(f))
	}
	text := WriteOPML(feeds)
	var got []string
	for e, err := range Read(OPML, bytes.NewReader(text)) {
		if err != nil || e.Faults != nil || e.Left != nil {
			t.Fatal(e, err)
		}
		url, _, _ := strings.Cut(strings.TrimPrefix(string(e.Account.Config), `{"url":"`), `"}`)
		got = append(got, fmt.Sprint(Outline{e.Account.ID, url, e.Account.Labels["title"], e.Account.Labels["folder"], e.Account.Cadence}))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q\n%s", got, want, text)
	}
	if empty, err := readAll(t, bytes.NewReader(WriteOPML(nil)), OPML); err != nil || len(empty) != 0 {
		t.Errorf("%q, %v", empty, err)
	}
}

func FuzzRead(f *testing.F) {
	files, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile("testdata/" + file.Name()); err == nil {
			f.Add(text)
		}
	}
	f.Add([]byte("id;url;config.a.b\na;https://u:p@a.example/;1\n"))
	f.Add([]byte("\xff\xfeu\x00r\x00l\x00\n\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		in := Plain(bytes.NewReader(text))
		format := Recognise(in)
		if format == Records {
			return
		}
		lines := bytes.Count(text, []byte("\n")) + 1
		for e, err := range Read(format, in) {
			switch {
			case err != nil:
				if !isUnreadable(err) && e.Line != 0 {
					t.Errorf("%v %v", e, err)
				}
			case e.Line < 1 || e.Line > lines && !bytes.ContainsAny(text, "\x00"):
				t.Errorf("line %d of %d", e.Line, lines)
			case e.Faults == nil:
				for _, s := range e.Secrets {
					if len(s.Value) > 3 && bytes.Contains(e.Account.Config, []byte(`"`+s.Value+`"`)) && s.Value != "feed" && !strings.Contains(string(e.Account.Config), `"user":"`+s.Value) {
						t.Errorf("the record has the secret: %s", e.Account.Config)
					}
				}
			}
		}
	})
}

// digests are the ends of ids and names.
var digests = regexp.MustCompile(`-([0-9a-f]{10}|x)\b`)

func isUnreadable(err error) bool {
	_, ok := errors.AsType[*UnreadableError](err)
	return ok
}
