package trail

import (
	"errors"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// A note of the journal is not an entry, or is one that can be encoded again.
func FuzzNote(f *testing.F) {
	f.Add([]byte(`{"by":"a","action":"x","counts":{"a":1},"fields":["b"],"accounts":["c"]}`))
	f.Add([]byte(`{"action":"\ud800","via":5}`))
	f.Add([]byte("{\"action\":\"x\",\"account\":\"\\u0000\\u0000\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, ok := read(document.Note{ID: circulate.StreamID{Ms: 1}, Text: text})
		if !ok {
			return
		}
		kept, err := e.encode()
		if err != nil || len(kept) > document.MaxNote {
			t.Fatalf("%d bytes, %v", len(kept), err)
		}
		if again, ok := read(document.Note{ID: circulate.StreamID{Ms: 1}, Text: kept}); !ok || again.Action != e.Action {
			t.Errorf("%q became %q", text, kept)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add([]byte("1 2 3"))
	f.Add([]byte("18446744073709551615 18446744073709551615 9223372036854775807"))
	f.Add([]byte("-1 0x1 \n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		place, since, err := unsealed(accounts.SealCursor(accounts.CursorTrail, content))
		if err != nil {
			if !errors.Is(err, accounts.ErrCursor) {
				t.Error(err)
			}
			return
		}
		if again, then, err := unsealed(sealed(place, since)); err != nil || again != place || !then.Equal(since) {
			t.Errorf("%q: %v since %v, then %v since %v, %v", content, place, since, again, then, err)
		}
	})
}
