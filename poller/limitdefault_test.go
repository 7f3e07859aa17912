package poller

import (
	"encoding/json"
	"testing"
	"time"
)

// careful is a checker of a kind with a default limit.
type careful struct {
	Checker
	limit string
}

func (careful) Kind() string                     { return "careful" }
func (c careful) DefaultLimit() string           { return c.limit }
func (careful) RateKey(_ json.RawMessage) string { return "key" }

func TestDefaultLimits(t *testing.T) {
	for text, want := range map[string]struct{ key, other int }{
		"":                                   {5, 5},
		"other concurrency=1":                {5, 5},
		"careful concurrency=9":              {5, 5},
		"careful/* concurrency=2":            {2, 2},
		"careful/key concurrency=7":          {7, 5},
		"careful/key rate=1/s":               {0, 5},
		"careful/* rate=1/s; other rate=1/s": {0, 0},
	} {
		configured, err := ParseLimits(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		limits, err := configured.withDefaults(Checkers{"careful": careful{limit: "concurrency=5"}})
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]int{"key": want.key, "another": want.other} {
			if got := limits.of("careful", key, "")[0]; got == nil || got.Concurrency != want || got.Name != "careful/"+key {
				t.Errorf("%q, %s: got %+v, want %d", text, key, got, want)
			}
		}
		if whole := limits.of("careful", "", "")[1]; (whole != nil) != (text == "careful concurrency=9") {
			t.Errorf("%q: of the kind: %+v", text, whole)
		}
		if of := configured.kinds["careful"]; of != nil && of.each != nil && of.each.Concurrency == 5 {
			t.Errorf("%q: the settings were changed", text)
		}
	}
	if _, err := (Limits{}).withDefaults(Checkers{"careful": careful{limit: "rate=never"}}); err == nil {
		t.Error("a default that is no rule was taken")
	}
}

// sparing is careful, and has no limit for one rate key.
type sparing struct{ careful }

func (sparing) LimitsByDefault(rateKey string) bool { return rateKey != "spared" }

func TestDefaultLimitsOfSomeRateKeys(t *testing.T) {
	for text, want := range map[string]struct{ spared, other bool }{
		"":                       {false, true},
		"careful/* rate=1/s":     {true, true},
		"careful/other rate=1/s": {false, true},
	} {
		configured, err := ParseLimits(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		limits, err := configured.withDefaults(Checkers{"careful": sparing{careful{limit: "rate=2/s"}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, limits := range []Limits{limits, limits.leased(time.Minute)} {
			spared, other := limits.of("careful", "spared", "")[0] != nil, limits.of("careful", "other", "")[0] != nil
			if spared != want.spared || other != want.other {
				t.Errorf("%q: spared %t, other %t", text, spared, other)
			}
		}
	}
}
