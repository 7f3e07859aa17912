package accounts

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

func TestUsedShareStandsBesideTheRest(t *testing.T) {
	until, skip := time.UnixMilli(1795226313819), time.UnixMilli(1795226000000)
	kept := cadence.State{Interval: time.Minute, Refusals: 2, FirstRefusal: time.UnixMilli(5)}
	state := WithSkip(WithUsed(kept.Encode(), until), skip)
	if got := UsedUntil(state); !got.Equal(until) {
		t.Errorf("%q: used until %v", state, got)
	}
	if got := SkipBefore(state); !got.Equal(skip) {
		t.Errorf("%q: skips before %v", state, got)
	}
	if got, err := cadence.ParseState(state); err != nil || got != kept {
		t.Errorf("%q: %+v, %v", state, got, err)
	}
	if WithUsed("i5", time.Time{}) != "i5" {
		t.Error("a zero time was noted")
	}
	for _, none := range []string{"", "i60000", "s5", "b", "bx", "b-1", "b99999999999999999"} {
		if got := UsedUntil(none); !got.IsZero() {
			t.Errorf("%q: used until %v", none, got)
		}
	}
}
