package secret

import (
	"testing"
	"unicode"

	"golang.org/x/net/idna"
)

// A binding matches a host only if net/http dials a name of that binding. Every code
// point stands once in the place of a letter of the name.
func TestBindingMatchesWhatIsDialled(t *testing.T) {
	t.Parallel()
	for char := rune(0x80); char <= unicode.MaxRune; char++ {
		if 0xD800 <= char && char <= 0xDFFF {
			continue
		}
		given := "api.g" + string(char) + "thub.com"
		got, _, err := splitHost(given)
		if err != nil {
			continue
		}
		dialled, err := idna.Lookup.ToASCII(given)
		if err != nil || got != dialled {
			t.Errorf("U+%04X: matched as %q, dialled as %q (%v)", char, got, dialled, err)
		}
	}
}
