package circulate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
)

// A ring is opened on a server. From then on Redis has the namespace and its number of
// shards, and later callers need not state them.
func ExampleOpen() {
	ctx := context.Background()
	server := connect.NewEmbedded() // connect.Open("redis://…", …) in earnest
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{Namespace: "news", Shards: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	same, err := circulate.Open(ctx, server, circulate.Options{Namespace: "news"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ring.Shards(), same.Shards())
	// Output: 8 8
}

// An account is claimed, checked, and returned with what the check found. Messages,
// cursor and next due time are written together, and only while the claim is held: the
// second return of the claim is refused.
func ExampleRing_Return() {
	ctx := context.Background()
	server := connect.NewEmbedded()
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{Shards: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	shard := ring.ShardOf("inbox")
	_, err1 := ring.Register(ctx, shard, []circulate.Registration{{ID: "inbox", Record: []byte(`{}`)}})
	batch, err2 := ring.Claim(ctx, shard, circulate.NewReplica(), 10, 0)
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	for i := range batch.Claims {
		claim := &batch.Claims[i]
		checked := circulate.Return{
			Claim: claim, Due: batch.Now.Add(time.Minute), Kind: "mail", Cursor: []byte("1"),
			Messages: []circulate.Message{{ID: "mail-1", Data: []byte(`"hello"`)}},
		}
		first, err1 := ring.Return(ctx, shard, []circulate.Return{checked})
		second, err2 := ring.Return(ctx, shard, []circulate.Return{checked})
		fmt.Println(claim.ID, first, second, errors.Join(err1, err2))
	}
	// Output: inbox [written] [fenced] <nil>
}
