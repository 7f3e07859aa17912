package fetch

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"soon", "", 0},
		{"-5", "", 0},
		{"1.5", "", 0},
		{"30", "", 30 * time.Second},
		{" 30 ", "", 30 * time.Second},
		{"0", "", MinRetryAfter},
		{"86400", "", MaxRetryAfter},
		{"86401", "", MaxRetryAfter},
		{"99999999999999999999999", "", MaxRetryAfter},
		{at(time.Minute), "", time.Minute},
		{at(-time.Minute), "", MinRetryAfter},
		{at(999 * time.Hour), "", MaxRetryAfter},
		{at(time.Minute), at(50 * time.Second), 10 * time.Second},
		{at(time.Minute), "nonsense", time.Minute},
	} {
		got := retryAfter(http.Header{"Retry-After": {c.value}, "Date": {c.date}}, now)
		if got != c.want {
			t.Errorf("%q, date %q: got %v, want %v", c.value, c.date, got, c.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{"", "1", "0", "Sun, 06 Nov 1994 08:49:37 GMT", "99999999999999999999", "-1"} {
		f.Add(value, "Sun, 06 Nov 1994 08:49:07 GMT")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		got := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, time.Now())
		if got != 0 && (got < MinRetryAfter || got > MaxRetryAfter) {
			t.Errorf("got %v", got)
		}
	})
}
