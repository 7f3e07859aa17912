package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/namespace"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNamespace(t *testing.T) {
	redistest.Each(t, lookAndRemove)
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		lookAndRemove(t, redistest.StartSentinels(t).Connect(t))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		lookAndRemove(t, redistest.StartCluster(t, 0).Connect(t))
	})
}

// lookAndRemove fills two namespaces whose names begin alike, and other programs' keys
// beside them, and removes one.
func lookAndRemove(t *testing.T, server redistest.Redis) {
	ctx := context.Background()
	const shards, each = 16, 40
	for _, name := range []string{"some", "some-more"} {
		ring, err := circulate.Open(ctx, server, circulate.Options{Namespace: name, Shards: shards})
		if err != nil {
			t.Fatal(err)
		}
		for i := range shards * each {
			id := fmt.Sprint(i)
			if _, err := ring.Account(id).Register(ctx, circulate.Registration{Record: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
		for shard := range 2 {
			batch, err := ring.Claim(ctx, shard, "replica001", 3, 0)
			if err != nil {
				t.Fatal(err)
			}
			item := circulate.Return{Claim: &batch.Claims[0], Kind: "k", Messages: []circulate.Message{{ID: "1"}, {ID: "2"}}}
			if _, err := ring.Return(ctx, shard, []circulate.Return{item}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ring.Heartbeat(ctx, "replica001", []byte("{}"), time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Roster().Attend(ctx, circulate.Process{Name: "p1", Roles: "api,monitor"}, []byte("about")); err != nil {
			t.Fatal(err)
		}
		// A process with the role of a poller is known as a replica, too.
		if _, err := ring.Roster().Attend(ctx, circulate.Process{Name: "replica002", Roles: "poller"}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Heartbeat(ctx, "replica002", []byte("{}"), time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Endpoints().Disable(ctx, "crm", "410"); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{name + ":limits:{feed}", name + ":credentials:{00}:x", "{" + name + ":3}:set_aside", name + ":meta:set_aside:1"} {
			set(t, server, key)
		}
	}
	for _, key := range []string{"some", "other:some:x", "{other:1}:some:", "somewhere:x", "{somewhere:1}:x"} {
		set(t, server, key)
	}

	found, err := namespace.Look(ctx, server, "some", time.Minute)
	if err != nil || found.Accounts != shards*each || found.Messages != 4 || found.Keys < 3*shards {
		t.Fatalf("%+v, %v", found, err)
	}
	var alive []string
	for _, p := range found.Alive {
		if p.Silent < 0 || p.Silent > time.Minute {
			t.Errorf("%+v", p)
		}
		alive = append(alive, strings.Join([]string{p.Name, p.Roles, string(p.About)}, " "))
	}
	if slices.Sort(alive); strings.Join(alive, "; ") != "p1 api,monitor about; replica001  ; replica002 poller " {
		t.Errorf("alive: %q", alive)
	}
	if none, err := namespace.Look(ctx, server, "som", time.Minute); err != nil || none.Keys+len(none.Alive) > 0 {
		t.Errorf("som: %+v, %v", none, err)
	}

	last := 0
	removed, err := namespace.Remove(ctx, server, "some", func(n int) { last = n })
	if err != nil || removed != found.Keys || last != removed {
		t.Errorf("%d removed, told %d, of %d, %v", removed, last, found.Keys, err)
	}
	if left, err := namespace.Look(ctx, server, "some", time.Minute); err != nil || left.Keys > 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
	if removed, err := namespace.Remove(ctx, server, "some", func(int) {}); err != nil || removed != 0 {
		t.Errorf("again: %d, %v", removed, err)
	}
	// The other namespace and other programs' keys are as they were.
	if other, err := namespace.Look(ctx, server, "some-more", time.Minute); err != nil || other.Keys != found.Keys || other.Accounts != found.Accounts || other.Messages != 4 {
		t.Errorf("other: %+v, %v", other, err)
	}
	total := 0
	err = connect.EachServer(ctx, server, func(ctx context.Context, _ string, conn redis.Conn) error {
		n, err := redis.Int(redis.DoContext(conn, ctx, "DBSIZE"))
		total += n
		return err
	})
	if err != nil || total != found.Keys+5 {
		t.Errorf("%d keys are left, want %d, %v", total, found.Keys+5, err)
	}
	for _, bad := range []string{"", "*", "a:b", "{a}"} {
		if _, err := namespace.Remove(ctx, server, bad, func(int) {}); err == nil {
			t.Errorf("%q was taken for a name", bad)
		}
	}
}

func set(t *testing.T, server circulate.Server, key string) {
	t.Helper()
	conn, err := server.Conn(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do("SET", key, "x"); err != nil {
		t.Fatal(err)
	}
}

// A process that makes keys again and again is reported, and does not keep this going for
// ever.
func TestRemoveOfWhatComesAgain(t *testing.T) {
	server := redistest.Embedded(t)
	set(t, server, "some:meta")
	_, err := namespace.Remove(t.Context(), server, "some", func(int) { set(t, server, "some:meta") })
	if !errors.Is(err, namespace.ErrNotGone) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := namespace.Remove(ctx, server, "some", func(int) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
