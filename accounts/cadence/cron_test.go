package cadence_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// Each row is an instant and the slots that follow it, one after the other.
func TestCronClockChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		text, now string
		want      []string
	}{
		"skipped: when the clock jumps": {"30 2 * * * America/New_York", "2026-03-07T12:00:00Z", []string{
			"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		"several skipped: once": {"0,15,30,45 2 * * * Europe/Berlin", "2026-03-28T02:00:00Z", []string{
			"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		"skipped, and one at the jump: once": {"0 2,3 * * * Europe/Berlin", "2026-03-28T12:00:00Z", []string{
			"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		"twice: the first time": {"30 1 * * * America/New_York", "2026-10-31T12:00:00Z", []string{
			"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		"twice, asked between": {"30 1 * * * America/New_York", "2026-11-01T05:40:00Z", []string{
			"2026-11-02T01:30:00-05:00"}},
		"after the hour that comes twice": {"0 2 * * * America/New_York", "2026-11-01T05:40:00Z", []string{
			"2026-11-01T02:00:00-05:00"}},
		"*: in both hours": {"*/30 * * * * America/New_York", "2026-11-01T04:30:00Z", []string{
			"2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T01:30:00-05:00", "2026-11-01T02:00:00-05:00"}},
		"*: not in the hour that is skipped": {"*/30 * * * * America/New_York", "2026-03-08T06:00:00Z", []string{
			"2026-03-08T01:30:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00"}},
		"hourly: each real hour": {"0 * * * * America/New_York", "2026-11-01T04:30:00Z", []string{
			"2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"}},
		"half an hour skipped": {"15 2 * * * Australia/Lord_Howe", "2026-10-03T00:00:00Z", []string{
			"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		"half an hour twice": {"45 1 * * * Australia/Lord_Howe", "2026-04-04T00:00:00Z", []string{
			"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		"*: half an hour twice": {"*/15 * * * * Australia/Lord_Howe", "2026-04-04T14:20:00Z", []string{
			"2026-04-05T01:30:00+11:00", "2026-04-05T01:45:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T01:45:00+10:30", "2026-04-05T02:00:00+10:30"}},
		"midnight skipped": {"0 0 * * * America/Santiago", "2026-09-05T12:00:00Z", []string{
			"2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"}},
		"a day skipped": {"0 9 30 12 * Pacific/Apia", "2011-12-29T00:00:00Z", []string{
			"2011-12-31T00:00:00+14:00", "2012-12-30T09:00:00+14:00"}},
		"no leap year for eight years": {"0 0 29 2 *", "2096-03-01T00:00:00Z", []string{
			"2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"}},
		"Sunday is 7 as well": {"0 9 * * 6-7", "2026-08-07T12:00:00Z", []string{
			"2026-08-08T09:00:00Z", "2026-08-09T09:00:00Z", "2026-08-15T09:00:00Z"}},
		"Sunday ends a range": {"0 9 * * SAT-SUN", "2026-08-07T12:00:00Z", []string{
			"2026-08-08T09:00:00Z", "2026-08-09T09:00:00Z", "2026-08-15T09:00:00Z"}},
		"Sunday in steps": {"0 9 * * 1-7/3", "2026-08-03T12:00:00Z", []string{
			"2026-08-06T09:00:00Z", "2026-08-09T09:00:00Z", "2026-08-10T09:00:00Z"}},
	} {
		c := mustParse(t, "cron "+tt.text)
		now := instant(t, tt.now)
		for i, want := range tt.want {
			next, ok := c.After("id", now, cadence.State{})
			if !ok || !next.Equal(instant(t, want)) {
				t.Errorf("%s: %d. is %v, want %s", name, i+1, next, want)
				break
			}
			now = next
		}
	}
}

func TestCronCollapsesMissedSlots(t *testing.T) {
	c := mustParse(t, "cron */5 * * * * Asia/Kathmandu")
	now := instant(t, "2026-08-08T10:03:00.5Z")
	next, _ := c.After("id", now.Add(10*time.Hour), cadence.State{})
	if want := instant(t, "2026-08-08T20:05:00Z"); !next.Equal(want) {
		t.Errorf("after an outage: %v, want %v", next, want)
	}
}

// Accounts are spread evenly over the time after the slot, each at the same place every day.
// A restart does not move an account to another day.
func TestCronSpread(t *testing.T) {
	c := mustParse(t, "cron 0 9 * * * Europe/Berlin ~10m")
	day := instant(t, "2026-08-08T00:00:00Z")
	slot := instant(t, "2026-08-08T09:00:00+02:00")
	buckets := make([]int, 10)
	for i := range 10_000 {
		id := fmt.Sprint("account-", i)
		due, _ := c.After(id, day, cadence.State{})
		late := due.Sub(slot)
		if late < 0 || late >= 10*time.Minute {
			t.Fatalf("%s is due %v after the slot", id, late)
		}
		buckets[late/time.Minute]++
		if again, _ := c.After(id, due.Add(-time.Millisecond), cadence.State{}); !again.Equal(due) {
			t.Fatalf("%s: %v a moment before, %v earlier", id, again, due)
		}
		if next, _ := c.After(id, due, cadence.State{}); !next.Equal(due.AddDate(0, 0, 1)) {
			t.Fatalf("%s: %v, and then %v", id, due, next)
		}
	}
	for i, n := range buckets {
		if n < 850 || n > 1150 {
			t.Errorf("minute %d: %d of 10000 accounts", i, n)
		}
	}
}
