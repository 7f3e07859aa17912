package trial

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestCursorTexts(t *testing.T) {
	for _, cursor := range []string{"", "1:2", `{"v":1}`, "\x00\xff", "a\nb", "base64:x", "e\u202ecba"} {
		text := CursorText([]byte(cursor))
		if got, err := ReadCursor(text); err != nil || string(got) != cursor {
			t.Errorf("%q: got %q, %v", cursor, got, err)
		}
		if strings.ContainsAny(text, "\n\x00\u202e") {
			t.Errorf("%q is shown as %q", cursor, text)
		}
	}
	if _, err := ReadCursor("base64:?"); !errors.Is(err, errCursor) {
		t.Errorf("got %v", err)
	}
}

func TestDataThatIsNoJSONIsAText(t *testing.T) {
	deep := strings.Repeat("[", 1001) + strings.Repeat("]", 1001)
	for data, want := range map[string]string{`{"a": 1}`: `{"a": 1}`, `{`: `"{"`, deep: `"` + deep + `"`} {
		if got := string(Shown(json.RawMessage(data))); got != want {
			t.Errorf("%.20s: got %.20s", data, got)
		}
	}
	if got := Shown(nil); got != nil {
		t.Errorf("got %s", got)
	}
}

// Everything left out is counted, and the rest stays within the bounds.
func TestBound(t *testing.T) {
	page := func(n, size int) FoundPage {
		p := FoundPage{}
		for range n {
			p.Messages = append(p.Messages, FoundMessage{ID: "i", Data: json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)})
		}
		return p
	}
	r := Report{Pages: []FoundPage{page(5, 10), page(3, 100), page(9, 10), page(2, 10)}}
	r.Bound(4, 50, 100)
	for i, want := range []struct{ shown, leftOut int }{{4, 1}, {3, 0}, {4, 5}, {0, 2}} {
		if p := r.Pages[i]; len(p.Messages) != want.shown || p.LeftOut != want.leftOut {
			t.Errorf("page %d: %d shown, %d left out", i, len(p.Messages), p.LeftOut)
		}
	}
	if m := r.Pages[1].Messages[0]; m.Data != nil || m.DataBytes != 100 {
		t.Errorf("got %+v", m)
	}
}
