package key

import (
	"encoding/hex"
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate/document"
)

func TestTexts(t *testing.T) {
	shape := regexp.MustCompile(`^rounds_[0-9A-Za-z]{49}$`)
	seen := make(map[string]bool)
	for range 1000 {
		text := newText()
		if !shape.MatchString(text) || !Looks(text) || !wellFormed(text) || seen[text] {
			t.Fatalf("got %q", text)
		}
		seen[text] = true
	}
	text := newText()
	for i := range text {
		for _, c := range []byte("0aZ") {
			if changed := text[:i] + string(c) + text[i+1:]; changed != text && wellFormed(changed) {
				t.Errorf("with another letter at %d it passes for a key", i)
			}
		}
	}
	for _, other := range []string{"", prefix, text[1:], text[:len(text)-1], text + "0", " " + text, strings.ToLower(text), strings.Repeat("0", len(text))} {
		if wellFormed(other) {
			t.Errorf("%q passes for a key", other)
		}
	}
	// Small numbers have as many digits as large ones, and 256 bits fit.
	if got := digits(big.NewInt(61), 6); got != "00000Z" {
		t.Errorf("got %q", got)
	}
	most := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))
	if got := digits(most, secretDigits); len(got) != secretDigits {
		t.Errorf("256 bits take %d digits", len(got))
	}
	if sum, err := hex.DecodeString(digestOf("rounds_x")); err != nil || len(sum) != 32 || strings.Contains(digestOf(text), text[7:]) {
		t.Errorf("digest: %v", err)
	}
}

func TestNewKeysAreJudged(t *testing.T) {
	good := New{Name: "press.reader@2", Role: access.Viewer, Labels: access.Labels{"team": "press", "env": ""}, Life: time.Hour}
	if err := good.Validate(); err != nil {
		t.Errorf("good: %v", err)
	}
	many := make(access.Labels)
	for i := range MaxLabels + 1 {
		many[strings.Repeat("l", i+1)] = "v"
	}
	for _, c := range []struct {
		field string
		spoil func(*New)
	}{
		{"name", func(n *New) { n.Name = "" }},
		{"name", func(n *New) { n.Name = "two words" }},
		{"name", func(n *New) { n.Name = "-x" }},
		{"name", func(n *New) { n.Name = "x\n" }},
		{"name", func(n *New) { n.Name = strings.Repeat("x", MaxName+1) }},
		{"name", func(n *New) { n.Name = access.TokenName }},
		{"name", func(n *New) { n.Name = access.LocalName }},
		{"role", func(n *New) { n.Role = 0 }},
		{"role", func(n *New) { n.Role = 9 }},
		{"labels", func(n *New) { n.Labels = many }},
		{"labels", func(n *New) { n.Labels = access.Labels{"": "x"} }},
		{"labels", func(n *New) { n.Labels = access.Labels{"x": strings.Repeat("v", MaxLabel+1)} }},
		{"labels", func(n *New) { n.Labels = access.Labels{"x": "\xff"} }},
		{"expires_in", func(n *New) { n.Life = time.Second }},
		{"expires_in", func(n *New) { n.Life = -time.Hour }},
		{"expires_in", func(n *New) { n.Life = MaxLife + 1 }},
	} {
		n := good
		c.spoil(&n)
		var faults strict.Faults
		if err := n.Validate(); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != c.field {
			t.Errorf("%+v: %v", n, err)
		}
	}
	var faults strict.Faults
	if err := (New{Life: 1}).Validate(); !errors.As(err, &faults) || len(faults) != 3 {
		t.Errorf("all at once: %v", err)
	}
}

// A key whose record a later version may have written has no role.
func TestKeptRecords(t *testing.T) {
	for text, want := range map[string]access.Role{
		`{"v":1,"name":"n","role":"editor","created":1}`:                     access.Editor,
		`{"v":1,"name":"n","role":"editor","created":1,"note":"of a later"}`: access.Editor,
		`{"v":2,"name":"n","role":"editor","created":1,"only":"feeds"}`:      0,
		`{"v":1,"name":"n","role":"owner","created":1}`:                      0,
		`{"v":1,"name":"n"}`:                               0,
		`{"name":"n","role":"admin"}`:                      0,
		`{"v":1,"name":"n","role":"admin","labels":["x"]}`: 0,
		`{"v":1,"name":"n","role":"admin"`:                 0,
		``:                                                 0,
	} {
		k := keyOf(document.Key{Digest: "d", Record: []byte(text)})
		if k.Role != want || k.Digest != "d" || k.Principal().May(access.Viewer) != want.Valid() {
			t.Errorf("%s: %+v", text, k)
		}
	}
}

func TestLives(t *testing.T) {
	for text, want := range map[string]time.Duration{"90d": 90 * 24 * time.Hour, "1d": 24 * time.Hour, "12h": 12 * time.Hour, "1h30m": 90 * time.Minute} {
		if got, err := ParseLife(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "0d", "-1d", "1.5d", "90", "0s", "-1h", "90 d", "99999999999d", "9999999d", "9999999999h"} {
		if got, err := ParseLife(text); err == nil || !strings.Contains(err.Error(), "90d") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
