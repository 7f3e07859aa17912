package pages

import (
	"strings"
	"testing"
)

// System says when memory is full at this rate.
func TestTheOutlookOfMemoryIsShown(t *testing.T) {
	for memory, parts := range map[string][]string{
		`{"used_bytes":1000000000,"limit_bytes":1300000000,"per_day_bytes":25000000,"over_seconds":604800,"full_seconds":1036800}`: {"fills up", "Memory grows by ", " a day", "At this rate it is full in "},
		`{"used_bytes":1000,"per_day_bytes":-5,"over_seconds":604800}`:                                                             {"does not grow"},
	} {
		body := ask(newSite(t, said(map[string]string{"/v1/system": `{"memory":` + memory + `}`})), "GET", "/system").Body.String()
		for _, part := range parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s: has no %q", memory, part)
			}
		}
	}
}

// System says how many more accounts fit, and what each bound allows.
func TestTheCapacityIsShown(t *testing.T) {
	const some = `{"capacity":{"room":0.3,"bound":"places","bounds":[{"bound":"places","used":1,"most":2,"room":0.3},{"bound":"memory","used":1,"most":99,"room":10},{"bound":"<new>","used":1,"most":2,"room":1}]}}`
	for system, parts := range map[string][]string{
		some: {"There is room for 30", "more accounts like these", "places of pollers +30", "memory up to the mark ten times as many", "&lt;new&gt; +100"},
		`{"capacity":{"room":0.05,"bound":"held","bounds":[{"bound":"held","room":0.05}]}}`: {"nearly full", "places for held checks"},
		`{"capacity":{"room":10,"bound":"held","bounds":[{"bound":"held","room":10}]}}`:     {"room for ten times as many"},
	} {
		body := ask(newSite(t, said(map[string]string{"/v1/system": system})), "GET", "/system").Body.String()
		for _, part := range parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s: has no %q", system, part)
			}
		}
	}
}

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
