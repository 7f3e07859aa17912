package poller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller"
)

// tides is a checker of your own. It checks accounts of the kind "tides" and finds a new
// message each time.
type tides struct{ done func() }

func (tides) Kind() string                   { return "tides" }
func (tides) RateKey(json.RawMessage) string { return "" }

// The config has no fields, so every field in it is a fault.
func (tides) Validate(config json.RawMessage) error { return strict.ReadConfig(config).Err() }

func (t tides) Check(_ context.Context, r poller.Request) (poller.Result, error) {
	last, _ := strconv.Atoi(string(r.Cursor)) // none at first
	if last == 3 {
		t.done() // ends the example; a real account is checked again and again
		return poller.Result{}, nil
	}
	next := strconv.Itoa(last + 1)
	return poller.Result{Messages: []poller.Message{{ID: "tide-" + next, Data: json.RawMessage(next)}}, Cursor: []byte(next)}, nil
}

// A program with a checker of its own. It needs no other process, because Redis is embedded in
// it. The pool checks the account again and again, each time from the cursor that the previous
// check returned. It writes the messages that it finds to the stream of the account's shard.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := connect.NewEmbedded() // connect.Open("redis://…") in production
	defer server.Close()
	ring, err1 := circulate.Open(ctx, server, circulate.Options{Shards: 1})
	checkers, err2 := poller.NewCheckers(tides{done: cancel})
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	account := accounts.Account{ID: "harbour", Kind: "tides", Cadence: "every 0s"}
	_, err1 = accounts.NewRegistry(ring, checkers).Create(ctx, account)
	pool, err2 := poller.New(ring, checkers, poller.Config{}, poller.Options{})
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	if err := pool.Run(ctx); err != nil { // until ctx is done
		fmt.Println(err)
	}
	found, err := ring.Streams().Messages(context.Background(), ring.ShardOf("harbour"), circulate.StreamStart, 10)
	for _, m := range found {
		fmt.Println(m.Account, m.Message.ID, string(m.Message.Data))
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// harbour tide-1 1
	// harbour tide-2 2
	// harbour tide-3 3
}
