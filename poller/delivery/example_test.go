package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller/delivery"
)

// A consumer calls a handler with each message of all shards. A message that the handler fails
// at is delivered again, at first a second later. Meanwhile no other message of that account
// is delivered.
func ExampleConsumer() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := connect.NewEmbedded()
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{Shards: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := findHello(ctx, ring); err != nil {
		fmt.Println(err)
		return
	}
	consumer := delivery.Consumer{
		Ring: ring, Group: "printer",
		Handler: delivery.Each(func(_ context.Context, d delivery.Delivery) error {
			fmt.Println(d.Account, d.Message.ID, string(d.Message.Data), d.Attempt)
			if d.Attempt == 1 {
				return errors.New("out of paper")
			}
			cancel() // ends the example; a real consumer runs for ever
			return nil
		}),
		Backoff: func(int) time.Duration { return time.Millisecond },
	}
	if err := consumer.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// inbox mail-1 "hello" 1
	// inbox mail-1 "hello" 2
}

// findHello is what a poller does: it claims an account and returns it with a message.
func findHello(ctx context.Context, ring *circulate.Ring) error {
	shard := ring.ShardOf("inbox")
	if _, err := ring.Register(ctx, shard, []circulate.Registration{{ID: "inbox", Record: []byte(`{}`)}}); err != nil {
		return err
	}
	batch, err := ring.Claim(ctx, shard, circulate.NewReplica(), 1, 0)
	if err != nil {
		return err
	}
	_, err = ring.Return(ctx, shard, []circulate.Return{{Claim: &batch.Claims[0], Messages: []circulate.Message{{ID: "mail-1", Data: []byte(`"hello"`)}}}})
	return err
}
