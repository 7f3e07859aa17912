package circulate_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/circulate/limit"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// Everything outside the shards recovers by itself after Redis' clock was a day ahead.
func TestWhatIsSharedAfterTheClockWentBack(t *testing.T) {
	t.Parallel()
	server := redistest.Embedded(t)
	ring := openRing(t, server, 1)
	right := time.Now()
	wrong := right.Add(24 * time.Hour)
	clock := func(at time.Time) { server.SetClock(func() time.Time { return at }) }

	one := limit.Limit{Name: "l", Every: time.Second, Burst: 1, Concurrency: 1, Lease: time.Minute}
	ask := func(id string) limit.Answers {
		t.Helper()
		answers, err := limit.Of(ring).Acquire(t.Context(), []limit.Asks{{Limit: one, Asks: []limit.Ask{{CheckID: id}}}})
		if err != nil || answers[0].Err != nil {
			t.Fatal(err, answers[0].Err)
		}
		return answers[0]
	}
	ref := credential.Ref{Owner: "o", Name: "n"}
	clock(wrong)
	for _, id := range []string{"a", "b", "c"} {
		ask(id)
	}
	if c, err := credential.Of(ring).Take(t.Context(), ref, 10*time.Second); err != nil || c.Fence == 0 {
		t.Fatal(c, err)
	}
	if _, err := credential.Of(ring).PauseOwner(t.Context(), "p", "busy", time.Minute, time.Minute); err != nil {
		t.Fatal(err)
	}
	if mine, err := ring.OnDuty(t.Context(), alice, 30*time.Second); !mine || err != nil {
		t.Fatal(mine, err)
	}

	clock(right)
	if at := ask("d").At[0]; at.After(right.Add(10 * time.Minute)) {
		t.Errorf("a newcomer is told to come in %v", at.Sub(right))
	}
	if c, err := credential.Of(ring).Take(t.Context(), ref, 10*time.Second); err != nil || c.Wait > 10*time.Second {
		t.Errorf("somebody fetches the credential for %v, %v", c.Wait, err)
	}
	if c, err := credential.Of(ring).Take(t.Context(), credential.Ref{Owner: "p", Name: "n"}, 10*time.Second); err != nil || c.Paused > time.Minute {
		t.Errorf("the owner is paused for %v, %v", c.Paused, err)
	}
	clock(right.Add(2 * time.Minute))
	if at := ask("e").At[0]; !at.IsZero() {
		t.Errorf("the lease of one that crashed holds for %v", at.Sub(right))
	}
}
