package pages

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
)

// A concern names the page to which it leads, whether that stands in the menu or not.
func TestEveryPageHasANameForLinks(t *testing.T) {
	d, err := New(Options{May: func(access.Principal, string) bool { return true }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, l := range d.languages {
		v := &visit{site: &site{Dashboard: d}, lang: l}
		for _, p := range d.pages {
			at := strings.TrimSuffix(p.path, "{$}") + "?group=a"
			if name := v.PageName(at); p.path != "/{$}" && (name == "" || strings.ContainsAny(name, "./")) {
				t.Errorf("%s: the page at %s is named %q", l.Tag, at, name)
			}
		}
	}
}
