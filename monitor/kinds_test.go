package monitor_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// Accounts that wait by a kind are left there while a living replica checks it, and for a
// minute after the last one has gone. Then any replica may claim them.
func TestAKindThatNobodyChecksIsRecalled(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		ids := []string{"a", "b", "c", "d", "e", "f"}
		w.register(ids...)
		for shard := range w.Ring.Shards() {
			claims := w.claim(shard, alice, 10)
			var all []circulate.HandOver
			for i := range claims {
				all = append(all, circulate.HandOver{Claim: &claims[i], Kind: "mail"})
			}
			if n, err := w.Ring.Kinds().HandOver(w.Context(), shard, all); err != nil || n != len(claims) {
				t.Fatalf("handed over %d of %d, %v", n, len(claims), err)
			}
		}
		waiting := func() (n int) {
			t.Helper()
			for shard := range w.Ring.Shards() {
				c, err := w.Ring.Count(w.Context(), shard)
				if err != nil {
					t.Fatal(err)
				}
				n += c.ByKind
			}
			return n
		}
		// pass lets time pass while replicas beat that check those kinds.
		pass := func(d time.Duration, kinds map[string]string) {
			t.Helper()
			for range d / (3 * time.Second) {
				for replica, report := range kinds {
					if _, err := w.Ring.Heartbeat(w.Context(), replica, []byte(report), time.Minute); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(3 * time.Second)
			}
		}
		defer faketime.Go(w, w.monitor(monitor.Config{}).Run)()
		const feeds, mails = `{"kinds":["feed"]}`, `{"kinds":["chat","mail"]}`
		pass(5*time.Minute, map[string]string{alice: feeds, bob: mails})
		if n := waiting(); n != len(ids) {
			t.Fatalf("%d of %d wait by their kind, while a replica checks it", n, len(ids))
		}
		// It is restarted, and away for half a minute.
		pass(30*time.Second, map[string]string{alice: feeds, carol: "a report of another version"})
		pass(3*time.Minute, map[string]string{alice: feeds, bob: mails})
		if n := waiting(); n != len(ids) {
			t.Fatalf("%d of %d wait by their kind after a restart", n, len(ids))
		}
		pass(3*time.Minute, map[string]string{alice: feeds})
		if n := waiting(); n != 0 {
			t.Errorf("%d wait by a kind that nobody checks", n)
		}
		if n := w.Counted("rounds_recalled_total", ""); n != float64(len(ids)) {
			t.Errorf("%v are counted as recalled", n)
		}
		claimed := 0
		for shard := range w.Ring.Shards() {
			claimed += len(w.claim(shard, alice, 10))
		}
		if claimed != len(ids) {
			t.Errorf("%d of %d can be claimed", claimed, len(ids))
		}
		expectLaw(w.T, w.Redis, w.Ring, len(ids))
	})
}
