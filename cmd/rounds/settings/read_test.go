package settings

import (
	"errors"
	"testing"
)

// Faults that a caller's check finds are reported with the value and its source. A setting
// that already has a fault gets no further one.
func TestChecksOfOthers(t *testing.T) {
	limits := func(s Settings) error {
		if s.Poller.Limits != "much" {
			t.Errorf("the check sees %+v", s)
		}
		return Faults{{"ROUNDS_LIMITS", "must be less"}, {"ROUNDS_LIMITS", "must be more"}, {"ROUNDS_CONCURRENCY", "must be odd"}, {"ROUNDS_API_TOKEN", "must be long"}}
	}
	fails := func(Settings) error { return errors.New("the check fails") }
	passes := func(Settings) error { return nil }
	lookup := lookupIn(map[string]string{"ROUNDS_LIMITS": "much", "ROUNDS_CONCURRENCY": "lots", "ROUNDS_API_TOKEN": "s3cret-0123456789"})
	_, err := Read(lookup, nil, limits, passes, fails)
	const want = `ROUNDS_CONCURRENCY is "lots": must be a whole number from 1 to 100000
ROUNDS_LIMITS is "much": must be less
ROUNDS_LIMITS is "much": must be more
ROUNDS_API_TOKEN: must be long
the check fails`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if got := (Faults{{"A", "b"}, {"C", "d"}}).Error(); got != "A: b\nC: d" {
		t.Errorf("got %q", got)
	}
}

func TestMaskURLHidesPasswordsThatWereNotEscaped(t *testing.T) {
	for url, want := range map[string]string{
		"redis://h:1/2":                             "redis://h:1/2",
		"redis://u:hunter2@h:1":                     "redis://xxxxx@h:1",
		"redis://u:hunter2/hunter2@h:1":             "redis://xxxxx@h:1",
		"redis://u:hunter2?hunter2@h:1":             "redis://xxxxx",
		"redis://u:hunter2#hunter2@h:1":             "redis://xxxxx",
		"redis://u:hunter2@hunter2@h:1":             "redis://xxxxx@h:1",
		"redis+sentinel://h/m?sentinel_password=a@": "redis+sentinel://xxxxx",
		"u:hunter2?hunter2@h":                       "xxxxx",
		"http://h/?token=hunter2":                   "http://h/?xxxxx",
	} {
		if got := MaskURL(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}
