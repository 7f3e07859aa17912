package message

import "testing"

func TestContent(t *testing.T) {
	drop := func(field string) bool { return field == "url" }
	one := Content([]byte(`{"a": 1, "b": [{"url": "x", "c": 18446744073709551615}]}`), drop)
	if one == "" {
		t.Fatal("no content")
	}
	for text, same := range map[string]bool{
		`{"b":[{"c":18446744073709551615,"url":"y"}],"a":1,"url":{"z":1}}`: true,
		`{"b":[{"c":18446744073709551614}],"a":1}`:                         false,
		`{"b":[{"c":"18446744073709551615"}],"a":1}`:                       false,
		`{"a":1}`: false,
	} {
		if got := Content([]byte(text), drop); got == "" || (got == one) != same {
			t.Errorf("%s: %q, first %q", text, got, one)
		}
	}
	if got := Content([]byte(`{"a":`), drop); got != "" {
		t.Errorf("got %q", got)
	}
}
