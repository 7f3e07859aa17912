package strict

import (
	"encoding/json"
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
