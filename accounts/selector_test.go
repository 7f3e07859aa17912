package accounts

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
)

func TestSelectorMatches(t *testing.T) {
	const record = `{"id":"a","kind":"feed","labels":{"team":"news","tier":""}}`
	for name, tt := range map[string]struct {
		s      Selector
		place  circulate.Place
		reason string
		want   bool
	}{
		"all":                        {Selector{}, circulate.Scheduled, "", true},
		"kind":                       {Selector{Kinds: []string{"http", "feed"}}, circulate.Scheduled, "", true},
		"other kind":                 {Selector{Kinds: []string{"http"}}, circulate.Scheduled, "", false},
		"labels":                     {Selector{Labels: map[string]string{"team": "news", "tier": ""}}, circulate.Scheduled, "", true},
		"one label of two":           {Selector{Labels: map[string]string{"team": "news", "tier": "gold"}}, circulate.Scheduled, "", false},
		"empty label that is not":    {Selector{Labels: map[string]string{"x": ""}}, circulate.Scheduled, "", false},
		"kind, but no label":         {Selector{Kinds: []string{"feed"}, Labels: map[string]string{"x": "y"}}, circulate.Scheduled, "", false},
		"active":                     {Selector{States: []string{StateActive}}, circulate.Claimed, "", true},
		"active, place not known":    {Selector{States: []string{StateActive}}, "", "", true},
		"active is not parked":       {Selector{States: []string{StateActive}}, circulate.Parked, "paused", false},
		"paused":                     {Selector{States: []string{StatePaused}}, circulate.Parked, "paused by hand", true},
		"paused is not every parked": {Selector{States: []string{StatePaused}}, circulate.Parked, "auth", false},
		"parked":                     {Selector{States: []string{"parked"}}, circulate.Parked, "auth", true},
		"one state of two":           {Selector{States: []string{"waiting", "claimed"}}, circulate.Claimed, "", true},
		"neither state":              {Selector{States: []string{"waiting", "claimed"}}, circulate.Scheduled, "", false},
		"reason":                     {Selector{Reasons: []string{"gone", "auth"}}, circulate.Parked, "auth: 401", true},
		"no reason when not parked":  {Selector{Reasons: []string{""}}, circulate.Scheduled, "", false},
	} {
		if got := tt.s.matches([]byte(record), tt.place, tt.reason); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for text, s := range map[string]Selector{"{": {Kinds: []string{"feed"}}, `{"labels":[]}`: {Labels: map[string]string{"a": "b"}}} {
		if s.matches([]byte(text), circulate.Scheduled, "") {
			t.Errorf("%s is selected", text)
		}
	}
	s := Selector{Prefixes: []string{"a", "b/"}}
	if got := s.passes([]string{"a", "b", "b/1", "c", "ab"}); !slices.Equal(got, []string{"a", "b/1", "ab"}) {
		t.Errorf("ids: %q", got)
	}
}

func TestNewSelector(t *testing.T) {
	s, err := NewSelector([]string{"feed"}, []string{"active", "parked"}, []string{"a=b=c", "d=", "d="}, []string{"x"}, []string{"auth"})
	if err != nil || s.Labels["a"] != "b=c" || len(s.Labels) != 2 || s.Empty() {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := NewSelector(nil, nil, nil, nil, nil); err != nil || !s.Empty() {
		t.Errorf("nothing: %+v, %v", s, err)
	}
	many := make([]string, MaxSelected+1)
	for i := range many {
		many[i] = "x"
	}
	long := strings.Repeat("x", 2000)
	_, err = NewSelector(append(many, ""), []string{"asleep"}, []string{"a", "b=1", "b=2", "=x", "y=" + long}, []string{long, "\xff"}, []string{long})
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	var fields []string
	for _, f := range faults {
		fields = append(fields, f.Field)
	}
	if want := []string{"label", "label", "kind", "kind", "state", "label", "label", "prefix", "prefix", "reason"}; !slices.Equal(fields, want) {
		t.Errorf("%q: %v", fields, err)
	}
}
