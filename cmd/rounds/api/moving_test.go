package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/moving"
)

// feedKinds also knows "feed", which accepts any config.
type feedKinds struct{ testKinds }

func (k feedKinds) Validate(kind string, config json.RawMessage) error {
	if kind == "feed" {
		return nil
	}
	return k.testKinds.Validate(kind, config)
}

// movingFixture is a fixture with feeds and a key for secrets, and a caller who may do everything.
func movingFixture(t *testing.T) *fixture {
	k := sealingKey(t)
	return newFixture(t, func(o *Options) {
		o.Registry = accounts.NewRegistry(o.Ring, feedKinds{})
		o.Token, o.Seal = "the-token-of-this-test", func() *secret.PublicKey { return k }
	})
}

// imports sends a list, and returns the lines of the reply before the last, and the last one.
func (f *fixture) imports(query, text string) (lines []string, end ImportEnd) {
	f.Helper()
	got := f.do(f.request("POST", "/v1/accounts:import"+query, text))
	if got.status != http.StatusOK {
		f.Fatalf("%d %s", got.status, got.body)
	}
	lines = strings.Split(strings.TrimSpace(got.body), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &end); err != nil {
		f.Fatal(err)
	}
	return lines[:len(lines)-1], end
}

func (f *fixture) file(name string) string {
	f.Helper()
	text, err := os.ReadFile("../moving/testdata/" + name)
	if err != nil {
		f.Fatal(err)
	}
	return string(text)
}

// A list of another program goes the way of an import: first as a dry run, and then twice.
func TestMovingIn(t *testing.T) {
	f := movingFixture(t)
	for _, c := range []struct {
		file, format   string
		want           ImportSummary
		reported, left int
	}{
		{"miniflux.opml", "opml", ImportSummary{Lines: 3, Created: 3}, 1, 1},
		{"spec.opml", "opml", ImportSummary{Lines: 6, Created: 3, Failed: 3}, 3, 0},
		{"uptime-kuma.json", "uptime-kuma", ImportSummary{Lines: 4, Created: 2, Failed: 2}, 4, 2},
	} {
		text := f.file(c.file)
		before := f.do(f.request("GET", "/v1/accounts:export", "")).body
		lines, end := f.imports("?dry_run=true", text)
		if want := (ImportEnd{Summary: c.want, Format: c.format, DryRun: true}); end != want {
			t.Errorf("%s, dry: %+v", c.file, end)
		}
		if after := f.do(f.request("GET", "/v1/accounts:export", "")).body; after != before {
			t.Errorf("%s: the dry run wrote %s", c.file, after)
		}
		var list SecretList
		if f.call("GET", "/v1/secrets", "", 200, &list); before == "" && len(list.Secrets) != 0 {
			t.Errorf("%s: the dry run stored %+v", c.file, list)
		}
		again, end := f.imports("", text)
		if want := (ImportEnd{Summary: c.want, Format: c.format}); end != want || strings.Join(again, "\n") != strings.Join(lines, "\n") || len(lines) != c.reported {
			t.Errorf("%s: %+v\n%q\n%q", c.file, end, lines, again)
		}
		if left := strings.Count(strings.Join(lines, "\n"), `"left":`); left != c.left {
			t.Errorf("%s: %q", c.file, lines)
		}
		c.want.Unchanged, c.want.Created = c.want.Created, 0
		if _, end := f.imports("", text); end.Summary != c.want {
			t.Errorf("%s, again: %+v", c.file, end)
		}
	}
	var news Account
	f.call("GET", "/v1/accounts/news.example-rss.xml-"+idEnd("https://news.example/rss.xml"), "", 200, &news)
	if news.State.Reason != accounts.StatePaused || news.Cadence != "every 5m" || news.Labels["folder"] != "Sites/News" || news.Labels["team"] != "press" {
		t.Errorf("%+v", news)
	}
	// A password is a secret, bound to its host and kind, and nowhere else.
	var list SecretList
	said := f.call("GET", "/v1/secrets", "", 200, &list).body + f.do(f.request("GET", "/v1/accounts:export", "")).body + f.logs.String()
	if len(list.Secrets) != 2 || list.Secrets[1].Hosts[0] != "paid.example" || list.Secrets[1].Kinds[0] != "feed" || strings.Contains(said, "s3cr3t") {
		t.Errorf("%+v\n%s", list, said)
	}
	if strings.Contains(f.redis.Miniredis().Dump(), "s3cr3t") {
		t.Error("Redis has the password")
	}
}

