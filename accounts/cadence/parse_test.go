package cadence_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

func mustParse(t testing.TB, text string) cadence.Cadence {
	t.Helper()
	c, err := cadence.Parse(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return c
}

func TestParseForms(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "every 1m",
		"every 0":                              "every 0",
		"every 0s":                             "every 0",
		"every 90m":                            "every 1h30m",
		"adaptive":                             "adaptive 10s..15m",
		" adaptive  10s..15m ":                 "adaptive 10s..15m",
		"adaptive 1s .. 24h":                   "adaptive 1s..24h",
		"adaptive 1m..1m":                      "adaptive 1m..1m",
		"cron 0 9 * * MON-FRI Asia/Shanghai":   "cron 0 9 * * MON-FRI Asia/Shanghai",
		"cron  0  9 *\t* mon-fri":              "cron 0 9 * * mon-fri",
		"cron 0 9 * * 7 UTC":                   "cron 0 9 * * 7",
		"cron 0 9 * * * Etc/GMT-8":             "cron 0 9 * * * Etc/GMT-8",
		"cron */5,3 0-23/2 1 JAN ? ~300s":      "cron */5,3 0-23/2 1 JAN ? ~5m",
		"cron 0 0 29 2 * Europe/Berlin ~1h30m": "cron 0 0 29 2 * Europe/Berlin ~1h30m",
		"cron 0 0 30 2 MON":                    "cron 0 0 30 2 MON", // Mondays in February
		"at 2026-12-01T09:00:00+08:00":         "at 2026-12-01T09:00:00+08:00",
		"at 2026-12-01T09:00:00.250Z":          "at 2026-12-01T09:00:00.25Z",
		"at 2026-12-01T09:00:00+00:00":         "at 2026-12-01T09:00:00Z",
	} {
		c := mustParse(t, text)
		if got := c.String(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if again := mustParse(t, c.String()).String(); again != want {
			t.Errorf("%q: read again it is %q", want, again)
		}
	}
	var zero cadence.Cadence
	if zero.String() != "every 0" {
		t.Errorf("the zero value is %q", zero)
	}
}

// Each refusal names its reason.
func TestParseRefuses(t *testing.T) {
	for text, reason := range map[string]string{
		"often":                                  `begins with "every", "adaptive", "cron" or "at"`,
		"@every 1s":                              "is not a cadence",
		"CRON 0 9 * * *":                         "is not a cadence",
		"every " + strings.Repeat("0", 300):      "at most 256 bytes",
		"every":                                  "needs a duration",
		"every 999ms":                            "0 or at least 1s",
		"every -1m":                              "0 or at least 1s",
		"every 9000h":                            "at most",
		"every 1.0001s":                          "whole milliseconds",
		"adaptive 10s":                           "two bounds",
		"adaptive 10s..":                         "not a duration",
		"adaptive 0..1m":                         "at least 1s, is 0s",
		"adaptive 1m..10s":                       "above the upper one",
		"adaptive 1s..9000h":                     "at most",
		"cron":                                   "five fields",
		"cron 0 9 * *":                           "five fields",
		"cron 0 0 9 * * MON":                     "no seconds",
		"cron 0 0 9 * * *":                       "no seconds",
		"cron 0 0 9 * * MON Asia/Shanghai":       "five fields",
		"cron @every 1s":                         "not supported",
		"cron @reboot":                           "not supported",
		"cron @daily":                            "not supported",
		"cron TZ=0":                              "the zone comes last",
		"cron TZ=":                               "the zone comes last",
		"cron CRON_TZ= 9 * * *":                  "the zone comes last",
		"cron TZ=Asia/Shanghai 0 9 * * *":        "the zone comes last",
		"cron 0 9 * * * Mars/Olympus":            "not a known zone",
		"cron 0 9 * * * Local":                   "not a known zone",
		"cron 0 9 * * * localtime":               "not a known zone",
		"cron 0 9 * * * right/UTC":               "not a known zone",
		"cron 0 9 * * * ../UTC":                  "not a known zone",
		"cron 0 9 * * * ./UTC":                   "not a known zone",
		"cron 0 9 * * * /usr/share/zoneinfo/UTC": "not a known zone",
		"cron 0 9 * * * +08:00":                  "not a known zone",
		"cron 60 9 * * *":                        "minute",
		"cron 0 24 * * *":                        "hour",
		"cron 0 9 0 * *":                         "day of month",
		"cron 0 9 32 * *":                        "day of month",
		"cron 0 9 * 13 *":                        "month",
		"cron 0 9 * * 8":                         "day of week",
		"cron 0 9 * * FRI-MON":                   "day of week",
		"cron 0 9 * * MON#1":                     "day of week",
		"cron 0 9 L * *":                         "day of month",
		"cron 5-1 9 * * *":                       "minute",
		"cron */0 9 * * *":                       "minute",
		"cron -1 9 * * *":                        "minute",
		"cron 1,,2 9 * * *":                      "minute",
		"cron , 9 * * *":                         "minute",
		"cron *-5 9 * * *":                       "minute",
		"cron 1/2/3 9 * * *":                     "minute",
		"cron 0 0 30 2 *":                        "never fires",
		"cron 0 0 31 4,6,9,11 *":                 "never fires",
		"cron 0 9 * * * ~":                       "not a duration",
		"cron 0 9 * * * ~500ms":                  "spread over",
		"cron 0 9 * * * ~25h":                    "spread over",
		"cron 0 9 * * * ~5m UTC":                 "five fields",
		"at":                                     "RFC 3339",
		"at noon":                                "RFC 3339",
		"at 2026-12-01 09:00:00Z":                "RFC 3339",
		"at 2026-12-01T09:00:00":                 "RFC 3339",
		"at 2026-12-01T9:00:00Z":                 "RFC 3339",
		"at 2026-12-01T09:00:00,5Z":              "RFC 3339",
		"at 2026-02-30T09:00:00Z":                "RFC 3339",
		"at 2026-12-01T09:00:00+99:00":           "RFC 3339",
		"at 2026-12-01T09:00:00.0001Z":           "whole milliseconds",
	} {
		c, err := cadence.Parse(text)
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v, %v; want %q", text, c, err, reason)
		}
	}
}

