package pages

import (
	"encoding/json"
	"net/url"
	"reflect"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// everyField is a kind with a field of each type.
const everyField = `{"name":"own","fields":[
	{"name":"url","type":"url","required":true},{"name":"user","type":"text"},{"name":"port","type":"number"},{"name":"key","type":"secret"},
	{"name":"login","type":"login"},{"name":"headers","type":"headers"},{"name":"settings","type":"object"},{"name":"names","type":"texts"},
	{"name":"tls","type":"choice","choices":[{"value":"none"},{"value":0}]}]}`

func ownKind(t testing.TB) *kind {
	t.Helper()
	var k kind
	if err := json.Unmarshal([]byte(everyField), &k); err != nil {
		t.Fatal(err)
	}
	return &k
}

// What a form shows is what it saves.
func TestFormKeepsWhatARecordSays(t *testing.T) {
	k := ownKind(t)
	for text, whole := range map[string]bool{
		`{"id":"a","kind":"own"}`: true,
		`{"id":"a b","kind":"own","cadence":"every 5m","priority":"low","retry_budget":7,"on_unknown":"retry","labels":{"team":"press","x":"a=b","y":""}}`:          true,
		`{"id":"a","kind":"own","config":{"url":"https://a/?b&c","user":" u ","port":993,"key":{"secret":"K"},"login":{"user":"me","password":{"secret":"P"}}}}`:    true,
		`{"id":"a","kind":"own","config":{"headers":{"X-A":"1","X-B":{"secret":"S"},"X-C":""},"settings":{"a":[1,{"b":null}],"big":12345678901234567890},"tls":0}}`: true,
		`{"id":"a","kind":"own","config":{"tls":"none"}}`:                  true,
		`{"id":"a","kind":"own","config":{"names":["one","two, 三"]}}`:      true,
		`{"id":"a","kind":"own","config":{"names":["one","","two"]}}`:      false,
		`{"id":"a","kind":"own","config":{"names":["one\ntwo"]}}`:          false,
		`{"id":"a","kind":"own","config":{"names":["one",2]}}`:             false,
		`{"id":"a","kind":"own","config":{"names":"one"}}`:                 false,
		`{"id":"a","kind":"own","config":{"other":1}}`:                     false,
		`{"id":"a","kind":"own","config":{"port":"993"}}`:                  false,
		`{"id":"a","kind":"own","config":{"user":7}}`:                      false,
		`{"id":"a","kind":"own","config":{"key":"plain"}}`:                 false,
		`{"id":"a","kind":"own","config":{"key":{"secret":"K","more":1}}}`: false,
		`{"id":"a","kind":"own","labels":{"a=b":"c"}}`:                     false,
		`{"id":"a","kind":"own","labels":{"a\nb":"c"}}`:                    false,
		`{"id":"a","kind":"own","zebra":1}`:                                false,
		`{"id":"a","kind":"own","config":{"user":"a\nb"}}`:                 false,
		`{"id":"a","kind":"own","config":{"headers":{"x":"a\rb"}}}`:        false,
		`{"id":"a","kind":"other"}`:                                        false,
	} {
		r, err := readRecord([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		values, ok := k.fill(r)
		if ok != whole {
			t.Errorf("%s: said whole %v", text, ok)
		}
		back, faults := k.record(values)
		if whole && (len(faults) > 0 || !same(back, r)) {
			t.Errorf("%s: saved as %v, %v", text, back, faults)
		}
		again, err := readRecord([]byte(r.pretty()))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%s: as text\n%s\n%v", text, r.pretty(), err)
		}
	}
}

func TestFaultsThatOnlyTheFormKnows(t *testing.T) {
	k := ownKind(t)
	for body, want := range map[string][]*api.Fault{
		"labels=oops":            {{Location: "body.labels", Message: "oops"}},
		"labels=a%3D1%0D%0Aa%3D": {{Location: "body.labels", Message: "a="}},
		"config.settings=%7B":    {{Location: "body.config.settings", Message: "unexpected EOF"}},
		"config.tls=none":        {{Location: "body.config.tls", Message: "invalid character 'o' in literal null (expecting 'u')"}},
		"config.port=many":       nil, // the API says what is wrong
	} {
		values, err := url.ParseQuery(body)
		if err != nil {
			t.Fatal(err)
		}
		if _, faults := k.record(values); !reflect.DeepEqual(faults, want) {
			t.Errorf("%s: got %q", body, faults)
		}
	}
	for _, text := range []string{"", "null", "[]", "7", "{}{}", "{", `"x"`} {
		if r, err := readRecord([]byte(text)); err == nil {
			t.Errorf("%q is the record %v", text, r)
		}
	}
}

// Whatever a form or a record holds, it is read and shown without a panic, and a form that says
// it shows everything loses nothing.
func FuzzRecord(f *testing.F) {
	f.Add(`{"id":"a","kind":"own","config":{"url":"x","headers":{"a":{"secret":"b"}}},"labels":{"a":"b"}}`, "config.headers.0.name=a&config.settings=%7B%7D&labels=x%3Dy")
	f.Add(`{"config":{"login":{"user":7}},"retry_budget":1e3}`, "retry_budget=1e3&config.tls=0")
	f.Fuzz(func(t *testing.T, text, body string) {
		k := ownKind(t)
		if r, err := readRecord([]byte(text)); err == nil {
			values, whole := k.fill(r)
			if back, faults := k.record(values); whole && (len(faults) > 0 || !same(back, r)) {
				t.Errorf("%s: saved as %v, %v", text, back, faults)
			}
			if _, err := readRecord([]byte(r.pretty())); err != nil {
				t.Errorf("%s: shown as %s: %v", text, r.pretty(), err)
			}
		}
		if values, err := url.ParseQuery(body); err == nil {
			if r, _ := k.record(values); r["kind"] != "own" {
				t.Errorf("%s: %v", body, r)
			}
		}
	})
}
