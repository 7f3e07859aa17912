package cadence

import (
	"fmt"
	"hash/fnv"
	"time"
)

// interval is "every". Its slots are at the phase modulo the interval. 0 is the tight ring.
type interval time.Duration

// Every returns the cadence of an interval. 0 is the tight ring: again at once. The error
// says which limit the interval breaks.
func Every(every time.Duration) (Cadence, error) {
	if every != 0 {
		if err := validateInterval(every, "0 or at least"); err != nil {
			return Cadence{}, err
		}
	}
	return Cadence{interval(every)}, nil
}

func validateInterval(d time.Duration, least string) error {
	switch {
	case d < MinInterval:
		return fmt.Errorf("an interval must be %s %v, is %v", least, MinInterval, d)
	case d > MaxInterval:
		return fmt.Errorf("an interval must be at most %v, is %v", MaxInterval, d)
	case d%time.Millisecond != 0:
		return fmt.Errorf("an interval must be whole milliseconds, is %v", d)
	}
	return nil
}

func (i interval) String() string {
	if i == 0 {
		return "every 0"
	}
	return "every " + brief(time.Duration(i))
}

func (i interval) rule() string { return RuleCadence }

func (i interval) longest() time.Duration { return time.Duration(i) }

func (i interval) current(State) time.Duration { return time.Duration(i) }

func (i interval) after(id string, now time.Time, _ State) (time.Time, bool) {
	if i == 0 {
		return now, true
	}
	step := time.Duration(i).Milliseconds()
	return time.UnixMilli(slotUpTo(now.UnixMilli(), id, step) + step), true
}

// slotUpTo returns the last slot of an account that is not later than ms. Slots are the times
// that equal the phase modulo step. The phase is the hash of the id modulo step.
func slotUpTo(ms int64, id string, step int64) int64 {
	phase := int64(hash(id) % uint64(step))
	return ms - mod(ms-phase, step)
}

func mod(a, b int64) int64 { return ((a % b) + b) % b }

// hash is FNV-1a with its low bits mixed once more: ids that differ only in their last digit
// must not get nearly the same phase.
func hash(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd // the finalizer of MurmurHash3
	x ^= x >> 33
	return x
}

// roundUp returns t, or the next whole millisecond, so that rounding never shortens a wait
// that was asked for.
func roundUp(t time.Time) time.Time {
	if cut := t.Truncate(time.Millisecond); cut.Before(t) {
		return cut.Add(time.Millisecond)
	}
	return t
}
