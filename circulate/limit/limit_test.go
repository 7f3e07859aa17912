package limit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
	"github.com/rounds-dev/rounds/circulate/internal/wiretest"
)

var oneAtOnce = Limit{Name: "a", Concurrency: 1, Lease: time.Minute}

// steps are calls of every kind.
var steps = map[string]wiretest.Step{
	"acquire": func(ctx context.Context, w *wire.Wire) error {
		answers, err := Limits{w}.Acquire(ctx, []Asks{{Limit: oneAtOnce, Asks: []Ask{{CheckID: "a"}}}})
		return errors.Join(err, answers[0].Err)
	},
	"finish": func(ctx context.Context, w *wire.Wire) error {
		return Limits{w}.Finish(ctx, []Finished{{Limit: oneAtOnce, CheckIDs: []string{"a"}}})
	},
	"refund": func(ctx context.Context, w *wire.Wire) error {
		return Limits{w}.Refund(ctx, []Refund{{Limit: oneAtOnce, Granted: time.UnixMicro(1), CheckIDs: []string{"a"}}})
	},
	"connect": func(ctx context.Context, w *wire.Wire) error {
		_, errs := Limits{w}.Connect(ctx, []Connects{{oneAtOnce, []string{"a"}}}, time.Minute)
		return errs[0]
	},
	"trouble": func(ctx context.Context, w *wire.Wire) error {
		_, _, err := Troubles{w}.Do(ctx, []TroubleStep{{Name: "a", What: Failed}})
		return err
	},
	"list troubles": func(ctx context.Context, w *wire.Wire) error {
		_, _, err := Troubles{w}.All(ctx)
		return err
	},
}

func TestCancelledBeforeSendingIsNotSent(t *testing.T) { wiretest.CancelledBeforeSending(t, steps) }

func TestCallEndsAtItsDeadlineWithAnUnknownOutcome(t *testing.T) {
	wiretest.EndsAtItsDeadline(t, steps)
}

func TestNonsenseRepliesAreErrorsAndNoPanic(t *testing.T) { wiretest.NonsenseIsNoPanic(t, steps) }

// hashTag is what a cluster places a key by.
func hashTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

func TestVia(t *testing.T) {
	for name, want := range map[string][2]string{
		Via("http/h", "berlin"): {"http/h", "berlin"}, Via("http/h", ""): {"http/h", "direct"}, Via("http/h (via a)", "b-2"): {"http/h (via a)", "b-2"},
		"http/h": {"http/h", ""}, "http/h (via A)": {"http/h (via A)", ""}, "": {"", ""}, " (direct)": {" (direct)", ""},
	} {
		if of, way := CutVia(name); of != want[0] || way != want[1] {
			t.Errorf("%q: %q, %q", name, of, way)
		}
	}
}

func TestLimitKeysAreApartAndHaveOneHashTag(t *testing.T) {
	state, leases := keysOf("rounds", "http/api.example.com:8443")
	if state != "rounds:limits:{http/api.example.com:8443}" || leases != state+":leases" {
		t.Errorf("%q, %q", state, leases)
	}
	seen := make(map[string]string)
	for _, name := range []string{
		"http", "http/a", "http/*", "{http}", "}", "a}:leases", "#", "ü", "with space", "line\nfeed", strings.Repeat("x", 100),
		strings.Repeat("x", 101), strings.Repeat("x", 1<<20), "#" + strings.Repeat("0", 64), "a", "a:leases",
	} {
		state, leases := keysOf("rounds", name)
		if len(leases) > 150 || hashTag(state) != hashTag(leases) || !strings.HasPrefix(state, "rounds:limits:{") {
			t.Errorf("%.20q: %q, %q", name, state, leases)
		}
		for _, key := range []string{state, leases} {
			if other, ok := seen[key]; ok {
				t.Errorf("%.20q and %.20q share %q", name, other, key)
			}
			seen[key] = name
		}
	}
}

// A limit that Redis refuses for reasons of its own does not stop the others.
func TestLimitsAreAskedEachForItself(t *testing.T) {
	answer := func(nth int, _ string) (time.Duration, string) {
		now, when := 1795226313819000, 1795226314000
		return 0, []string{
			"-NOSCRIPT No matching script.\r\n",
			fmt.Sprintf("*2\r\n:%d\r\n:0\r\n", now),
			"-OOM command not allowed\r\n",
			fmt.Sprintf("*2\r\n:%d\r\n:%d\r\n", now, when), // the first, tried again
		}[nth-1]
	}
	wiretest.Against(t, answer, func(t *testing.T, w *wire.Wire, p *wiretest.Peer) {
		var asks []Asks
		for _, name := range []string{"a", "b", "c"} {
			asks = append(asks, Asks{Limit: Limit{Name: name, Every: time.Second, Burst: 1}, Asks: []Ask{{CheckID: "x"}}})
		}
		answers, err := Limits{w}.Acquire(t.Context(), asks)
		if err != nil {
			t.Fatal(err)
		}
		if a := answers[0]; a.Err != nil || a.At[0].UnixMilli() != 1795226314000 || a.Now.UnixMicro() != 1795226313819000 {
			t.Errorf("loaded again: %v", a)
		}
		if a := answers[1]; a.Err != nil || !a.At[0].IsZero() {
			t.Errorf("granted: %v", a)
		}
		if a := answers[2]; !wire.HasCode(a.Err, "OOM") || wire.Unknown(a.Err) || a.At != nil {
			t.Errorf("refused: %v", a)
		}
		if n := p.Sent(); n != 4 {
			t.Errorf("%d commands were sent", n)
		}
	})
}

// If the connection is cut, it is unknown which checks were counted.
func TestLimitsCutOffAreUnknown(t *testing.T) {
	answer := func(nth int, _ string) (time.Duration, string) {
		if nth == 1 {
			return 0, "*2\r\n:1795226313819000\r\n:0\r\n"
		}
		return 0, ""
	}
	wiretest.Against(t, answer, func(t *testing.T, w *wire.Wire, _ *wiretest.Peer) {
		asks := Asks{Limit: oneAtOnce, Asks: []Ask{{CheckID: "x"}}}
		other := asks
		other.Limit.Name = "other"
		answers, err := Limits{w}.Acquire(t.Context(), []Asks{asks, other, asks})
		if err != nil || answers[0].Err != nil || !wire.Unknown(answers[1].Err) || !wire.Unknown(answers[2].Err) {
			t.Errorf("%v, %v", answers, err)
		}
	})
}

func TestLimitBatchesOutOfBoundsAreNotSent(t *testing.T) {
	server := connect.NewEmbedded()
	t.Cleanup(func() { _ = server.Close() })
	ring, err := circulate.Open(context.Background(), server, circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	server.Miniredis().SetError("ERR something was sent")
	ids := make([]string, circulate.MaxBatch/2+1)
	asks := Asks{Limit: oneAtOnce, Asks: make([]Ask, len(ids))}
	finished := Finished{Limit: oneAtOnce, CheckIDs: ids}
	_, acquireErr := Of(ring).Acquire(t.Context(), []Asks{asks, asks})
	for _, err := range []error{acquireErr, Of(ring).Finish(t.Context(), []Finished{finished, finished})} {
		if !errors.Is(err, wire.ErrInput) || !strings.Contains(err.Error(), "a batch has 1 to 1000") {
			t.Errorf("%v", err)
		}
	}
}
