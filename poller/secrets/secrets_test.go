package secrets

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	dir := t.TempDir()
	write := func(name, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("plain", "value")
	write("newline", "value\n")
	write("windows", "value\r\n")
	write("two", "value\n\n")
	write("both", "from file")
	write("empty", "\n")
	write("huge", strings.Repeat("x", maxSize+1))
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"ROUNDS_SECRET_both": "from env", "ROUNDS_SECRET_ENV-1": "env value"}
	source := Source{Dir: dir, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}

	use := ForURL("http", "https://api.example.com")
	for _, c := range []struct {
		name, want string
		err        error
	}{
		{"plain", "value", nil},
		{"newline", "value", nil},
		{"windows", "value", nil},
		{"two", "value\n", nil},
		{"both", "from file", nil},
		{"ENV-1", "env value", nil},
		{"none", "", ErrNotFound},
		{"empty", "", ErrEmpty},
		{"huge", "", ErrUnusable},
		{"folder", "", ErrUnusable},
		{"", "", ErrName},
		{"..", "", ErrName},
		{"../plain", "", ErrName},
		{"a/b", "", ErrName},
		{strings.Repeat("a", 65), "", ErrName},
	} {
		got, err := source.Get(t.Context(), c.name, use)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: got %.20q, %v; want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
	if _, err := (Source{}).Get(t.Context(), "plain", use); !errors.Is(err, ErrNotFound) {
		t.Errorf("the zero source: got %v", err)
	}
}

func TestParseRef(t *testing.T) {
	for _, c := range []struct {
		raw, want string
		err       error
	}{
		{``, "", nil},
		{`null`, "", nil},
		{`{"secret": "A-b_9"}`, "A-b_9", nil},
		{`"s3cret"`, "", ErrNotReference},
		{`{"secret": null}`, "", ErrNotReference},
		{`{"secret": 7}`, "", ErrNotReference},
		{`{}`, "", ErrNotReference},
		{`{"Secret": "A"}`, "", ErrNotReference},
		{`{"secret": "A", "more": 1}`, "", ErrNotReference},
		{`{"secret": "s3cret value"}`, "", ErrName},
		{`{"secret": ""}`, "", ErrName},
	} {
		ref, err := ParseRef(json.RawMessage(c.raw))
		if ref.Name != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: got %q, %v; want %q, %v", c.raw, ref.Name, err, c.want, c.err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error quotes the value: %v", c.raw, err)
		}
		if ref.IsZero() != (c.want == "") {
			t.Errorf("%s: IsZero is %t", c.raw, ref.IsZero())
		}
	}
}
