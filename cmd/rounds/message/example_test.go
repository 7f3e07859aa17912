package message_test

import (
	"context"
	"fmt"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
)

// A reader pages through all found messages and keeps its position as text.
func Example() {
	ctx := context.Background()
	server := connect.NewEmbedded() // connect.Open("redis://…") in a real program
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{Shards: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := find(ctx, ring, "harbour", "tide-1", "tide-2", "tide-3"); err != nil {
		fmt.Println(err)
		return
	}
	reader := message.New(ring)
	for after := message.FromStart; ; {
		position, err := reader.Position(ctx, after)
		if err != nil {
			fmt.Println(err)
			return
		}
		page, err := reader.Messages(ctx, position, 2)
		if err != nil || len(page) == 0 {
			fmt.Println("no more:", err)
			return
		}
		for i := range page {
			fmt.Println(page[i].Account, page[i].Message.ID)
			if err := position.Pass(&page[i]); err != nil {
				fmt.Println(err)
				return
			}
		}
		after = position.String() // kept until the next call, which may come tomorrow
	}
	// Output:
	// harbour tide-1
	// harbour tide-2
	// harbour tide-3
	// no more: <nil>
}

// find does what a poller does: it claims an account and returns it with messages.
func find(ctx context.Context, ring *circulate.Ring, id string, messages ...string) error {
	shard := ring.ShardOf(id)
	if _, err := ring.Register(ctx, shard, []circulate.Registration{{ID: id, Record: []byte("{}")}}); err != nil {
		return err
	}
	batch, err := ring.Claim(ctx, shard, "replica001", 1, 0)
	if err != nil {
		return err
	}
	item := circulate.Return{Claim: &batch.Claims[0], Kind: "tides"}
	for _, m := range messages {
		item.Messages = append(item.Messages, circulate.Message{ID: m})
	}
	_, err = ring.Return(ctx, shard, []circulate.Return{item})
	return err
}
