package circulate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	alice = "alice00000"
	bob   = "bob0000000"
)

// openRing opens a ring on a server of its own.
func openRing(t *testing.T, server circulate.Server, shards int) *circulate.Ring {
	t.Helper()
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func register(t *testing.T, ring *circulate.Ring, ids ...string) {
	t.Helper()
	for _, id := range ids {
		outcomes, err := ring.Register(t.Context(), ring.ShardOf(id), []circulate.Registration{{ID: id, Record: []byte("{}")}})
		if err != nil || outcomes[0] != circulate.Created {
			t.Fatalf("register %q: %q, %v", id, outcomes, err)
		}
	}
}

// places reads where every account is under its current ticket, by the key names that the
// protocol documents and not through the ring.
func places(t *testing.T, server redistest.Redis, ring *circulate.Ring) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for shard := range ring.Shards() {
		key := func(name string) string {
			return fmt.Sprintf("{%s:%0*d}:%s", ring.Namespace(), len(fmt.Sprint(ring.Shards()-1)), shard, name)
		}
		conn, err := server.Conn(t.Context(), key("tickets"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		tickets, err := redis.StringMap(conn.Do("HGETALL", key("tickets")))
		if err != nil {
			t.Fatal(err)
		}
		for id := range tickets {
			all[id] = nil
		}
		for _, place := range []string{"schedule", "parked"} {
			ids, err := redis.Strings(conn.Do("ZRANGE", key(place), 0, -1))
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				all[id] = append(all[id], place)
			}
		}
		for _, place := range []string{"message_queue", "message_queue:urgent", "message_queue:low", "message_queue:by_kind", "processing_list"} {
			read := "LRANGE"
			if place == "message_queue:by_kind" {
				read = "ZRANGE"
			}
			texts, err := redis.Strings(conn.Do(read, key(place), 0, -1))
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range texts {
				if _, rest, ok := strings.Cut(text, "\t"); ok {
					_, text, _ = strings.Cut(rest, "|")
				}
				e, err := circulate.ParseEntry(text)
				if err != nil {
					t.Errorf("%s: %v", key(place), err)
				} else if current, ok := tickets[e.ID]; ok && current[:14] == fmt.Sprintf("%014d", e.Ticket) {
					all[e.ID] = append(all[e.ID], place)
				}
			}
		}
	}
	return all
}

// expectLaw expects that many accounts, each in exactly one place.
func expectLaw(t *testing.T, server redistest.Redis, ring *circulate.Ring, accounts int) {
	t.Helper()
	all := places(t, server, ring)
	if len(all) != accounts {
		t.Errorf("%d accounts, want %d", len(all), accounts)
	}
	for id, in := range all {
		if len(in) != 1 {
			t.Errorf("%q is in %v", id, in)
		}
	}
}

// requeueAll takes every claim back, as a monitor does when all replicas are dead.
func requeueAll(t *testing.T, ring *circulate.Ring) {
	t.Helper()
	for shard := range ring.Shards() {
		var held []circulate.ClaimedEntry
		until(t, "oldest", func(ctx context.Context) (err error) { // its connection may be one to the server before
			held, _, err = ring.Oldest(ctx, shard, 0, 10_000)
			return err
		})
		for _, h := range held {
			until(t, "requeue", func(ctx context.Context) error {
				_, _, err := ring.Requeue(ctx, shard, h)
				return err
			})
		}
	}
}

// cycle takes the account "cycle" once through its life.
func cycle(t *testing.T, server redistest.Redis, ring *circulate.Ring) {
	t.Helper()
	ctx := t.Context()
	fail := func(step string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	shard := ring.ShardOf("cycle")
	last, err := ring.Streams().Last(ctx, shard)
	fail("last message", err)
	before := len(places(t, server, ring))
	register(t, ring, "cycle")
	_, err = ring.Heartbeat(ctx, alice, []byte("{}"), time.Minute)
	fail("heartbeat", err)
	claim := func(replica string) *circulate.Claim {
		t.Helper()
		b, err := ring.Claim(ctx, shard, replica, 10, 0)
		fail("claim", err)
		if len(b.Claims) != 1 || b.Claims[0].ID != "cycle" {
			t.Fatalf("claimed %+v", b.Claims)
		}
		return &b.Claims[0]
	}
	c := claim(alice)
	fail("progress", ring.Progress(ctx, c, circulate.Page{Kind: "k", Messages: []circulate.Message{{ID: "1"}}, Cursor: []byte("1")}))
	give := func(r circulate.Return) {
		t.Helper()
		outcomes, err := ring.Return(ctx, shard, []circulate.Return{r})
		fail("return", err)
		if outcomes[0] != circulate.Written {
			t.Fatalf("return: %v", outcomes[0])
		}
	}
	give(circulate.Return{Claim: c, Kind: "k", Messages: []circulate.Message{{ID: "2"}}, Cursor: []byte("2")})
	c = claim(alice)
	if string(c.Cursor) != "2" {
		t.Errorf("cursor %q, want 2", c.Cursor)
	}
	if n, err := ring.Release(ctx, shard, []*circulate.Claim{c}); n != 1 || err != nil {
		t.Fatalf("released %d, %v", n, err)
	}
	claim(alice)
	requeueAll(t, ring)
	c = claim(bob)
	give(circulate.Return{Claim: c, Due: c.Due.Add(time.Hour)})
	fail("nudge", ring.Account("cycle").Nudge(ctx, circulate.Nudge{}))
	claim(bob)
	if n, err := ring.Park(ctx, shard, circulate.ReasonPaused, []string{"cycle"}); n != 1 || err != nil {
		t.Fatalf("parked %d, %v", n, err)
	}
	fail("resume", ring.Account("cycle").Resume(ctx, circulate.Resumption{}))
	found, err := ring.Streams().Messages(ctx, shard, last, 10)
	fail("messages", err)
	if len(found) != 2 || found[0].Message.ID != "1" || found[1].Message.ID != "2" {
		t.Errorf("found %+v", found)
	}
	_, _, err = ring.Streams().Trim(ctx, shard, time.Now().Add(-time.Hour))
	fail("trim", err)
	expectLaw(t, server, ring, before+1)
	if views, err := ring.Look(ctx, shard, []string{"cycle"}); err != nil || len(views) != 1 || views[0].Place != circulate.Scheduled {
		t.Errorf("look: %+v, %v", views, err)
	}
	if _, err := ring.Count(ctx, shard); err != nil {
		t.Error(err)
	}
	if n, err := ring.Deregister(ctx, shard, []string{"cycle"}); n != 1 || err != nil {
		t.Fatalf("deregistered %d, %v", n, err)
	}
	fail("retire", ring.Retire(ctx, alice))
	if replicas, _, err := ring.Replicas(ctx); err != nil || len(replicas) != 0 {
		t.Errorf("replicas %v, %v", replicas, err)
	}
	expectLaw(t, server, ring, before)
}

// until repeats a call until Redis is there again, for at most ten seconds, and fails on
// any error that Redis replies.
func until(t *testing.T, what string, call func(ctx context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := call(ctx)
		cancel()
		if err == nil {
			return
		}
		if !circulate.Unavailable(err) || time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
