package pages

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// What people copy into a shell has the id as one word, whatever the id is, and runs nothing else.
func TestLinesForAShell(t *testing.T) {
	for id, word := range map[string]string{
		"news":            "news",
		"a b":             "a b",
		"it's; `id` $(x)": "it's; `id` $(x)",
		"-x":              "-x",
		"é/..":            "é/..",
	} {
		lines := (&oneAccount{ID: id}).Lines()
		if len(lines) != 6 {
			t.Fatalf("%q: %q", id, lines)
		}
		for i, line := range lines {
			out, err := exec.Command("sh", "-c", `rounds() { for last; do :; done; printf %s "$last"; }; curl() { rounds "$@"; }; ROUNDS_API_URL=U; `+line).Output()
			want := word
			if i >= 3 {
				want = "U/v1/accounts/" + strings.ReplaceAll(segment(id), "$", "%24") + []string{"/schedule", "", "/nudge"}[i-3]
			}
			if err != nil || string(out) != want {
				t.Errorf("%s: %q, %v", line, out, err)
			}
		}
	}
	for _, id := range []string{"a\nb", "a\u202eb", "a\x1bb", "\xff"} {
		for _, line := range (&oneAccount{ID: id}).Lines() {
			if strings.HasPrefix(line, "rounds") || !utf8.ValidString(line) || strings.ContainsAny(line, "\n\x1b\u202e") {
				t.Errorf("%q: %q", id, line)
			}
		}
	}
}
