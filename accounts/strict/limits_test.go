package strict

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	l := Limits{Depth: 3, Values: 4, Within: 2}
	for text, want := range map[string]string{
		`{"a":1,"b":2}`:                "",
		`[[[1,1,1,1,1,1]]]`:            "",
		`[[[[]]]]`:                     "nested more than 3 deep",
		`{"a":[{"b":{}}]}`:             "nested more than 3 deep",
		`[1,2,3]`:                      "",
		`[1,2,3,4]`:                    "more than 4 values",
		`[[1,2],[3,4]]`:                "more than 4 values",
		`["[[[[,,,,,,\"[[[,,\\", "{"]`: "",
		`"\u005b`:                      "",
		`"\`:                           "",
		`]]]]]`:                        "",
		``:                             "",
	} {
		_, err := l.Check([]byte(text))
		if got := errorText(err); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
		var over *LimitError
		if err != nil && !errors.As(err, &over) {
			t.Errorf("%s: %T", text, err)
		}
	}
	if n, err := (Limits{Depth: 9, Values: 1e9, Within: 9}).Check([]byte(strings.Repeat("[", 9) + "1,2" + strings.Repeat("]", 9))); n < 2 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The count is at least what a decoder finds. A text that is too deep for the limit is also
// too deep for a decoder with that limit.
func FuzzLimits(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":null}],"c":"\"[{,"}`, `[[],{},[[]]]`, `"\\"`, `{"a\\":[0,0]}`, `[`, `,`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var value any
		if json.Unmarshal(text, &value) != nil {
			return
		}
		depth, values := measure(value)
		n, err := Limits{Depth: 1 << 20, Values: 1 << 30, Within: 1 << 20}.Check(text)
		if err != nil || n < values {
			t.Errorf("%s: %d values counted of %d, %v", text, n, values, err)
		}
		if _, err := (Limits{Depth: depth, Values: 1 << 30}).Check(text); depth > 0 && err != nil && !strings.Contains(string(text), `":`) {
			t.Errorf("%s: %d deep: %v", text, depth, err)
		}
		if _, err := (Limits{Depth: depth - 1, Values: 1 << 30}).Check(text); depth > 0 && err == nil {
			t.Errorf("%s: %d deep and not refused", text, depth)
		}
	})
}

func measure(value any) (depth, values int) {
	values = 1
	inside := func(v any) {
		d, n := measure(v)
		depth, values = max(depth, d), values+n
	}
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			inside(v)
		}
		return depth + 1, values
	case map[string]any:
		for _, v := range value {
			inside(v)
		}
		return depth + 1, values
	}
	return 0, 1
}
