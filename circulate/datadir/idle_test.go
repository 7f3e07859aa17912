package datadir

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/group"
)

// A group that has read everything, and only renews its lease every four seconds, causes
// next to no writes, however many messages there are.
func TestIdleGroup(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := connect.NewEmbedded()
		dir, err := Open(ctx, server, Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		go dir.Run(ctx)
		ring, err := circulate.Open(ctx, server, circulate.Options{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Account("a").Register(ctx, circulate.Registration{ID: "a", Record: []byte(`{"id":"a","kind":"plain"}`), Due: time.UnixMilli(1)}); err != nil {
			t.Fatal(err)
		}
		for shard := range ring.Shards() {
			batch, err := ring.Claim(ctx, shard, "replica001", 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range batch.Claims {
				item := circulate.Return{Claim: &batch.Claims[i], Kind: "plain", Due: time.Now().Add(time.Hour * 1000)}
				for n := range 2000 {
					item.Messages = append(item.Messages, circulate.Message{ID: fmt.Sprint(n), Type: "text", Time: time.Now(), Data: fmt.Appendf(nil, `{"text":"%d %s"}`, n, strings.Repeat("word ", 50))})
				}
				if _, err := ring.Return(ctx, shard, []circulate.Return{item}); err != nil {
					t.Fatal(err)
				}
			}
		}
		groups := group.Of(ring)
		member := groups.Member("crm", "consumer01", 30*time.Second)
		leases := make([]*group.Lease, ring.Shards())
		for shard := range leases {
			if _, err := ring.Streams().EnsureGroup(ctx, shard, "crm", circulate.StreamStart); err != nil {
				t.Fatal(err)
			}
			if leases[shard], _, err = member.Lease(ctx, shard); err != nil || leases[shard] == nil {
				t.Fatal(leases[shard], err)
			}
		}
		turn := func() {
			if _, err := member.Join(ctx, group.Condition{}); err != nil {
				t.Fatal(err)
			}
			for _, lease := range leases {
				if _, err := groups.Renew(ctx, lease); err != nil {
					t.Fatal(err)
				}
				if _, err := groups.Read(ctx, lease, 100, 1<<20, false); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(4 * time.Second)
		}
		for range 100 { // it reads what there is, and images are taken of that
			turn()
		}
		before := dir.State()
		for range 300 { // twenty minutes
			turn()
		}
		after := dir.State()
		if n := after.Written - before.Written; n > 200_000 || after.Saves-before.Saves > 5 {
			t.Errorf("%d bytes were written in twenty minutes, and %d images of %d bytes", n, after.Saves-before.Saves, after.Packed)
		}
		t.Logf("%d bytes in twenty minutes, %d images of %d bytes", after.Written-before.Written, after.Saves-before.Saves, after.Packed)
		cancel()
		synctest.Wait()
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
}
