package strict

import (
	"errors"
	"testing"
	"unicode"

	"golang.org/x/net/idna"
)

// Every code point stands once in the place of a letter of a name, but of the planes that are not
// assigned only some do. The name is refused, or is the one that net/http dials.
func TestDialled(t *testing.T) {
	t.Parallel()
	for char := rune(0); char <= unicode.MaxRune; char++ {
		if 0xD800 <= char && char <= 0xDFFF || char > 0x3FFFF && char&0xFFFF > 0x1FF && char%97 != 0 {
			continue
		}
		given := "api.g" + string(char) + "thub.com"
		got, err := Hostname(given)
		if err != nil && !errors.Is(err, ErrHostname) {
			t.Fatalf("U+%04X: %v", char, err)
		}
		if char < 0x80 {
			if want := "api.g" + string(unicode.ToLower(char)) + "thub.com"; err != nil || got != want {
				t.Errorf("U+%04X: %q, %v", char, got, err)
			}
			continue
		}
		if dialled, failed := idna.Lookup.ToASCII(given); err == nil && (failed != nil || got != dialled) {
			t.Errorf("U+%04X: %q, dialled as %q (%v)", char, got, dialled, failed)
		}
	}
}
