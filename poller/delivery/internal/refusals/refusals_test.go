package refusals_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery/internal/refusals"
)

// book is a record whose log is read.
type book struct {
	*refusals.Record
	t     *testing.T
	log   bytes.Buffer
	began time.Time
}

func inFakeTime(t *testing.T, test func(b *book)) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{t: t, began: time.Now()}
		b.Record = refusals.New(slog.New(slog.NewTextHandler(&b.log, nil)), refusals.Lines{
			First: "begins", Still: "lasts", Again: "again", Over: "over", Count: "refused",
		}, time.Minute)
		test(b)
	})
}

// fail lets some time pass with a refused message a second. At its end none wait.
func (b *book) fail(why string, lasts time.Duration) {
	for until := time.Now().Add(lasts); time.Now().Before(until); time.Sleep(time.Second) {
		b.Refused(errors.New(why), []any{"account", "a"}, []any{"error", why})
	}
	b.calm(2 * time.Second)
}

// calm lets some time pass in which no message is refused.
func (b *book) calm(lasts time.Duration) {
	for until := time.Now().Add(lasts); time.Now().Before(until); time.Sleep(time.Second) {
		b.End(time.Second, true)
		b.Remind([]any{"error", "?"})
	}
}

// expect compares the lines of the log since the last call.
func (b *book) expect(want ...string) {
	b.t.Helper()
	var got []string
	for line := range strings.Lines(b.log.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "level=")
		got = append(got, text)
	}
	b.log.Reset()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		b.t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An episode that begins a while after the last one is logged from its first refusal on, like the
// first episode, and so is its end.
func TestEachEpisodeIsLogged(t *testing.T) {
	inFakeTime(t, func(b *book) {
		for range 3 {
			b.fail("no table", 10*time.Second)
			b.calm(3 * time.Minute)
			b.expect(
				`WARN msg=begins error="no table" account=a`,
				`INFO msg=again lasted=11s refused=10`)
		}
	})
}

// An episode that begins at once after the last one is logged when it lasts.
func TestAnEpisodeThatFollowsAtOnceIsLoggedWhenItLasts(t *testing.T) {
	inFakeTime(t, func(b *book) {
		b.fail("no table", 10*time.Second)
		b.calm(20 * time.Second)
		b.expect(
			`WARN msg=begins error="no table" account=a`,
			`INFO msg=again lasted=11s refused=10`)
		b.fail("no column", 59*time.Second)
		b.expect()
		b.calm(10 * time.Second)
		b.fail("no column", 90*time.Second)
		b.calm(10 * time.Minute)
		b.expect(
			`WARN msg=begins error="no column" account=a times=2`,
			`INFO msg=again lasted=1m31s refused=149`)
	})
}

// Many short episodes are one line at their end, and one every ten minutes, with their number.
func TestShortEpisodesAreSummedUp(t *testing.T) {
	inFakeTime(t, func(b *book) {
		flap := func(times int) {
			for range times {
				b.fail("now and again", 3*time.Second)
				b.calm(25 * time.Second) // 30 s together
			}
		}
		flap(5)
		b.expect(
			`WARN msg=begins error="now and again" account=a`,
			`INFO msg=again lasted=4s refused=3`)
		b.calm(2 * time.Minute)
		b.expect(`INFO msg=again times=4 error="now and again" refused=12`)
		flap(40)
		b.expect(
			`WARN msg=begins error="now and again" account=a`,
			`INFO msg=again lasted=4s refused=3`,
			`WARN msg=lasts error="now and again" refused=64 delivered=0 lasts=0s times=21`,
			`INFO msg=again lasted=4s refused=63`)
	})
}
