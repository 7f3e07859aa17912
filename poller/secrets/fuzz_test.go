package secrets

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/rounds-dev/rounds/accounts/secret"
)

// Only the sealed record itself can be opened, and only under the name for which it was
// sealed.
func FuzzSealed(f *testing.F) {
	k := generate(f)
	keys := Keys{k}
	sealed, err := k.Public().Seal("KEY", secret.Binding{Hosts: []string{"api.example.com"}}, "ann", []byte(openerHunter))
	if err != nil {
		f.Fatal(err)
	}
	text, err := json.Marshal(sealed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("KEY", text)
	f.Add("OTHER", text)
	f.Add("KEY", []byte(`{"hosts":["other.example"],"key":"`+k.Public().ID()+`","enc":"AAAA","sealed":"AAAA"}`))
	f.Add("KEY", []byte(`{"key":"`+k.Public().ID()+`"}`))
	f.Add("KEY", []byte(`{"key":5}`))
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		var r secret.Record
		if json.Unmarshal(text, &r) != nil {
			return
		}
		value, err := keys.open(name, &r)
		if err != nil {
			if len(value) > 0 {
				t.Errorf("%q with %v", value, err)
			}
			return
		}
		r.By = sealed.By // By is not sealed
		if name != "KEY" || string(value) != openerHunter || !reflect.DeepEqual(&r, sealed) {
			t.Errorf("%q opens as %s", text, name)
		}
	})
}

// A text of keys is refused, or it is read and written without a change.
func FuzzKeys(f *testing.F) {
	text, err := generate(f).Text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text + "," + text)
	f.Add(" ,\n" + text[:len(text)-1])
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := ParseKeys(text)
		if err != nil {
			return
		}
		for _, k := range keys {
			written, err := k.Text()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := ParseKeys(written); err != nil || len(again) != 1 || again[0].Public().ID() != k.Public().ID() {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
