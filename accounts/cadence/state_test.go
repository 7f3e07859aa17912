package cadence_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

func TestStateText(t *testing.T) {
	for text, s := range map[string]cadence.State{
		"":                       {},
		"i40000":                 {Interval: 40 * time.Second},
		"r2@1786000000123":       {Refusals: 2, FirstRefusal: time.UnixMilli(1786000000123)},
		"i1500 r1@1786000000123": {Interval: 1500 * time.Millisecond, Refusals: 1, FirstRefusal: time.UnixMilli(1786000000123)},
		"i60000 g m2.25@3600000@1786000000123": {Interval: time.Minute, Budgeted: true,
			Rate: cadence.Rate{Messages: 2.25, Over: time.Hour, Until: time.UnixMilli(1786000000123)}},
		"i31622400000 r1000000@1": {Interval: cadence.MaxInterval, Refusals: 1e6, FirstRefusal: time.UnixMilli(1)},
	} {
		if got := s.Encode(); got != text {
			t.Errorf("%+v: %q, want %q", s, got, text)
		}
		if got, err := cadence.ParseState(text); err != nil || got != s {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		s.Failures = 3 // set by the ring
		if got := s.Encode(); got != text {
			t.Errorf("with failures: %q, want %q", got, text)
		}
	}
}

// An unreadable text is the zero state. Words that a later version may add are ignored.
func TestStateUnreadable(t *testing.T) {
	for _, text := range []string{"i", "i0", "i-1", "ix", "i1e3", "i99999999999999", "r1", "r@1", "r0@1", "r1@", "r1@0", "i1000 r1@x", "r9999999999@1",
		"m", "m1@1", "m1@1@1@1", "m-1@1@1", "mNaN@1@1", "mInf@1@1", "m1@0@1", "m1@-1@1", "m1@1@0", "m1e30@1@1", "m1@9999999999999999@1"} {
		if s, err := cadence.ParseState(text); err == nil || s != (cadence.State{}) {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
	if s, err := cadence.ParseState(" x7:y  i1000 ü "); err != nil || s != (cadence.State{Interval: time.Second}) {
		t.Errorf("of a later version: %+v, %v", s, err)
	}
}

func FuzzParseState(f *testing.F) {
	f.Add("i1500 r1@1786000000123")
	f.Add("i r@")
	f.Add("i60000 g m2.255@3600000@1786000000123")
	f.Add("\xff x")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := cadence.ParseState(text)
		if err != nil {
			if s != (cadence.State{}) {
				t.Fatalf("%q: %+v with an error", text, s)
			}
			return
		}
		if again, err := cadence.ParseState(s.Encode()); err != nil || again != s {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
	})
}