func idEnd(address string) string {
	id := moving.FeedID(address)
	return id[strings.LastIndexByte(id, '-')+1:]
}

// Who may not store secrets moves in all the rest.
func TestMovingInWithoutTheRightToSecrets(t *testing.T) {
	f := movingFixture(t)
	editor := f.as(f.key(key.New{Name: "ed", Role: access.Editor}))
	lines, end := editor.imports("", f.file("miniflux.json"))
	if end.Summary != (ImportSummary{Lines: 3, Created: 1, Failed: 2}) || !strings.Contains(lines[0], "needs the role admin") || strings.Contains(lines[0], "s3cr3t") {
		t.Errorf("%+v %q", end, lines)
	}
	f.api.options.Seal = nil
	if lines, end := f.imports("", f.file("miniflux.json")); end.Summary.Failed != 2 || !strings.Contains(lines[0], "ROUNDS_SECRETS_KEY") {
		t.Errorf("%+v %q", end, lines)
	}
	// A bound key moves in what has its labels.
	press := f.as(f.key(key.New{Name: "press", Role: access.Editor, Labels: access.Labels{"team": "press"}}))
	if _, end := press.imports("", "id,kind,label.team\na,plain,press\nb,plain,sales\n"); end.Summary.Created != 1 || end.Summary.Failed != 1 {
		t.Errorf("%+v", end)
	}
}

// A record that is refused leaves no secret behind, and a secret that cannot be one its whole line.
func TestMovingInStoresNoSecretsOfRefusedRecords(t *testing.T) {
	f := movingFixture(t)
	for _, c := range []struct{ text, want string }{
		{"url,cadence\nhttps://ann:s3cr3t@a.example/f,now and then\n", "cadence"},
		{"url,id\nhttps://ann:s3cr3t@a.example/f,\x01\n", "id"},
		{"url\nhttps://ann@a.example/f\n", "is missing beside the user"},
		{`[{"feed_url":"https://a.example/f","username":"ann","password":"` + strings.Repeat("x", secret.MaxValue+1) + `"}]`, "must be at most 65536 bytes"},
		{`[{"feed_url":"https://a.example/f","username":"ann","password":"pw","cookie":"` + strings.Repeat("x", secret.MaxValue+1) + `"}]`, "must be at most 65536 bytes"},
	} {
		lines, end := f.imports("", c.text)
		if end.Summary != (ImportSummary{Lines: 1, Failed: 1}) || len(lines) != 1 || !strings.Contains(lines[0], c.want) || strings.Contains(lines[0], "s3cr3t") {
			t.Errorf("%.60s: %+v %q", c.text, end, lines)
		}
	}
	var list SecretList
	if f.call("GET", "/v1/secrets", "", 200, &list); len(list.Secrets) != 0 {
		t.Errorf("left behind: %+v", list.Secrets)
	}
}

// A feed in two folders is one account, in the first, and no fault.
func TestMovingInFeedsOfTwoFolders(t *testing.T) {
	f := movingFixture(t)
	lines, end := f.imports("", f.file("freshrss.opml"))
	if want := (ImportSummary{Lines: 3, Created: 2, Failed: 1}); end.Summary != want {
		t.Errorf("%+v", end)
	}
	if !slices.ContainsFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, `{"line":14,"id":"ab.example-feed-`) && strings.Contains(line, `"left":[{"field":"folder"`)
	}) {
		t.Errorf("%q", lines)
	}
}

