package census_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/census"
	"github.com/rounds-dev/rounds/testing/faketime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBroken(t *testing.T) {
	for _, c := range []struct {
		places              []string
		reason, record      string
		once, lane, anyLane bool // whether the law holds
	}{
		{[]string{"schedule"}, "", "{}", true, true, true},
		{[]string{"parked"}, "paused", "{}", true, true, true},
		{[]string{"parked"}, "", "{}", false, false, false},
		{[]string{"schedule"}, "paused", "{}", false, false, false},
		{[]string{"schedule"}, "", "", false, false, false},
		{nil, "", "{}", false, false, false},
		{[]string{"message_queue", "message_queue"}, "", "{}", false, true, true},
		{[]string{"message_queue:urgent", "message_queue:low"}, "", "{}", false, false, true},
		{[]string{"processing_list", "message_queue"}, "", "{}", false, false, false},
		{[]string{"schedule", "message_queue", "message_queue"}, "", "{}", false, false, false},
		{[]string{"processing_list", "processing_list"}, "", "{}", false, false, false},
	} {
		found := census.New()
		found.Accounts["a"] = &census.Account{ID: "a", Places: c.places, Reason: c.reason, Record: c.record}
		for _, law := range []struct {
			name   string
			lawful func([]string) bool
			holds  bool
		}{{"once", census.Once, c.once}, {"once in a lane", census.OnceInALane, c.lane}, {"once in the queue", census.OnceInTheQueue, c.anyLane}} {
			if broken := found.Broken(law.lawful); (len(broken) == 0) != law.holds {
				t.Errorf("%+v, %s: got %v", c, law.name, broken)
			}
		}
	}
}

// A ring as it should be, and then the same with things added that do not belong there.
func TestRead(t *testing.T) {
	faketime.Run(t, 2, func(w *faketime.World) {
		ids := make([]string, 8)
		for i := range ids {
			ids[i] = fmt.Sprint("a", i)
			w.Register(circulate.Registration{ID: ids[i], Record: []byte("{}"), Due: time.Now().Add(time.Duration(i/4) * time.Hour)})
		}
		shard := w.Ring.ShardOf(ids[0])
		batch, err := w.Ring.Claim(w.Context(), shard, "alice00000", 1, 0)
		if err != nil || len(batch.Claims) != 1 {
			w.Fatalf("claim: %v, %v", batch, err)
		}
		claimed := batch.Claims[0].ID
		read := func() *census.Census {
			w.Helper()
			conn, err := w.Redis.Conn(w.Context(), "")
			if err != nil {
				w.Fatal(err)
			}
			defer conn.Close()
			c := census.New()
			if err := c.Read(conn, w.Ring.Tag(0), w.Ring.Tag(1)); err != nil {
				w.Fatal(err)
			}
			again := census.New()
			if err := again.ReadAtRest(conn, w.Ring.Tag(0), w.Ring.Tag(1)); err != nil || !reflect.DeepEqual(again, c) {
				w.Errorf("at rest: %+v, want %+v, %v", again, c, err)
			}
			return c
		}
		c := read()
		if broken := slices.Concat(c.Broken(census.Once), c.Strays, c.Leftover); len(broken) > 0 || len(c.Accounts) != len(ids) || !c.Now.Equal(time.Now()) {
			w.Errorf("%d accounts at %v: %v", len(c.Accounts), c.Now, broken)
		}
		if a := c.Accounts[claimed]; len(c.Claims) != 1 || c.Claimed != 1 || c.ClaimsOf("alice00000") != 1 || len(a.Claims) != 1 || a.Tag != w.Ring.Tag(shard) || a.Places[0] != "processing_list" {
			w.Errorf("claimed: %+v, claims %v", a, c.Claims)
		}
		if a := c.Accounts["a7"]; a.Places[0] != "schedule" || a.Due.Sub(c.Now) != time.Hour || a.Record != "{}" {
			w.Errorf("scheduled: %+v", a)
		}
		w.Do("ZADD", w.Key(0, "schedule"), 1, "stranger")
		w.Do("HSET", w.Key(0, "strikes"), "stranger", 1)
		w.Do("RPUSH", w.Key(1, "processing_list"), "no entry", circulate.Entry{Ticket: 99999999999999, Stamp: c.Now, Replica: "alice00000", ID: claimed}.String())
		w.Do("ZADD", w.Key(shard, "schedule"), 1, claimed)
		w.Do("HSET", w.Key(1, "tickets"), "stranger", "short")
		c = read()
		if len(c.Strays) != 2 || len(c.Leftover) != 2 || c.Claimed != 3 || len(c.Claims) != 2 || len(c.Accounts[claimed].Claims) != 1 {
			w.Errorf("strays %q, left over %q, claims %v of %d", c.Strays, c.Leftover, c.Claims, c.Claimed)
		}
		if broken := c.Broken(census.OnceInTheQueue); len(broken) != 1 || !strings.Contains(broken[0], claimed) {
			w.Errorf("broken: %q", broken)
		}
		w.Do("DEL", w.Key(0, "parked"))
		w.Do("SET", w.Key(0, "parked"), "no set")
		conn, err := w.Redis.Conn(w.Context(), "")
		if err != nil {
			w.Fatal(err)
		}
		defer conn.Close()
		for _, read := range []func(*census.Census, redis.Conn, ...string) error{(*census.Census).Read, (*census.Census).ReadAtRest} {
			if err := read(census.New(), conn, w.Ring.Tag(0)); err == nil {
				w.Error("a key of another type: no error")
			}
		}
	})
}
