package poller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A replica shares the shards with the replicas that check the same kinds or do not say which
// kinds they check. It knows which kinds the others check, and learns when one of the others
// has left.
func TestPeersByKind(t *testing.T) {
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	report := func(kinds ...string) []byte {
		text, err := json.Marshal(accounts.Report{Kinds: kinds})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var alive []string
	for name, text := range map[string][]byte{
		"alice00000": report("feed", "http"), "bob0000000": report("feed", "http"), "carol00000": report("feed", "http"),
		"dave000000": report("mail"), "eve0000000": report("feed", "http", "mail", "chat"), "frank00000": []byte("an older version's"),
	} {
		if _, err := ring.Heartbeat(t.Context(), name, text, time.Minute); err != nil {
			t.Fatal(err)
		}
		alive = append(alive, name)
	}
	p := newPeers(ring, "alice00000", []string{"feed", "http"})
	table := newTimetable(8, time.Now())
	for range 3 {
		same, gone, err := p.among(t.Context(), alive)
		slices.Sort(same)
		if want := []string{"bob0000000", "carol00000", "frank00000"}; err != nil || gone || !slices.Equal(same, want) {
			t.Fatalf("shares with %v, gone %v, %v; want %v", same, gone, err, want)
		}
		table.divide("alice00000", same, time.Now()) // divide sorts its argument
		if len(table.peers) != 4 {
			t.Fatalf("divided among %v", table.peers)
		}
	}
	for kind, want := range map[string]bool{"mail": true, "chat": true, "feed": true, "nobody's": false, "": false} {
		if p.check(kind) != want {
			t.Errorf("somebody else checks %q: %v", kind, !want)
		}
	}
	without := func(name string) []string {
		return slices.DeleteFunc(slices.Clone(alive), func(n string) bool { return n == name })
	}
	for _, step := range []struct {
		alive []string
		gone  bool
	}{{without("bob0000000"), false}, {alive, false}, {without("eve0000000"), true}, {without("eve0000000"), false}, {alive, false}} {
		if _, gone, err := p.among(t.Context(), step.alive); err != nil || gone != step.gone {
			t.Errorf("%v: gone %v, %v", fmt.Sprint(step.alive), gone, err)
		}
	}
	if p.check("nobody's") || !p.check("chat") {
		t.Error("what others check is not read anew")
	}
}

// reading is a Redis that calls a function of the test before each of its calls.
type reading struct {
	circulate.Server
	before func()
}

func (r *reading) Conn(ctx context.Context, key string) (redis.Conn, error) {
	if r.before != nil {
		r.before()
	}
	return r.Server.Conn(ctx, key)
}

// A replica learns at once that another one leaves, even while it reads from Redis who the others
// are. Until it has learned that, a Redis inside the process may answer nobody.
func TestPeersAreReadWithoutALock(t *testing.T) {
	server := &reading{Server: redistest.Embedded(t)}
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	alive := []string{"alice00000", "bob0000000", "carol00000"}
	for _, name := range alive {
		if _, err := ring.Heartbeat(t.Context(), name, []byte(`{"kinds":["feed"]}`), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	p := newPeers(ring, "alice00000", []string{"feed"})
	if same, _, err := p.among(t.Context(), alive[:2]); err != nil || !slices.Equal(same, alive[1:2]) {
		t.Fatalf("shares with %v, %v", same, err)
	}
	left := false
	server.before = func() {
		if !p.mu.TryLock() {
			t.Error("the lock is held while Redis is called")
			return
		}
		p.mu.Unlock()
		_, left = p.stopped("bob0000000")
	}
	same, _, err := p.among(t.Context(), alive)
	if err != nil || !left || !slices.Equal(same, alive[2:]) {
		t.Errorf("shares with %v, %v, and the other left: %v", same, err, left)
	}
}
