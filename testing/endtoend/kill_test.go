package endtoend

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

const accounts = 300

// TestKilledProcessesLoseNothing tests the main job with real processes: an API, three
// pollers and two monitors on one Redis, with 300 accounts of both kinds. A poller and
// a monitor are killed and another poller is told to end, while the upstream still posts.
// Every account must be checked again, and every message must be in the stream exactly
// once.
func TestKilledProcessesLoseNothing(t *testing.T) {
	binary := build(t)
	server := redistest.Start(t, redistest.WithAOF())
	third, closeThird, err := upstream.Serve(upstream.Options{PageLimit: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer closeThird()
	addr := freeAddress(t)
	settings := []string{"ROUNDS_REDIS_URL=" + server.URL(), "ROUNDS_API_ADDR=" + addr, "ROUNDS_API_URL=http://" + addr, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true", "ROUNDS_SHARDS=16"}

	start(t, "api", binary, settings, "serve", "--roles", "api")
	pollers := make([]*process, 3)
	for i := range pollers {
		pollers[i] = start(t, fmt.Sprint("poller ", i), binary, settings, "serve", "--roles", "poller")
	}
	monitors := make([]*process, 2)
	for i := range monitors {
		monitors[i] = start(t, fmt.Sprint("monitor ", i), binary, settings, "serve", "--roles", "monitor")
	}
	eventually(t, 20*time.Second, "the API is ready", func() bool { return status(t, "http://"+addr+"/readyz") == 200 })

	ids := make([]string, accounts)
	var records bytes.Buffer
	for i := range ids {
		kind, route := "http", "connector"
		if i%2 == 1 {
			kind, route = "feed", "feed"
		}
		ids[i] = fmt.Sprintf("%s-%04d", kind, i)
		fmt.Fprintf(&records, `{"id":%q,"kind":%q,"config":{"url":%q},"cadence":"every 5s"}`+"\n", ids[i], kind, third.URL(route, ids[i]))
		third.Post(ids[i])
	}
	load := exec.Command(binary, "account", "import", "-")
	load.Env, load.Stdin = settings, &records
	if out, err := load.CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprint(accounts)) {
		t.Fatalf("import: %v\n%s", err, out)
	}

	posting, endPosting := context.WithCancel(context.Background())
	posted := make(chan struct{})
	go func() {
		defer close(posted)
		for tick := time.Tick(5 * time.Millisecond); posting.Err() == nil; <-tick {
			third.Post(ids[rand.IntN(len(ids))])
		}
	}()

	ring, err := circulate.Open(t.Context(), redistest.Connect(t, server), circulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "every account is checked", func() bool { return checkedSince(third, ids, time.Time{}) == accounts })

	// Some answers are slow, so that the killed processes leave claims behind.
	for _, id := range ids[:accounts/2] {
		third.Fail(id, upstream.Fault{Delay: 4 * time.Second})
	}
	var victim, other *process
	eventually(t, 20*time.Second, "a poller holds claims", func() bool { // how they share the work is open
		for i, p := range pollers {
			if len(heldBy(t, ring, p.replica(t))) >= 30 {
				victim, other = p, pollers[(i+1)%len(pollers)]
				return true
			}
		}
		return false
	})
	victim.kill()
	killed := time.Now()
	left := heldBy(t, ring, victim.replica(t))
	monitors[0].kill()
	if len(left) == 0 {
		t.Fatal("the killed poller left no claims behind")
	}
	other.terminate(t)
	if n := len(heldBy(t, ring, other.replica(t))); n != 0 {
		t.Errorf("the poller that was told to end left %d claims behind", n)
	}

	eventually(t, 20*time.Second-time.Since(killed), "the dead poller's claims are taken up", func() bool {
		return checkedSince(third, left, killed) == len(left)
	})
	t.Logf("%d claims of the killed poller were all being checked again %v after the kill", len(left), time.Since(killed).Round(time.Millisecond))
	for _, id := range ids[:accounts/2] {
		third.Heal(id)
	}
	healed := time.Now()
	eventually(t, 30*time.Second, "every account is checked on by the poller that is left", func() bool {
		return checkedSince(third, ids, healed) == accounts
	})
	endPosting()
	<-posted

	total := 0
	for _, id := range ids {
		total += third.Stats(id).Posted
	}
	eventually(t, 30*time.Second, "as many messages found as posted", func() bool { return countMessages(t, ring) >= total })
	verify(t, ring, third, ids)
	t.Logf("%d messages of %d accounts, each in the stream exactly once", total, accounts)
}

// checkedSince counts the accounts with a check that began after a time.
func checkedSince(third *upstream.Upstream, ids []string, since time.Time) int {
	n := 0
	for _, id := range ids {
		if third.Stats(id).Last.After(since) {
			n++
		}
	}
	return n
}

// heldBy returns the accounts that a replica has in processing_list.
func heldBy(t *testing.T, ring *circulate.Ring, replica string) []string {
	t.Helper()
	var ids []string
	for shard := range ring.Shards() {
		held, _, err := ring.Oldest(t.Context(), shard, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range held {
			if h.Entry.Replica == replica {
				ids = append(ids, h.Entry.ID)
			}
		}
	}
	return ids
}

func countMessages(t *testing.T, ring *circulate.Ring) int {
	t.Helper()
	n := 0
	for shard := range ring.Shards() {
		c, err := ring.Count(t.Context(), shard)
		if err != nil {
			t.Fatal(err)
		}
		n += c.Messages
	}
	return n
}

// verify expects each message that was posted in the stream exactly once, and
// no other.
func verify(t *testing.T, ring *circulate.Ring, third *upstream.Upstream, ids []string) {
	t.Helper()
	found := make(map[string]int)
	for shard := range ring.Shards() {
		for after := circulate.StreamStart; ; {
			page, err := ring.Streams().Messages(t.Context(), shard, after, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, m := range page {
				found[m.Message.ID]++
				after = m.Position
			}
		}
	}
	lost, doubled := 0, 0
	for _, id := range ids {
		for n := range third.Stats(id).Posted {
			switch c := found[upstream.MessageID(id, n+1)]; {
			case c == 0:
				lost++
			case c > 1:
				doubled++
			}
			delete(found, upstream.MessageID(id, n+1))
		}
	}
	if lost > 0 || doubled > 0 || len(found) > 0 {
		t.Errorf("%d messages lost, %d doubled, %d made up", lost, doubled, len(found))
	}
}
