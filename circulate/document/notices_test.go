package document_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestTheLatestDocumentIsRead(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		board, ctx := open(t, server).Notices(), t.Context()
		if found, now, err := board.Read(ctx, "law", "audit"); err != nil || len(found) != 0 || now.IsZero() {
			t.Fatalf("of nothing: got %v, %v, %v", found, now, err)
		}
		for _, text := range []string{"first", "a|second\x00\xff"} {
			posted, err := board.Post(ctx, "law", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			found, now, err := board.Read(ctx, "law", "audit")
			if err != nil || len(found) != 1 || string(found["law"].Text) != text {
				t.Fatalf("got %q, %v", found, err)
			}
			if !found["law"].Posted.Equal(posted.Truncate(time.Millisecond)) || now.Before(posted) {
				t.Errorf("posted at %v, got %v, read at %v", posted, found["law"].Posted, now)
			}
		}
		if n := do(t, server, "HLEN", "ns:bulletins"); n != int64(1) {
			t.Errorf("%v documents are kept", n)
		}
	})
}

func TestStrangersValuesAreLeftOut(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		board, ctx := open(t, server).Notices(), t.Context()
		for _, value := range []string{"", "text", "soon|text", "|text"} {
			do(t, server, "HSET", "ns:bulletins", "law", value)
			if found, _, err := board.Read(ctx, "law"); err != nil || len(found) != 0 {
				t.Errorf("%q: got %v, %v", value, found, err)
			}
		}
		do(t, server, "DEL", "ns:bulletins")
		do(t, server, "SET", "ns:bulletins", "a key of another type")
		if _, err := board.Post(ctx, "law", []byte("text")); err != nil {
			t.Fatal(err)
		}
		if found, _, err := board.Read(ctx, "law"); err != nil || string(found["law"].Text) != "text" {
			t.Errorf("got %v, %v", found, err)
		}
	})
}

func TestPostRefusesWhatIsNoDocument(t *testing.T) {
	t.Parallel()
	board := open(t, redistest.Embedded(t)).Notices()
	for _, c := range []struct {
		name, text, fault string
	}{
		{"", "text", "name"}, {"Law", "text", "name"}, {strings.Repeat("a", 33), "text", "name"}, {"a b", "text", "name"},
		{"law", "", "bytes"}, {"law", string(bytes.Repeat([]byte("a"), document.MaxNotice+1)), "bytes"},
	} {
		if _, err := board.Post(t.Context(), c.name, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q of %d bytes: %v", c.name, len(c.text), err)
		}
	}
	if _, err := board.Post(t.Context(), strings.Repeat("a", 32), bytes.Repeat([]byte("a"), document.MaxNotice)); err != nil {
		t.Error(err)
	}
}
