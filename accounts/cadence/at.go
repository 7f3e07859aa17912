package cadence

import (
	"fmt"
	"regexp"
	"time"
)

// fixed is "at": one time, once.
type fixed struct{ time time.Time }

// strict is the form that RFC 3339 demands. Time.Parse accepts other forms too.
var strict = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

func parseFixed(rest string) (form, error) {
	t, err := time.ParseInLocation(time.RFC3339, rest, time.UTC) // in UTC, so that the machine's zone does not matter
	if err != nil || !strict.MatchString(rest) {
		return nil, fmt.Errorf(`%q is not an RFC 3339 time with an offset or Z, as in "at 2026-12-01T09:00:00+08:00"`, rest)
	}
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		return nil, fmt.Errorf("a time must be whole milliseconds, is %s", rest)
	}
	return fixed{t}, nil
}

func (f fixed) String() string { return "at " + f.time.Format(time.RFC3339Nano) }

func (f fixed) rule() string { return RuleAt }

func (f fixed) longest() time.Duration { return 0 }

func (f fixed) current(State) time.Duration { return 0 }

func (f fixed) after(_ string, now time.Time, _ State) (time.Time, bool) {
	if !f.time.After(now) {
		return time.Time{}, false
	}
	return f.time, true
}