func TestTimed(t *testing.T) {
	for text, want := range map[string]bool{
		"every 1m": false, "every 0": false, "adaptive": false,
		"cron 0 9 * * *": true, "at 2026-12-01T09:00:00Z": true,
	} {
		if got := mustParse(t, text).Timed(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Each cadence that Parse accepts is written so that Parse reads the same cadence again, and
// asking it for a time is safe.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"every 1m", "every 0", "adaptive 10s..15m", "adaptive", "at 2026-12-01T09:00:00+08:00", "at 0000-01-01T00:00:00-23:59",
		"cron 0 9 * * MON-FRI Asia/Shanghai", "cron */30 * * * 1-7/2 Australia/Lord_Howe ~5m", "cron TZ=0", "cron CRON_TZ= * * * *",
		"cron 0 0 29 2 *", "cron 0 0 30 2 *", "cron @every 1s", "cron ? ? ? ? SAT-SUN/99999999999999999999",
	} {
		f.Add(text, int64(1_774_000_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, ms int64) {
		c, err := cadence.Parse(text)
		if err != nil {
			return
		}
		again, err := cadence.Parse(c.String())
		if err != nil || again.String() != c.String() {
			t.Fatalf("%q became %q, which is %q, %v", text, c, again, err)
		}
		now := time.UnixMilli(ms % (200 * 366 * 24 * 3600 * 1000))
		next, ok := c.After("id", now, cadence.State{})
		if c.String() != "every 0" && ok && !next.After(now) {
			t.Fatalf("%q: %v is not after %v", c, next, now)
		}
		if other, same := again.After("id", now, cadence.State{}); same != ok || !other.Equal(next) {
			t.Fatalf("%q: %v and %v", c, next, other)
		}
		if _, isAt := strings.CutPrefix(c.String(), "at "); !ok && !isAt {
			t.Fatalf("%q never fires after %v", c, now)
		}
	})
}
