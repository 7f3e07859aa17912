package monitor_test

import (
	"testing"
	"time"

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
		if want := (circulate.SendCount{Attempting: 1, Unknown: 1}); err != nil || sum != want {
			t.Errorf("counted %+v, %v; want %+v", sum, err, want)
		}
	})
}
