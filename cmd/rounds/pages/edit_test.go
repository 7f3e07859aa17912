package pages

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/trial"
)

// saying demands a status and texts of a page.
func saying(t *testing.T, status, want int, body string, texts ...string) {
	t.Helper()
	if status != want {
		t.Errorf("status %d, want %d", status, want)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("no %s in\n%s", text, body)
		}
	}
}

func TestAnAccountIsAdded(t *testing.T) {
	d := newDesk(t)
	status, _, body := d.get("/account/new")
	saying(t, status, 200, body, `href="/account/new?kind=feed"`, "no poller checks this kind now")
	status, _, body = d.get("/account/new?kind=feed&id=a%2Fb")
	saying(t, status, 200, body, `name="config.url"`, "Where the feed is", `name="config.headers.1.secret"`, `value="a/b"`, `<label for="config.url">Address`)
	// Each fault stands at its field, and nothing that was filled in is lost.
	status, _, body = d.post("/account/new", "kind", "feed", "do", "save", "config.url", "ftp://x", "cadence", "often <b>", "labels", "a=b",
		"config.headers.0.name", "Authorization", "config.headers.0.value", "plain")
	saying(t, status, 422, body, `id="config.url-wrong"`, `id="cadence-wrong"`, `id="id-wrong"`, `Authorization: must be {`, `value="often &lt;b&gt;"`, `value="ftp://x"`, ">a=b</textarea>", `value="plain"`)
	status, _, body = d.post("/account/new", "kind", "feed", "do", "save", "id", "x", "labels", "oops")
	saying(t, status, 422, body, "must be NAME=VALUE", "oops")
	status, to, _ := d.post("/account/new", "kind", "feed", "do", "save", "id", "a/b", "config.url", "https://example.com/feed.xml", "cadence", "every 5m", "from", "now",
		"config.headers.0.name", "X-Key", "config.headers.0.value", "KEY", "config.headers.0.secret", "on")
	if status != 303 || to != "/account?id=a%2Fb&said=edit.saved" {
		t.Errorf("%d %s", status, to)
	}
	a, err := d.registry.Get(t.Context(), "a/b")
	if err != nil || a.Cadence != "every 5m" || string(a.Config) != `{"headers":{"X-Key":{"secret":"KEY"}},"url":"https://example.com/feed.xml"}` {
		t.Errorf("saved %+v, %v", a, err)
	}
	status, _, body = d.post("/account/new", "kind", "feed", "do", "save", "id", "a/b", "config.url", "https://example.com/feed.xml")
	saying(t, status, 409, body, "An account already has this id")
	// A kind that declares no fields is filled in as JSON.
	status, _, body = d.get("/account/new?kind=own")
	saying(t, status, 200, body, "declares no fields", `name="record"`)
	status, _, body = d.post("/account/new", "kind", "own", "as", "json", "do", "save", "record", "{")
	saying(t, status, 422, body, "The record is not JSON")
}

func TestATrialIsShownBesideTheForm(t *testing.T) {
	d := newDesk(t)
	hostile := "<script>alert(1)</script>"
	d.tried = &trial.Report{RateKey: "example.com", Pages: []trial.FoundPage{{
		Messages:   []trial.FoundMessage{{ID: hostile, Type: hostile, Data: json.RawMessage(`{"title":"<script>alert(2)</script>"}`)}, {ID: "long", DataBytes: 99_999}},
		NextCursor: hostile, HasMore: true, Warnings: []string{"malformed: " + hostile}, LeftOut: 3,
	}}}
	form := []string{"kind", "feed", "do", "try", "id", "a", "config.url", "https://example.com/feed.xml"}
	status, _, body := d.post("/account/new", form...)
	saying(t, status, 200, body, "The check succeeds", "2 messages found", "3 more are not shown", "99,999 bytes", html.EscapeString(hostile), `value="https://example.com/feed.xml"`)
	if strings.Contains(body, "<script>alert") {
		t.Error("what was found is markup")
	}
	d.tried = &trial.Report{Pages: []trial.FoundPage{}, Error: &trial.Failure{Kind: "auth", Scope: "account", Code: "http_401", Message: "refused " + hostile, Then: trial.RefusalsThenPark, Budget: 3, RetryAfter: 90}}
	status, _, body = d.post("/account/new", form...)
	saying(t, status, 200, body, "The check fails", "park the account after 3 refusals", "http_401", "1 min 30 s", html.EscapeString(hostile))
	status, _, body = d.post("/account/new", "kind", "feed", "do", "try", "id", "", "config.url", "x")
	saying(t, status, 422, body, `id="config.url-wrong"`, `id="id-wrong"`)
	if _, err := d.registry.Get(t.Context(), "a"); err == nil {
		t.Error("a trial has registered the account")
	}
}

