package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]Faults{
		`"plain"`:                                nil,
		`{"a": 1, "b": {"a": 2}, "c": [{}, {}]}`: nil,
		`{"a":1,"a":2}`:                          {{Field: "config.a", Reason: Twice}},
		`{"a": {"b": [0, {"c": 1, "c": 2}]}}`:    {{Field: "config.a.b[1].c", Reason: Twice}},
		`{"a":1,"\u0061":2}`:                     {{Field: "config.a", Reason: Twice}},
		`{"a":1,"a":2,"b":1,"b":2,"A":3}`:        {{Field: "config.a", Reason: Twice}, {Field: "config.b", Reason: Twice}},
		`"\ud800"`:                               {{Field: "config", Reason: Surrogate}},
		`"\udc00\ud800"`:                         {{Field: "config", Reason: Surrogate}},
		`"\ud83d\ude00"`:                         nil,
		`"\ud83d\ude00\ud83d"`:                   {{Field: "config", Reason: Surrogate}},
		`"\ud83dx"`:                              {{Field: "config", Reason: Surrogate}},
		`"\ud83d\u0041"`:                         {{Field: "config", Reason: Surrogate}},
		`"\\ud800"`:                              nil,
		`"\\\ud800"`:                             {{Field: "config", Reason: Surrogate}},
		`["a", "\uDFFF"]`:                        {{Field: "config[1]", Reason: Surrogate}},
		`{"x\ud800": 1}`:                         {{Field: "config.x\ufffd", Reason: Surrogate}},
		`{"a\nb": 1, "a\nb": 2}`:                 {{Field: "config.a?b", Reason: Twice}},
		deep(MaxDepth):                           nil,
		deep(MaxDepth + 1):                       {{Field: "config", Reason: Deep}},
		`{"a":` + deep(MaxDepth-1) + `}`:         nil,
		`{"a":` + deep(MaxDepth) + `}`:           {{Field: "config", Reason: Deep}},
		deep(9999):                               {{Field: "config", Reason: Deep}},
		` [ 1 , "[[[" , null ] `:                 nil,
		`-1.5e3`:                                 nil,
	} {
		if got := check("config", []byte(text)); !slices.Equal(got, want) {
			t.Errorf("%.80s: got %v, want %v", text, got, want)
		}
	}
	if got := check("config", []byte("{"+strings.Repeat(`"a":1,`, 100)+`"a":1}`)); len(got) != maxFaults {
		t.Errorf("%d faults", len(got))
	}
}

// An accepted text means the same to every decoder. No member is lost, and strings survive
// reading and writing.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `"\ud800\udc00"`, `[[{"\\":"\"]"}]]`, `{"a\ud800":"\u0000"}`, ` null `, `{"":{"":0}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		faults := check("x", text)
		if len(faults) > 0 {
			return
		}
		if members, kept := count(json.NewDecoder(bytes.NewReader(text))), keptIn(text); members != kept {
			t.Errorf("%s: %d members, %d are kept", text, members, kept)
		}
		if d := Depth(text); d > MaxDepth {
			t.Errorf("%s: %d deep", text, d)
		}
		if strings.Contains(fmt.Sprint(textOf(text)), "\ufffd") && !bytes.Contains(text, []byte("\ufffd")) &&
			!bytes.Contains(bytes.ToLower(text), []byte(`\ufffd`)) && bytes.Equal(bytes.ToValidUTF8(text, nil), text) {
			t.Errorf("%s: half a pair was passed", text)
		}
	})
}

func textOf(text []byte) (value any) {
	_ = json.Unmarshal(text, &value)
	return value
}

// count counts the members of all objects, duplicates included.
func count(d *json.Decoder) (n int) {
	var inObject []bool
	key := false
	for {
		token, err := d.Token()
		if err != nil {
			return n
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			inObject = append(inObject, token == json.Delim('{'))
			key = token == json.Delim('{')
			continue
		case json.Delim('}'), json.Delim(']'):
			inObject = inObject[:len(inObject)-1]
		default:
			if key {
				n++
				key = false
				continue
			}
		}
		key = len(inObject) > 0 && inObject[len(inObject)-1]
	}
}

func keptIn(text []byte) int {
	var members func(any) int
	members = func(value any) (n int) {
		switch value := value.(type) {
		case map[string]any:
			for _, v := range value {
				n += 1 + members(v)
			}
		case []any:
			for _, v := range value {
				n += members(v)
			}
		}
		return n
	}
	return members(textOf(text))
}
