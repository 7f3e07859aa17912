package accounts

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// shownChanges returns changes as lines.
func shownChanges(all []FieldChange) string {
	var lines []string
	for _, c := range all {
		lines = append(lines, c.Field+": "+string(c.Before)+" > "+string(c.After))
	}
	return strings.Join(lines, "\n")
}

// A replaced record is the one before, and its patch leads to the one after. What has become a secret
// is in neither.
func TestReplacedRecords(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"values":         {`{"id":"a","cadence":"every 1m","config":{"url":"x","n":1}}`, `{"id":"a","config":{"url":"y","n":1},"priority":"low"}`, "cadence: \"every 1m\" > \nconfig.url: \"x\" > \"y\"\npriority:  > \"low\""},
		"a secret":       {`{"id":"a","config":{"h":{"X-Key":"plain","y":"1"}}}`, `{"id":"a","config":{"h":{"X-Key":{"secret":"K"},"y":"1"}}}`, `config.h: {"X-Key":"***","y":"1"} > {"X-Key":{"secret":"K"},"y":"1"}`},
		"another secret": {`{"id":"a","config":{"k":{"secret":"A"}}}`, `{"id":"a","config":{"k":{"secret":"B"}}}`, `config.k: {"secret":"A"} > {"secret":"B"}`},
		"no more secret": {`{"id":"a","config":{"k":{"secret":"A"}}}`, `{"id":"a","config":{"k":{"name":"x"}}}`, `config.k: {"secret":"A"} > {"name":"x"}`},
		"an object":      {`{"id":"a","config":{"o":{"deep":{"x":1,"y":2}}}}`, `{"id":"a","config":{"o":{"deep":{"x":1}}}}`, `config.o: {"deep":{"x":1,"y":2}} > {"deep":{"x":1}}`},
		"a name":         {`{"id":"a","labels":{"a.b":"1"}}`, `{"id":"a"}`, `labels.a.b: "1" > `},
		"unreadable":     {`{"id":`, `{"id":"a"}`, ""},
	} {
		p := replacedBy([]byte(c.before), []byte(c.after))
		if strings.Contains(string(p.Record), "plain") {
			t.Errorf("%s: %s has what is a secret since", name, p.Record)
		}
		if got := shownChanges(p.Changes()); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
		if p.Record == nil {
			continue
		}
		old, _ := strict.Stored(p.Record)
		patch, _ := strict.Stored(p.Patch)
		merged, err := merge(old, patch)
		var got, want any
		if err != nil || json.Unmarshal(merged, &got) != nil || json.Unmarshal([]byte(c.after), &want) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the patch %s leads to %s, %v", name, p.Patch, merged, err)
		}
	}
}

// What is masked in a version stays as it is now, wherever it is.
func TestUnmaskedVersions(t *testing.T) {
	then, _ := strict.Stored([]byte(`{"id":"a","config":{"h":{"key":"***","gone":"***","x":"1"},"list":["***"]},"cadence":"every 1m"}`))
	now, _ := strict.Stored([]byte(`{"id":"a","config":{"h":{"key":{"secret":"K"},"new":"2"}}}`))
	made, err := unmasked(then, now)
	if want := `{"cadence":"every 1m","config":{"h":{"key":{"secret":"K"},"x":"1"},"list":["***"]},"id":"a"}`; err != nil || string(made) != want {
		t.Errorf("%s, %v", made, err)
	}
}
