package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	for name, tt := range map[string]struct {
		record string
		fields []string // of the faults; none: the record is valid
	}{
		"whole":             {`{"id":"a","kind":"web","config":{"url":"x"},"cadence":"every 5m","labels":{"a":"b"}}`, nil},
		"least":             {`{"id":"a","kind":"plain"}`, nil},
		"nulls":             {`{"id":"a","kind":"plain","config":null,"cadence":null,"labels":null}`, nil},
		"spaces":            {" \t{\"id\":\"a\",\"kind\":\"plain\"}\r\n", nil},
		"retry budget":      {`{"id":"a","kind":"plain","retry_budget":1000}`, nil},
		"no retry budget":   {`{"id":"a","kind":"plain","retry_budget":null}`, nil},
		"budget of none":    {`{"id":"a","kind":"plain","retry_budget":0}`, []string{"retry_budget"}},
		"budget too big":    {`{"id":"a","kind":"plain","retry_budget":1001}`, []string{"retry_budget"}},
		"budget below":      {`{"id":"a","kind":"plain","retry_budget":-1}`, []string{"retry_budget"}},
		"budget and a half": {`{"id":"a","kind":"plain","retry_budget":1.5}`, []string{"retry_budget"}},
		"budget as text":    {`{"id":"a","kind":"plain","retry_budget":"3"}`, []string{"retry_budget"}},
		"priority":          {`{"id":"a","kind":"plain","priority":"urgent"}`, nil},
		"no priority":       {`{"id":"a","kind":"plain","priority":null}`, nil},
		"unknown priority":  {`{"id":"a","kind":"plain","priority":"high"}`, []string{"priority"}},
		"empty priority":    {`{"id":"a","kind":"plain","priority":""}`, []string{"priority"}},
		"priority's case":   {`{"id":"a","kind":"plain","priority":"Low"}`, []string{"priority"}},
		"priority mistyped": {`{"id":"a","kind":"plain","priority":1}`, []string{"priority"}},
		"time long past":    {`{"id":"a","kind":"plain","cadence":"at 2001-01-01T00:00:00Z"}`, nil}, // decode does not ask the clock
		"never fires":       {`{"id":"a","kind":"plain","cadence":"cron 0 0 30 2 *"}`, []string{"cadence"}},
		"empty":             {``, []string{"record"}},
		"no JSON":           {`{"id":`, []string{"record"}},
		"an array":          {`[]`, []string{"record"}},
		"null":              {`null`, []string{"record"}},
		"two":               {`{"id":"a","kind":"plain"}{}`, []string{"record"}},
		"not UTF-8":         {"{\"id\":\"\xff\",\"kind\":\"plain\"}", []string{"record"}},
		"unknown fields":    {`{"id":"a","kind":"plain","x":1,"ID":"b"}`, []string{"ID", "x"}},
		"mistyped":          {`{"id":1,"kind":[],"cadence":{},"labels":[]}`, []string{"cadence", "id", "kind", "labels"}},
		"labels":            {`{"id":"a","kind":"plain","labels":{"a":1,"b":null,"c":"d"}}`, []string{"labels.a", "labels.b"}},
		"all at once":       {`{"kind":"web","config":{"key":"bad"},"cadence":"now","extra":1}`, []string{"extra", "id", "cadence", "config.url", "config.key"}},
		"unknown kind":      {`{"id":"a","kind":"x"}`, []string{"kind"}},
		"depth of 64":       {`{"id":"a","kind":"plain","config":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, nil},
		"depth of 65":       {`{"id":"a","kind":"plain","config":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`, []string{"config"}},
		"depth of 9,000":    {`{"id":"a","kind":"plain","config":{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}}`, []string{"config"}},
		"two ids":           {`{"id":"a","id":"b","kind":"plain"}`, []string{"id"}},
		"two in disguise":   {`{"id":"a","\u0069d":"a","kind":"plain"}`, []string{"id"}},
		"twice in config":   {`{"id":"a","kind":"plain","config":{"a":{"b":1,"c":2,"b":1}}}`, []string{"config.a.b"}},
		"twice in labels":   {`{"id":"a","kind":"plain","labels":{"x":"1","x":"2"}}`, []string{"labels.x"}},
		"half a pair":       {`{"id":"a\ud800","kind":"plain"}`, []string{"id"}},
		"the other half":    {`{"id":"\udfffa","kind":"plain"}`, []string{"id"}},
		"a whole pair":      {`{"id":"a","kind":"plain","labels":{"x":"\ud83d\ude00"}}`, nil},
		"half in config":    {`{"id":"a","kind":"plain","config":{"x":["\ud83d"]}}`, []string{"config.x[0]"}},
		"half in a name":    {`{"id":"a","kind":"plain","labels":{"\ud83d":"b"}}`, []string{"labels.\ufffd"}},
		"control in an id":  {`{"id":"a\u0000","kind":"plain"}`, []string{"id"}},
	} {
		a, err := readAs("", []byte(tt.record), testKinds{})
		var faults Faults
		if err != nil && !errors.As(err, &faults) {
			t.Fatalf("%s: %v", name, err)
		}
		var fields []string
		for _, f := range faults {
			fields = append(fields, f.Field)
		}
		if !slices.Equal(fields, tt.fields) {
			t.Errorf("%s: faults in %v, want %v", name, fields, tt.fields)
		}
		if err == nil && (a.ID != "a" || a.Kind == "") {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestReadAs(t *testing.T) {
	if a, err := readAs("a", []byte(`{"kind":"plain"}`), testKinds{}); err != nil || a.ID != "a" {
		t.Errorf("without an id: %+v, %v", a, err)
	}
	if _, err := readAs("a", []byte(`{"id":"b","kind":"plain"}`), testKinds{}); err == nil || !strings.HasPrefix(err.Error(), "id: ") {
		t.Errorf("with another id: %v", err)
	}
}

func TestDecodeNudge(t *testing.T) {
	n, err := DecodeNudge([]byte(`{"within":"10s","hint":{"token":"t"},"lives":"5m"}`))
	if err != nil || n.Within != 10*time.Second || n.Lives != 5*time.Minute || string(n.Hint) != `{"token":"t"}` {
		t.Errorf("whole: %+v, %v", n, err)
	}
	for _, text := range []string{"", " ", "{}", `{"hint":null,"within":null}`} {
		if n, err := DecodeNudge([]byte(text)); err != nil || n.Within != 0 || n.Hint != nil {
			t.Errorf("%q: %+v, %v", text, n, err)
		}
	}
	for text, want := range map[string]int{
		`[]`: 1, `{"within":5}`: 1, `{"within":"soon","lives":"","x":1}`: 3, `{"within":"-1s","lives":"25h"}`: 2,
	} {
		var faults Faults
		if _, err := DecodeNudge([]byte(text)); !errors.As(err, &faults) || len(faults) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// An accepted record survives: encoding it and decoding that again returns the same record.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":"a","kind":"web","config":{"url":"<x>&\u2028"},"cadence":"every 5m","labels":{"a":"b"}}`))
	f.Add([]byte(`{"id":"a","retry_budget":7,"cadence":"at 2026-12-01T09:00:00+08:00"}`))
	f.Add([]byte(`{"id":"a","priority":"normal"}`))
	f.Add([]byte(`{"id":1,"x":{},"labels":{"a":null}}`))
	f.Add([]byte("{\"id\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, record []byte) {
		a, err := decode(record)
		var faults Faults
		if err != nil {
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("an error without faults: %v", err)
			}
			return
		}
		first, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsRune(first, '\n') || !json.Valid(first) {
			t.Fatalf("not one line of JSON: %q", first)
		}
		b, err := decode(first)
		if err != nil {
			t.Fatalf("cannot read %q: %v", first, err)
		}
		second, err := b.Encode()
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%q became %q, %v", first, second, err)
		}
		if a.lane() != b.lane() && a.Validate(testKinds{}) == nil {
			t.Fatalf("lane %c became %c", a.lane(), b.lane())
		}
		if a.ID != b.ID || a.Kind != b.Kind || a.Cadence != b.Cadence || a.RetryBudget != b.RetryBudget || len(a.Labels) != len(b.Labels) || len(a.Labels) > 0 && !reflect.DeepEqual(a.Labels, b.Labels) {
			t.Fatalf("%+v became %+v", a, b)
		}
	})
}
