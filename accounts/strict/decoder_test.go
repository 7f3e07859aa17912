package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

type word string

type order struct {
	Name   word              `strict:"name"`
	Names  []string          `strict:"names"`
	Code   string            `strict:"code,given"`
	Count  int               `strict:"count,given"`
	Share  float64           `strict:"share"`
	Dry    bool              `strict:"dry"`
	Wait   time.Duration     `strict:"wait"`
	Labels map[string]string `strict:"labels"`
	Data   json.RawMessage   `strict:"data"`

	kept int
}

var orders = NewDecoder[order]("an order", Fault{Field: "count", Reason: "must be 1 to 9"})

func TestDecoder(t *testing.T) {
	text := []byte(`{"name": "a", "names": ["b", "\u0063"], "code": "c", "count": 3, "share": 0.5, "dry": true, "wait": "90s", "labels": {"x": "1"}, "data": {"any": []}}`)
	got, faults := orders.Decode(text)
	clear(text) // what was read is no part of it
	want := order{"a", []string{"b", "c"}, "c", 3, 0.5, true, 90 * time.Second, map[string]string{"x": "1"}, json.RawMessage(`{"any": []}`), 0}
	if faults != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, faults)
	}
	for _, text := range []string{"", " \n", "{}", `{"name":null,"names":null,"code":null,"count":null,"share":null,"dry":null,"wait":null,"labels":null,"data":null}`, `{"name":"","labels":{},"share":0}`} {
		if got, faults := orders.Decode(OrEmpty([]byte(text))); faults != nil || !reflect.DeepEqual(got, order{}) {
			t.Errorf("%s: got %+v, %v", text, got, faults)
		}
	}
}

// Every fault has its field and says what would be right, and the other fields are read.
func TestDecoderReportsEveryFault(t *testing.T) {
	const unknown = ": is not a field of an order; its fields are name, names, code, count, share, dry, wait, labels and data"
	for text, want := range map[string]string{
		``:                                 "record: is not JSON: unexpected end of JSON input",
		`[]`:                               "record: must be a JSON object",
		`{"name":7,"kept":1,"a\nb":1}`:     "a?b" + unknown + "\nkept" + unknown + "\nname: must be a string",
		`{"names":"b"}`:                    "names: must be an array of strings",
		`{"names":["b",null]}`:             "names: must be an array of strings",
		`{"names":[7]}`:                    "names: must be an array of strings",
		`{"code":""}`:                      "code: must not be empty",
		`{"code":1}`:                       "code: must be a string",
		`{"count":0}`:                      "count: must be 1 to 9",
		`{"count":1.5}`:                    "count: must be 1 to 9",
		`{"share":"half","dry":1}`:         "dry: must be true or false\nshare: must be a number",
		`{"wait":90}`:                      `wait: must be a duration, such as "10s" or "5m"`,
		`{"wait":""}`:                      `wait: must be a duration, such as "10s" or "5m"`,
		`{"labels":[]}`:                    "labels: must be an object of strings",
		`{"labels":{"b":1,"a":null}}`:      "labels.a: must be a string\nlabels.b: must be a string",
		`{"wait":"1s","wait":7}`:           "wait: comes twice\nwait: must be a duration, such as \"10s\" or \"5m\"",
		`{"data":{"x":1,"x":2},"count":0}`: "data.x: comes twice\ncount: must be 1 to 9",
	} {
		_, faults := orders.Decode([]byte(text))
		if got := faults.Err(); got == nil || got.Error() != want {
			t.Errorf("%s: got %v, want %s", text, got, want)
		}
	}
	got, _ := orders.Decode([]byte(`{"name": "a", "count": "x", "labels": {"x": "1", "y": 2}}`))
	if !reflect.DeepEqual(got, order{Name: "a", Labels: map[string]string{"x": "1"}}) {
		t.Errorf("got %+v", got)
	}
	one := NewDecoder[struct {
		From string `strict:"from"`
	}]("a start")
	if _, faults := one.Decode([]byte(`{"to":1}`)); faults.Err() == nil || faults[0].Reason != "is not a field of a start; its field is from" {
		t.Errorf("got %v", faults)
	}
	if faults := orders.Unknown(map[string]json.RawMessage{"name": []byte("7"), "z": nil, "b": nil}); len(faults) != 2 || faults[0] != (Fault{Field: "b", Reason: unknown[2:]}) || faults[1].Field != "z" {
		t.Errorf("got %v", faults)
	}
}

func TestDecoderOfAnotherType(t *testing.T) {
	for name, build := range map[string]func(){
		"type": func() {
			NewDecoder[struct {
				A []int `strict:"a"`
			}]("x")
		},
		"option": func() {
			NewDecoder[struct {
				A int `strict:"a,least=1"`
			}]("x")
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			build()
		}()
	}
}

func TestFaultsAnd(t *testing.T) {
	other := errors.New("no faults")
	a, b, again := Fault{Field: "a", Reason: "1"}, Fault{Field: "b", Reason: "2"}, Fault{Field: "a", Reason: "3"}
	whole := Faults{{Field: RecordField, Reason: "is not JSON"}}
	for _, c := range []struct {
		faults Faults
		err    error
		want   error
	}{
		{nil, nil, nil},
		{nil, Faults{a}, Faults{a}},
		{Faults{a}, nil, Faults{a}},
		{Faults{a}, Faults{b, again}, Faults{a, b}},
		{Faults{a}, other, other},
		{whole, Faults{b}, whole},
		{whole, other, whole},
	} {
		if got := c.faults.And(c.err); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v and %v: got %v", c.faults, c.err, got)
		}
	}
}

// A value that is read without a fault is what the text says, and the text says it once.
func FuzzDecoder(f *testing.F) {
	for _, seed := range []string{`{"name":"a","names":["b"],"code":"c","count":3,"labels":{"x":"1"}}`, `{"count":0,"wait":"-1h"}`, `{"labels":{"a":1},"a\n":null}`, `{"code":"a","code":""}`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, faults := orders.Decode(text)
		for _, fault := range faults {
			if fault.Reason == "" || strings.ContainsFunc(fault.Field, func(c rune) bool { return c < ' ' && c != '\n' }) && !strings.HasPrefix(fault.Field, "labels.") {
				t.Errorf("%q: %q", text, fault)
			}
		}
		if faults != nil {
			return
		}
		var plain struct {
			Name   *word             `json:"name"`
			Names  []string          `json:"names"`
			Code   string            `json:"code"`
			Count  int               `json:"count"`
			Labels map[string]string `json:"labels"`
			Data   json.RawMessage   `json:"data"`
		}
		if err := json.Unmarshal(text, &plain); err != nil {
			t.Fatalf("%q: accepted, and %v", text, err)
		}
		if plain.Name == nil {
			plain.Name = new(word)
		}
		if got.Name != *plain.Name || got.Code != plain.Code || got.Count != plain.Count || len(got.Names) != len(plain.Names) || len(got.Labels) != len(plain.Labels) {
			t.Errorf("%q: read as %+v", text, got)
		}
		if !bytes.Equal(got.Data, plain.Data) && !IsNull(plain.Data) {
			t.Errorf("%q: data is %q", text, got.Data)
		}
	})
}
