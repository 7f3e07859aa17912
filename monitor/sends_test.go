package monitor_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

// A send that nobody attempts expires, and an attempt of a replica that is dead becomes unknown.
// That of a living one does not.
func TestSweepsEndSends(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.register("a")
		sends, dead, alive := w.Ring.Sends(), circulate.NewReplica(), circulate.NewReplica()
		queue := func(peer string, expires time.Time) circulate.Send {
			s := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: peer, Type: "text", Expires: expires}
			if _, _, err := sends.Queue(w.Context(), s, "", circulate.SendBounds{}); err != nil {
				t.Fatal(err)
			}
			return s
		}
		attempt := func(replica string) circulate.Attempt {
			got, _, err := sends.Attempt(w.Context(), w.Ring.ShardOf("a"), circulate.AttemptOrder{Replica: replica, Step: replica, Kinds: []string{"chat"}, Most: 1, Lasts: time.Hour})
			if err != nil || len(got) != 1 {
				t.Fatal(got, err)
			}
			return got[0]
		}
		beat := func(replica string) {
			if _, err := w.Ring.Heartbeat(w.Context(), replica, nil, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		m := w.monitor(monitor.Config{})
		beat(dead)
		queue("anna", time.Time{})
		queue("ben", time.Time{})
		first, second := attempt(dead), attempt(alive)
		expires := queue("carl", time.Now().Add(10*time.Second))
		for range 20 {
			beat(alive)
			if _, err := m.Sweep(w.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		for id, want := range map[string]circulate.SendState{first.ID: circulate.SendUnknown, second.ID: circulate.SendAttempting, expires.ID: circulate.SendExpired} {
			if s, err := sends.Look(w.Context(), id); err != nil || s.State != want {
				t.Errorf("%s is %s, %v; want %s", s.Peer, s.State, err, want)
			}
		}
		sum, err := sends.Count(w.Context(), w.Ring.ShardOf("a"))
		if want := (circulate.SendCount{Attempting: 1, Unknown: 1, Oldest: first.Queued}); err != nil || sum != want {
			t.Errorf("counted %+v, %v; want %+v", sum, err, want)
		}
	})
}

// Unknown sends are told, with when the oldest was queued and since when there have been any. That
// stays with the next monitor, and ends when somebody has resolved all of them.
func TestDoubtsAreTold(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.register("a")
		sends, shard := w.Ring.Sends(), w.Ring.ShardOf("a")
		doubt := func(peer string) (queued time.Time, id, fence string) {
			s := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: peer, Type: "text"}
			s, _, err := sends.Queue(w.Context(), s, "", circulate.SendBounds{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			got, _, err := sends.Attempt(w.Context(), shard, circulate.AttemptOrder{Replica: circulate.NewReplica(), Step: peer, Kinds: []string{"chat"}, Most: 1, Lasts: time.Minute})
			if err != nil || len(got) != 1 {
				t.Fatal(got, err)
			}
			if _, err := sends.Settle(w.Context(), []circulate.Settlement{{ID: s.ID, Fence: got[0].Fence, Outcome: circulate.AttemptUnknown}}); err != nil {
				t.Fatal(err)
			}
			return s.Queued, s.ID, got[0].Fence
		}
		resolve := func(id, fence string) {
			if _, err := sends.Resolve(w.Context(), id, circulate.Resolution{Fence: fence, To: circulate.SendAccepted}); err != nil {
				t.Fatal(err)
			}
		}
		stop := w.run(monitor.Config{})
		told := func(n int, oldest time.Time) time.Time {
			t.Helper()
			time.Sleep(2 * time.Minute)
			told, _ := w.watched()
			d := told.Doubts
			if d == nil || d.Sends != n || !d.Oldest.Equal(oldest) || d.Since.IsZero() != (n == 0) {
				t.Fatalf("told %+v, want %d sends, the oldest of %v", d, n, oldest)
			}
			return d.Since
		}
		told(0, time.Time{})
		first, id, fence := doubt("anna")
		since := told(1, first)
		second, id2, fence2 := doubt("ben")
		told(2, first)
		stop()
		w.NewMetrics()
		stop = w.run(monitor.Config{})
		resolve(id, fence)
		if again := told(1, second); !again.Equal(since) {
			t.Errorf("unknown since %v, before that since %v", again, since)
		}
		resolve(id2, fence2)
		told(0, time.Time{})
		stop()
	})
}

// A send that is missing from its peer's line is a finding of the regular audits, as accounts out of
// place are. An audit that repairs has it sent.
func TestAuditsFindSendsThatAreMisplaced(t *testing.T) {
	for _, repair := range []bool{false, true} {
		inFakeTime(t, 2, func(w *world) {
			w.register("a")
			shard := w.Ring.ShardOf("a")
			s := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: "anna", Type: "text"}
			if _, _, err := w.Ring.Sends().Queue(w.Context(), s, "", circulate.SendBounds{}); err != nil {
				t.Fatal(err)
			}
			w.Do("DEL", key(w.Ring, shard, "sends:line"), key(w.Ring, shard, "sends:due"))
			stop := w.run(monitor.Config{AuditRepair: repair})
			time.Sleep(time.Minute)
			l, err := concern.Read(w.Context(), w.Ring)
			if err != nil || l.Last == nil {
				t.Fatal(l, err)
			}
			found, repaired := l.Last.Found(circulate.Misplaced)
			if state := map[bool]concern.State{false: concern.Flawed, true: concern.Repaired}[repair]; l.State != state || found != 1 || repaired == 1 != repair || l.Last.Findings[0].ID != s.ID {
				t.Errorf("the law is %s, %+v", l.State, l.Last)
			}
			time.Sleep(10 * time.Minute) // the next one
			stop()
			l, err = concern.Read(w.Context(), w.Ring)
			if state := map[bool]concern.State{false: concern.Flawed, true: concern.Kept}[repair]; err != nil || l.State != state {
				t.Errorf("after the next one the law is %s, %v", l.State, err)
			}
			due, err := w.Ring.Sends().Due(w.Context())
			if err != nil || len(due) == 1 != repair {
				t.Errorf("due in %v, %v", due, err)
			}
		})
	}
}
