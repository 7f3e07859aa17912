package pages

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
)

// The page shows each change with its values, what a restore would change before it does, and why one
// is refused.
func TestVersionsAreShownAndRestored(t *testing.T) {
	var sent []string
	refuse := ""
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/accounts/a/b/versions":
			_, _ = io.WriteString(w, `{"versions":[{"version":"5-1","until":"2026-11-22T14:00:00Z","by":"<b>anna","address":"10.0.0.1","action":"patch-account",
"changes":[{"field":"config.url","before":"<i>old\u202e","after":"new"},{"field":"labels.<u>","after":{"secret":"K"}}],"record":{}},
{"version":"4-1","until":"2026-11-21T14:00:00Z","by":"x","action":"put-account","fields":["cadence"],"changes":[]}],"next":"n1"}`)
		case r.URL.Path != "/v1/accounts/a/b/restore":
			_, _ = io.WriteString(w, "{}")
		case refuse != "":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, refuse)
		default:
			body, _ := io.ReadAll(r.Body)
			sent = append(sent, r.Header.Get("If-Match")+" "+strings.TrimSpace(string(body)))
			w.Header().Set("ETag", `"3-x"`)
			_, _ = io.WriteString(w, `{"changes":[{"field":"cadence","before":"every 5m","after":"every 1m"}]}`)
		}
	})
	site := siteFor(t, access.Admin, api)
	body := ask(site, "GET", "/account/versions?id=a%2Fb").Body.String()
	contains(t, body, "&lt;b&gt;anna", "&lt;i&gt;old\\u202e", "config.url", "labels.&lt;u&gt;", "{&#34;secret&#34;:&#34;K&#34;}", "What it was before is not stored.", "cadence",
		`href="/account/versions?id=a%2Fb&amp;restore=5-1"`, "cursor=n1")
	lacks(t, body, "<b>anna", "<i>old", "<u>", "restore=4-1", "Restore this version")
	contains(t, ask(site, "GET", "/account/versions?id=a%2Fb&restore=5-1").Body.String(), "every 5m", "every 1m", `value="&#34;3-x&#34;"`, "Restore this version")
	w, _ := post(site, "/account/versions", "id", "a/b", "version", "5-1", "etag", `"3-x"`)
	if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "/account?id=a%2Fb&said=versions.restored" {
		t.Errorf("%d, %s", w.Code, to)
	}
	if got := strings.Join(sent, "\n"); got != " {\"version\":\"5-1\",\"dry_run\":true}\n\"3-x\" {\"version\":\"5-1\"}" {
		t.Errorf("sent\n%s", got)
	}
	refuse = `{"status":422,"detail":"validation failed","errors":[{"location":"body.kind","message":"is not known"}]}`
	body = ask(site, "GET", "/account/versions?id=a%2Fb&restore=5-1").Body.String()
	contains(t, body, "is not known")
	lacks(t, body, "Restore this version")

	lacks(t, ask(siteFor(t, access.Viewer, api), "GET", "/account/versions?id=a%2Fb&restore=5-1").Body.String(), "restore=5-1\"", "is not known")
}
