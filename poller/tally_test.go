package poller

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/history"
)

func TestRatesAreOverTheTimeSinceTheLastReport(t *testing.T) {
	tally := newTally(noon)
	for i := range 40 {
		tally.checked(i%4 != 0)
	}
	tally.found(25)
	tally.found(75)
	got := tally.report(noon.Add(20 * time.Second))
	totals := &history.Totals{Checks: 40, Failures: 10, Messages: 100}
	if want := (accounts.Report{ChecksPerSecond: 2, FailuresPerSecond: 0.5, MessagesPerSecond: 5, Totals: totals}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	tally.late(time.Second)
	tally.checked(true)
	if got := tally.report(noon.Add(30 * time.Second)); got.ChecksPerSecond != 0.1 || got.FailuresPerSecond != 0 || got.LatenessP50 == 0 {
		t.Errorf("got %+v", got)
	}
	lateness := make(history.Lateness, 21)
	lateness[20] = 1
	totals = &history.Totals{Checks: 41, Failures: 10, Messages: 100, Lateness: lateness}
	if got := tally.report(noon.Add(40 * time.Second)); !reflect.DeepEqual(got, accounts.Report{Totals: totals}) {
		t.Errorf("got %+v after nothing", got)
	}
}

func TestReportsWithoutTimeBetweenThemAreFinite(t *testing.T) {
	tally := newTally(noon)
	for _, now := range []time.Time{noon, noon, noon.Add(-time.Hour)} { // for the last one, the clock was set back
		tally.checked(true)
		if got := tally.report(now).ChecksPerSecond; math.IsInf(got, 0) || math.IsNaN(got) || got < 0 {
			t.Errorf("%v checks per second", got)
		}
	}
}

// A quantile is never less than the true one, and exceeds it by less than a factor of the
// square root of two.
func TestQuantilesAreRightWithinABucket(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 99, 100, 101, 1000} {
		tally := newTally(noon)
		var all []time.Duration
		for range n {
			d := time.Duration(math.Exp(random.Float64()*16) * float64(time.Millisecond)) // 1 ms to 2.5 h
			all = append(all, d)
			tally.late(d)
		}
		slices.Sort(all)
		got := tally.report(noon.Add(time.Second))
		for q, quantile := range map[float64]float64{0.5: got.LatenessP50, 0.99: got.LatenessP99} {
			exact := all[int(math.Ceil(q*float64(n)))-1].Seconds()
			if quantile < exact*0.999999 || quantile > exact*math.Sqrt2*1.000001 {
				t.Errorf("of %d: p%v is %v, exactly %v", n, 100*q, quantile, exact)
			}
		}
	}
}

func TestLatenessOutOfRangeCountsAtTheEnds(t *testing.T) {
	for _, test := range []struct {
		late time.Duration
		want float64
	}{
		{math.MinInt64, 0.001}, {-time.Second, 0.001}, {0, 0.001}, {time.Millisecond, 0.001},
		{time.Millisecond + 1, math.Sqrt2 / 1000}, {2 * time.Millisecond, 0.002}, {1024 * time.Millisecond, 1.024},
		{math.MaxInt64, math.Exp2(29.5) / 1000},
	} {
		tally := newTally(noon)
		tally.late(test.late)
		if got := tally.report(noon.Add(time.Second)); math.Abs(got.LatenessP50-test.want) > 1e-9 || got.LatenessP99 != got.LatenessP50 {
			t.Errorf("%v: p50 %v and p99 %v, want %v", test.late, got.LatenessP50, got.LatenessP99, test.want)
		}
	}
}

func TestNothingIsCountedTwiceOrLostBetweenReports(t *testing.T) {
	tally := newTally(noon)
	var counting sync.WaitGroup
	for range 8 {
		counting.Go(func() {
			for range 1000 {
				tally.checked(true)
				tally.found(1)
				tally.late(time.Millisecond)
			}
		})
	}
	checks, messages, now := 0.0, 0.0, noon
	for range 100 {
		now = now.Add(time.Second)
		r := tally.report(now)
		checks, messages = checks+r.ChecksPerSecond, messages+r.MessagesPerSecond
	}
	counting.Wait()
	r := tally.report(now.Add(time.Second))
	if checks += r.ChecksPerSecond; checks != 8000 {
		t.Errorf("%v checks, want 8000", checks)
	}
	if messages += r.MessagesPerSecond; messages != 8000 {
		t.Errorf("%v messages, want 8000", messages)
	}
}
