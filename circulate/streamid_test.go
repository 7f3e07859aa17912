package circulate_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

func TestStreamIDs(t *testing.T) {
	ordered := []circulate.StreamID{{}, {Seq: 1}, {Ms: 1}, {Ms: 1, Seq: 1}, {Ms: 9}, {Ms: 10}, {Ms: 10, Seq: 9}, {Ms: 10, Seq: 10}, {Ms: math.MaxInt64, Seq: math.MaxInt64}}
	for i, id := range ordered {
		if read, err := circulate.ParseStreamID(id.String()); err != nil || read != id {
			t.Errorf("%v: %v, %v", id, read, err)
		}
		for j, other := range ordered {
			if got := circulate.ComparePositions(id.String(), other.String()); (got < 0) != (i < j) || (got > 0) != (i > j) || id.Before(other) != (i < j) {
				t.Errorf("%v and %v: %d", id, other, got)
			}
		}
	}
	if !slices.IsSortedFunc(ordered, circulate.StreamID.Compare) {
		t.Error("not in order")
	}
	for _, text := range []string{"", "$", "1", "-", "1-", "-1", "1-x", "01-1", "1-01", "+1-1", " 1-1", "1-1 ", "1-1-1", "9223372036854775808-0", "0-9223372036854775808"} {
		if id, err := circulate.ParseStreamID(text); err == nil || circulate.ValidatePosition(text) == nil {
			t.Errorf("%q is %v", text, id)
		}
		if circulate.ComparePositions(text, "0-1") >= 0 {
			t.Errorf("%q does not come before all ids", text)
		}
	}
	if id, err := circulate.ParseStreamID("0"); err != nil || id != (circulate.StreamID{}) {
		t.Errorf("0: %v, %v", id, err)
	}
	at := time.UnixMilli(1_700_000_000_123)
	if id := circulate.StreamIDAt(at); id.String() != "1700000000123-0" || !id.Time().Equal(at) {
		t.Errorf("%v", id)
	}
	if id := circulate.StreamIDAt(time.UnixMilli(-5)); id != (circulate.StreamID{}) {
		t.Errorf("before 1970: %v", id)
	}
	for id, want := range map[circulate.StreamID]circulate.StreamID{{}: {}, {Ms: 3, Seq: 2}: {Ms: 3, Seq: 1}, {Ms: 3}: {Ms: 2, Seq: math.MaxInt64}} {
		if got := id.Previous(); got != want {
			t.Errorf("before %v: %v", id, got)
		}
	}
}
