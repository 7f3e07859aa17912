package key

import (
	"strings"
	"testing"
)

// Only texts that newText can return are well formed. A changed character is detected.
func FuzzText(f *testing.F) {
	f.Add(newText(), 3)
	f.Add(prefix+strings.Repeat("0", secretDigits+sumDigits), 60)
	f.Add("rounds_é", 0)
	f.Fuzz(func(t *testing.T, text string, at int) {
		if !wellFormed(text) {
			return
		}
		if at = len(prefix) + max(0, at)%(secretDigits+sumDigits); at < len(text) {
			changed := []byte(text)
			if changed[at]++; wellFormed(string(changed)) {
				t.Errorf("%q and %q are well formed", text, changed)
			}
		}
		if _, err := ParseLife(text); err == nil {
			t.Errorf("%q is a life", text)
		}
	})
}

// A life that is accepted is positive.
func FuzzLife(f *testing.F) {
	for _, text := range []string{"90d", "12h", "1h30m", "0d", "-1d", "999999999999d", "1e3d", "d", "１d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if life, err := ParseLife(text); err == nil && life <= 0 {
			t.Errorf("%q: %v", text, life)
		}
	})
}