func TestMovingInRefuses(t *testing.T) {
	f := movingFixture(t)
	f.errorReply("POST", "/v1/accounts:import?format=excel", "", 422)
	f.errorReply("POST", "/v1/accounts:import?dry_run=perhaps", "", 422)
	for _, c := range []struct{ query, text, want string }{
		{"", "<opml><body><outline xmlUrl='https://a.example/'/>", "nothing was imported: the list cannot be read: line 1: it is not XML"},
		{"", "<html/>", "nothing was imported: the list cannot be read: line 1: OPML begins with <opml>"},
		{"?format=csv", "", "nothing was imported: the list cannot be read: there is no first line that names the columns"},
		{"?format=records", "id,kind\na,plain\n", "nothing was imported: line 1: not a record a line: this looks like CSV"},
		// The last one, because the server closes its connection, which the next request may still find.
		{"", "id,kind\na,plain\n\"" + strings.Repeat("x", 1<<20), "import stopped: 0 of the 1 lines that were read are done; importing everything again is safe: the list cannot be read: a line has more than 262144 bytes"},
	} {
		if _, end := f.imports(c.query, c.text); !strings.HasPrefix(end.Error, c.want) {
			t.Errorf("%.30q: %+v", c.text, end)
		}
	}
}

// A dry run judges as the import does, in the same words.
func TestImportDryRun(t *testing.T) {
	f := newFixture(t, nil)
	f.call("POST", "/v1/accounts", `{"id":"same","kind":"plain"}`, 201, nil)
	f.call("POST", "/v1/accounts", `{"id":"other","kind":"plain"}`, 201, nil)
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "{\"id\":\"new-%d\",\"kind\":\"plain\"}\n", i)
	}
	text.WriteString(`{"id":"same","kind":"plain"}` + "\n" + `{"id":"other","kind":"plain","cadence":"every 5m"}` + "\n" + `{"id":"bad","kind":"web"}` + "\n")
	lines, end := f.imports("?dry_run=true", text.String())
	if want := (ImportEnd{DryRun: true, Summary: ImportSummary{Lines: 303, Created: 300, Updated: 1, Unchanged: 1, Failed: 1}}); end != want || len(lines) != 1 {
		t.Errorf("%+v %q", end, lines)
	}
	if got := f.do(f.request("GET", "/v1/accounts:export", "")).body; strings.Count(got, "\n") != 2 || strings.Contains(got, "5m") {
		t.Errorf("it wrote %s", got)
	}
	var entries struct {
		Entries []json.RawMessage `json:"entries"`
	}
	f.call("GET", "/v1/trail", "", 200, &entries)
	if n := len(entries.Entries); n != 2 {
		t.Errorf("the trail has %d entries", n)
	}
}

// Feeds go out as OPML and come in again as they were, in their folders.
func TestOPMLExport(t *testing.T) {
	f := movingFixture(t)
	f.imports("", `{"id":"a","kind":"feed","config":{"url":"https://a.example/f?a=1&b=2"},"cadence":"every 5m","labels":{"folder":"x/y","title":"A & B"}}
{"id":"b","kind":"feed","config":{"url":"https://b.example/f"}}
{"id":"c","kind":"plain"}
`)
	got := f.do(f.request("GET", "/v1/accounts:export?format=opml", ""))
	if got.status != 200 || !strings.HasPrefix(got.header.Get("Content-Type"), "text/x-opml") || got.header.Get("Rounds-Left-Out") != "1" {
		t.Fatalf("%d %v\n%s", got.status, got.header, got.body)
	}
	if lines, end := f.imports("", got.body); end.Summary != (ImportSummary{Lines: 2, Unchanged: 2}) || len(lines) != 0 {
		t.Errorf("%+v %q\n%s", end, lines, got.body)
	}
	if got := f.do(f.request("GET", "/v1/accounts:export?format=opml&label=folder%3Dx/y", "")); strings.Contains(got.body, "b.example") || got.header.Get("Rounds-Left-Out") != "0" {
		t.Errorf("%s", got.body)
	}
	f.errorReply("GET", "/v1/accounts:export?format=csv", "", 422)
	f.errorReply("GET", "/v1/accounts:export?format=opml&with_state=true", "", 422)
	full := feedCollector{feeds: make([]moving.Outline, moving.MaxEntries)}
	if _, err := full.Write([]byte(`{"id":"a","kind":"feed","config":{"url":"https://a.example/"}}`)); err == nil {
		t.Error("a list may be of any length")
	}
}
