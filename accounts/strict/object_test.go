package strict

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// Stored and Text read an object as the decoder does.
func FuzzObject(f *testing.F) {
	for _, text := range []string{
		``, ` `, `{`, `{}`, ` { } `, `null`, `"a"`, `[1]`, `{}{}`, `{"a":1}`, "\t{ \"a\" : 1 ,\r\n\"b\":[{\"]\":\"}\\\"\"},2] , \"c\" :null}\n",
		`{"a":1,"a":{"a":2}}`, `{"\u0061":true,"a":false}`, `{"":""}`, `{"a\\":"\\"}`, `{"a":"\ud800"}`, `{"ü":"\u00fc"}`, `{"a":-1.5e+3}`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) {
			if _, err := Stored(text); err == nil {
				t.Fatalf("%q: no error", text)
			}
			return
		}
		var want map[string]json.RawMessage
		wantErr := json.Unmarshal(text, &want)
		got, err := Stored(text)
		if (err == nil) != (wantErr == nil && want != nil) || len(got) != len(want) {
			t.Fatalf("%q: got %q, %v; want %q, %v", text, got, err, want, wantErr)
		}
		for name, value := range want {
			if string(got[name]) != string(value) {
				t.Fatalf("%q: %q is %q, want %q", text, name, got[name], value)
			}
			var plain *string
			wantErr := json.Unmarshal(value, &plain)
			read, ok := Text(got[name])
			if ok != (wantErr == nil && plain != nil) || ok && read != *plain {
				t.Fatalf("%q: %q is read as %q, %t", text, value, read, ok)
			}
		}
	})
}

// Texts that callers send must have one meaning only. Stored texts are read all the same.
func TestObjectIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"a":2}`:           "a: comes twice",
		`{"a":{"b":1,"b":2}}`:     "a.b: comes twice",
		`{"ids":["a","\\ud800"]}`: "",
		`{"ids":["a","\ud800"]}`:  `ids[1]: must not have half of a surrogate pair, such as \ud800 alone`,
		`{"a":"\ud83d\ude00"}`:    "",
	} {
		fields, err := Object([]byte(text))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want || fields == nil {
			t.Errorf("%s: got %v, %q, want %q", text, fields, got, want)
		}
		if fields, err := Stored([]byte(text)); err != nil || fields == nil {
			t.Errorf("%s, stored: got %v", text, err)
		}
	}
}
