package accounts

import (
	"bytes"
	"errors"
	"testing"
)

// Seal returns exactly the text that Unseal accepts, and a cursor of one kind is refused as
// another.
func FuzzUnseal(f *testing.F) {
	f.Add(SealCursor(CursorList, []byte("content")), []byte("content"))
	f.Add("AAAA", []byte{})
	f.Fuzz(func(t *testing.T, text string, content []byte) {
		if read, err := UnsealCursor(CursorList, text); err == nil && SealCursor(CursorList, read) != text {
			t.Errorf("%q became %q", text, SealCursor(CursorList, read))
		} else if err != nil && !errors.Is(err, ErrCursor) {
			t.Error(err)
		}
		sealed := SealCursor(CursorDead, content)
		if read, err := UnsealCursor(CursorDead, sealed); err != nil || !bytes.Equal(read, content) {
			t.Errorf("%q: %q, %v", content, read, err)
		}
		for _, other := range []string{sealed + "\n", sealed[1:], sealed[:len(sealed)-1], sealed + "A"} {
			if read, err := UnsealCursor(CursorDead, other); !errors.Is(err, ErrCursor) {
				t.Errorf("%q: %q, %v", other, read, err)
			}
		}
		if _, err := UnsealCursor(CursorList, sealed); !errors.Is(err, ErrCursor) {
			t.Errorf("of another kind: %v", err)
		}
	})
}
