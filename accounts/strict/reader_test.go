package strict

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestEveryFaultAtOnce(t *testing.T) {
	r := ReadConfig(json.RawMessage(`{"url": 7, "zoo": "s3cret", "ape\n": 1}`))
	r.Text("url")
	r.Text("name")
	err := r.Err()
	want := "config.url: must be a string\nconfig.name: missing\nconfig.ape?: unknown field\nconfig.zoo: unknown field"
	if err == nil || err.Error() != want {
		t.Fatalf("got %v\nwant %s", err, want)
	}
}

func TestConfigThatIsNoObject(t *testing.T) {
	for _, config := range []string{`[]`, `"s3cret"`, `{`, `7`} {
		r := ReadConfig(json.RawMessage(config))
		r.Text("url")
		if err := r.Err(); err == nil || err.Error() != "config: must be a JSON object" {
			t.Errorf("%s: got %v", config, err)
		}
	}
	for _, config := range []string{``, `null`, `{}`} {
		if err := ReadConfig(json.RawMessage(config)).Err(); err != nil {
			t.Errorf("%q: got %v", config, err)
		}
	}
}

func TestPrintableCuts(t *testing.T) {
	if got := Printable(strings.Repeat("x", 100)); got != strings.Repeat("x", 64)+"…" {
		t.Errorf("got %q", got)
	}
}

// The faults of nested objects are in one list. Each fault has its full field name, and no
// field occurs twice.
func TestReaderOfObjectsWithin(t *testing.T) {
	fields := func(text string) map[string]json.RawMessage {
		found, err := Stored([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	r := NewReader(fields(`{"list": [], "name": null, "more": 1, "wait": "x"}`))
	if raw, ok := r.Given("name"); !ok || !IsNull(raw) {
		t.Errorf("name: %s, %v", raw, ok)
	}
	if !r.Has("list") || r.Has("name") || r.Take("none") != nil || r.Take("list") == nil || r.Has("list") {
		t.Error("what was taken is there, or what was not taken is not")
	}
	var n int
	r.Optional("wait", "a number", &n)
	r.Fault("wait", "must be more than that")
	in := r.In("list[0]", fields(`{"a": 3, "b": null, "z": 1}`))
	in.Optional("a", "a number", &n)
	in.Optional("b", "a number", &n)
	in.Optional("c", "a number", &n)
	in.Fault("a", "must be 1 to 2")
	in.Unknown()
	const want = "wait: must be a number\nlist[0].a: must be 1 to 2\nlist[0].z: unknown field\nmore: unknown field"
	for range 2 {
		if err := r.Err(); err == nil || err.Error() != want || n != 3 {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	var faults Faults
	if !errors.As(r.Err(), &faults) || len(faults) != 4 || !errors.Is(faults, faults[2]) {
		t.Errorf("%v", faults)
	}
	if err := NewReader(nil).Err(); err != nil {
		t.Error(err)
	}
}

func TestList(t *testing.T) {
	for text, want := range map[string]string{
		`{"all":[{"name":"a"},{"name":"b"}]}`: "",
		`{"all":[]}`:                          "",
		`{}`:                                  "all: missing",
		`{"all":null}`:                        "all: missing",
		`{"all":{}}`:                          "all: must be a list",
		`{"all":[{},{},{}]}`:                  "all: must be at most 2\nall[0].name: missing\nall[1].name: missing\nall[2].name: missing",
		`{"all":[7,null,{"name":1}]}`:         "all: must be at most 2\nall[0]: must be an object\nall[1]: must be an object\nall[2].name: must be a string",
	} {
		fields, err := Object([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		r := NewReader(fields)
		var names []string
		for _, in := range r.List("all", 2) {
			names = append(names, in.Text("name"))
		}
		if got := errorText(r.Err()); got != want || want == "" && strings.Join(names, "") != strings.Repeat("ab", min(1, len(names))) {
			t.Errorf("%s: got %q, %q", text, got, names)
		}
	}
}

func TestTextThatMustBeThere(t *testing.T) {
	fields, err := Object([]byte(`{"name": "x", "empty": "", "null": null, "number": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(fields)
	if got := r.Text("name"); got != "x" {
		t.Errorf("name is %q", got)
	}
	for _, name := range []string{"empty", "null", "number", "none"} {
		if got := r.Text(name); got != "" {
			t.Errorf("%s is %q", name, got)
		}
	}
	const want = "empty: missing\nnull: missing\nnumber: must be a string\nnone: missing"
	if err := r.Err(); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestTextIn(t *testing.T) {
	members, ok := Members([]byte(`{"plain": "a", "escaped": "\u0061\n", "number": 1}`))
	if !ok {
		t.Fatal("no object")
	}
	for name, want := range map[string]string{"plain": "a", "escaped": "a\n"} {
		if got, ok := TextIn(members, name); !ok || got != want {
			t.Errorf("%s is %q, %v", name, got, ok)
		}
	}
	for _, name := range []string{"number", "none"} {
		if got, ok := TextIn(members, name); ok {
			t.Errorf("%s is %q", name, got)
		}
	}
	if _, ok := Members([]byte(`[{}]`)); ok {
		t.Error("a list is an object")
	}
}
