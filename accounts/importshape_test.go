package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestImportSaysWhatIsNoLines(t *testing.T) {
	r, _ := newRegistry(t, redistest.Embedded(t), 1)
	for text, want := range map[string]string{
		"id,kind,url\na,feed,https://a.example\n":               "line 1: accounts: not a record a line: this looks like CSV",
		"\n\n\"id\";\"url\"\n":                                  "line 3: accounts: not a record a line: this looks like CSV",
		"a\tfeed\n":                                             "looks like CSV",
		"{\n  \"id\": \"a\",\n  \"kind\": \"plain\"\n}\n":       "spread over several lines",
		"[\n  {\"id\": \"a\", \"kind\": \"plain\"}\n]\n":        "JSON array",
		"[{\"id\": \"a\", \"kind\": \"plain\"}]\n":              "JSON array",
		"\ufeffid,kind\n":                                       "looks like CSV",
		"{\"id\":\"b\",\"kind\":\"plain\"}\nid,kind\n[\n{\n":    "",
		"nonsense\n{\"id\":\"c\",\"kind\":\"plain\"}\n":         "",
		"{\"id\":\"d\",\"kind\":\"plain\",\n{\"id\":\"e\",1}\n": "",
	} {
		bad := 0
		_, err := r.Import(context.Background(), strings.NewReader(text), func(BadLine) error { bad++; return nil })
		switch {
		case want == "" && (err != nil || bad == 0):
			t.Errorf("%q: %v, %d bad lines", text, err, bad)
		case want != "" && (!errors.Is(err, ErrNotLines) || !strings.Contains(err.Error(), want) || bad > 0):
			t.Errorf("%q: %v, %d bad lines", text, err, bad)
		}
	}
}

func TestImportTellsRepeatedIDs(t *testing.T) {
	r, _ := newRegistry(t, redistest.Embedded(t), 4)
	lines := []string{`{"id":"a","kind":"plain"}`, `{"id":"b","kind":"plain"}`, ``, `{"id":"a","kind":"none"}`, `{"id":"a","kind":"plain","cadence":"every 9m"}`, `{"id":"a","kind":"plain"}`}
	var got []string
	s, err := r.ImportWith(context.Background(), strings.NewReader(strings.Join(lines, "\n")), Importing{
		Bad:      func(b BadLine) error { got = append(got, fmt.Sprint(b.Line, b.ID)); return nil },
		Repeated: func(l RepeatedLine) error { got = append(got, fmt.Sprint(l.Line, l.ID, l.Before)); return nil },
	})
	if want := (Summary{Lines: 5, Created: 2, Updated: 2, Failed: 1, Repeated: 2}); err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	if want := "4a, 5a1, 6a5"; strings.Join(got, ", ") != want {
		t.Errorf("got %q", got)
	}
	var known repeats
	for i := range repeatsKnown + 10 {
		known.add(fmt.Sprint(i), i+1)
	}
	if known.add("7", 99) != 8 || known.add("7", 100) != 99 || known.add(fmt.Sprint(repeatsKnown+5), 101) != 0 || len(known.lines) != repeatsKnown {
		t.Errorf("%d ids are known", len(known.lines))
	}
}