func TestAnAccountIsEdited(t *testing.T) {
	d := newDesk(t)
	for _, id := range []string{"/", "..", "new", `"><b>`} {
		d.add(id)
		at := link(editPath, "id", id)
		status, _, body := d.get(at)
		saying(t, status, 200, body, `value="https://example.com/feed.xml"`, ">team=press</textarea>")
		etag := html.UnescapeString(regexp.MustCompile(`name="etag" value="([^"]*)"`).FindStringSubmatch(body)[1])
		form := []string{"kind", "feed", "do", "save", "etag", etag, "config.url", "https://example.com/other.xml"}
		if status, to, _ := d.post(at, form...); status != 303 || to != link("/account", "id", id, "said", "edit.saved") {
			t.Errorf("%s: %d %s", id, status, to)
		}
		// Another change came first: nothing is overwritten unless the visitor confirms
		// it.
		status, _, body = d.post(at, append(form, "cadence", "every 9m")...)
		saying(t, status, 412, body, "Somebody else has changed the account", "other.xml", `value="every 9m"`, "Save all the same")
		etag = html.UnescapeString(regexp.MustCompile(`name="etag" value="([^"]*)"`).FindStringSubmatch(body)[1])
		if status, _, _ := d.post(at, "kind", "feed", "do", "save", "etag", etag, "config.url", "https://example.com/other.xml", "cadence", "every 9m"); status != 303 {
			t.Errorf("%s: said again: %d", id, status)
		}
		if a, err := d.registry.Get(t.Context(), id); err != nil || a.Cadence != "every 9m" || len(a.Labels) != 0 {
			t.Errorf("%s: saved %+v, %v", id, a, err)
		}
	}
	// The form becomes JSON and the other way round, with what was filled in.
	at := link(editPath, "id", "new")
	status, _, body := d.post(at, "kind", "feed", "do", "json", "config.url", "https://example.com/3.xml", "labels", "a=b")
	saying(t, status, 200, body, `name="record"`, "https://example.com/3.xml", "Edit as a form")
	status, _, body = d.post(at, "kind", "feed", "as", "json", "do", "form", "record", `{"kind":"feed","config":{"url":"https://example.com/4.xml"},"labels":{"c":"d"}}`)
	saying(t, status, 200, body, `value="https://example.com/4.xml"`, ">c=d</textarea>")
	status, _, body = d.post(at, "kind", "feed", "as", "json", "do", "form", "record", `{"kind":"feed","config":{"zebra":1}}`)
	saying(t, status, 200, body, "the form cannot show", `name="record"`)
	status, _, body = d.post(at, "kind", "feed", "as", "json", "do", "save", "record", `{"kind":"feed","config":{"url":7},"zebra":1}`)
	saying(t, status, 422, body, "<code>config.url</code>", "<code>zebra</code>")
	if status, _, _ := d.get("/account/edit?id=nobody"); status != 404 {
		t.Errorf("an account that is not there: %d", status)
	}
}

func TestAViewerSeesNoFormAndNoButtons(t *testing.T) {
	site := newSite(t, answering(`{"kinds":[],"accounts":[{"id":"a","kind":"feed","state":{"place":"scheduled"}}]}`))
	w := ask(site, "GET", "/accounts")
	if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, `href="/account?id=a"`) {
		t.Errorf("%d\n%s", w.Code, body)
	}
}
