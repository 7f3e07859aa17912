package browser

import (
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// violations returns how many findings an audit has that nobody ordered on a page.
func (h *hands) violations() (found int) {
	h.t.Helper()
	a, err := h.scene.Calls.Audit(h.t.Context(), false, "")
	h.must(err)
	for _, kind := range a.Kinds {
		found += kind.Found
	}
	return found
}

// audit finds an account that is in no place, repairs it, and reads in the trail who did so.
func (h *hands) audit() {
	h.until("hand-more rests", func() bool { return h.account("hand-more").State.Place == circulate.Scheduled })
	lose(h.t, h.scene, "hand-more")
	if n := h.violations(); n != 1 {
		h.t.Fatalf("%d violations, want 1", n)
	}
	h.open("/system")
	h.goes(`form[action="/system/audit"] button`, "/system/audit")
	h.reads(`.step:last-of-type h2 .bad`, "not repaired")
	h.reads(`.step:last-of-type table`, "hand-more")
	h.named()
	if n := h.violations(); n != 1 {
		h.t.Errorf("%d violations after an audit that must not repair, want 1", n)
	}
	var law struct {
		Last struct{ By string }
	}
	if h.read("/v1/law", &law); law.Last.By != "hand" {
		h.t.Errorf("the last audit is that of %q", law.Last.By)
	}
	h.open("/system")
	h.goes(`form[action="/system/repair"] button`, "/system/repair")
	h.reads(`.step:last-of-type h2 .good`, "repaired")
	if n := h.violations(); n != 0 {
		h.t.Errorf("%d violations after the repair", n)
	}
	h.goes(`.step:last-of-type a[href="/system"]`, "/system")
	h.goes(`.head a[href="/trail"]`, "/trail")
	h.reads(`table.trail tbody tr`, "audit")
	h.named()
}

// lose takes an account out of its schedule, as no program of ours does.
func lose(t *testing.T, s *scene.Scene, id string) {
	t.Helper()
	c, err := s.Server.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	keys, err := redis.Strings(c.Do("KEYS", "*:schedule"))
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, key := range keys {
		n, err := redis.Int(c.Do("ZREM", key, id))
		if err != nil {
			t.Fatal(err)
		}
		lost += n
	}
	if lost != 1 {
		t.Fatalf("%s was in %d of %d schedules", id, lost, len(keys))
	}
}

// testShards tries another number of shards and begins the change. Afterwards the scene is
// another.
func (w *world) testShards(t *testing.T) {
	h := w.hands(t)
	shards := func() (phase string, to int) {
		r, err := w.scene.Calls.Resharding(t.Context())
		h.must(err)
		return string(r.Phase), r.To
	}
	h.open("/system")
	h.writes(`#to`, "8")
	h.goes(`form.reshard button[value=try]`, "/system/reshard")
	h.reads(`form.reshard [role=status]`, "8")
	h.named()
	if phase, to := shards(); phase != "steady" || to != 4 {
		t.Errorf("a trial has changed the shards: %s, %d", phase, to)
	}
	h.goes(`#shards button[value=begin]`, "/system")
	if phase, to := shards(); to != 8 {
		t.Errorf("the shards are %s, %d", phase, to)
	}
	sound(t, h.tab)
}
