package pages

import (
	"strings"
	"testing"
)

// System shows the last backup, and whether somebody verified it.
func TestTheLastBackupIsShown(t *testing.T) {
	for reply, parts := range map[string][]string{
		`{"now":"2026-11-27T05:00:00Z"}`: {"None that this service knows of", "rounds backup FILE"},
		`{"now":"2026-11-27T05:00:00Z","last":{"ended":"2026-11-27T04:00:00Z","by":"<eve>","bytes":1500,"accounts":3,"messages":1,"with_secrets":true,"verified":"2026-11-27T04:00:01Z","verified_by":"adam"}}`: {
			`badge good`, "verified", "&lt;eve&gt;", "3 accounts", "1 message", "with secrets", "adam",
		},
		`{"now":"2026-11-27T05:00:00Z","last":{"ended":"2026-11-26T04:00:00Z"},"verified":{"ended":"2026-11-20T04:00:00Z","by":"eve"}}`: {"badge warn", "not verified", "The last one that was verified", "without secrets"},
		`{"now":"2026-11-27T05:00:00Z","last":{"ended":"2026-11-06T04:00:00Z","verified":"2026-11-06T04:00:00Z"}}`:                      {"badge warn", ">old<"},
	} {
		site := newSite(t, said(map[string]string{"/v1/system": `{}`, "/v1/backup:last": reply}))
		body := ask(site, "GET", "/system").Body.String()
		for _, part := range parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s: has no %q", reply, part)
			}
		}
	}
}
