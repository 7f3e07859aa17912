package cursor

import (
	"bytes"
	"errors"
	"testing"
)

// Seal returns exactly the text that Unseal accepts, and a cursor of one kind is refused as
// another.
func FuzzUnseal(f *testing.F) {
	f.Add(Seal(List, []byte("content")), []byte("content"))
	f.Add("AAAA", []byte{})
	f.Fuzz(func(t *testing.T, text string, content []byte) {
		if read, err := Unseal(List, text); err == nil && Seal(List, read) != text {
			t.Errorf("%q became %q", text, Seal(List, read))
		} else if err != nil && !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
		sealed := Seal(Dead, content)
		if read, err := Unseal(Dead, sealed); err != nil || !bytes.Equal(read, content) {
			t.Errorf("%q: %q, %v", content, read, err)
		}
		for _, other := range []string{sealed + "\n", sealed[1:], sealed[:len(sealed)-1], sealed + "A"} {
			if read, err := Unseal(Dead, other); !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: %q, %v", other, read, err)
			}
		}
		if _, err := Unseal(List, sealed); !errors.Is(err, ErrInvalid) {
			t.Errorf("of another kind: %v", err)
		}
	})
}
