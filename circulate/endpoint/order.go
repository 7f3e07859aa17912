package endpoint

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	ordersKept  = 1000 // about
	ordersLive  = time.Hour
	ordersRead  = 256 // at once
	fieldName   = "endpoint"
	fieldAction = "action"
	fieldID     = "account"
)

// Action is what an order asks for.
type Action string

// The actions. Unknown ones, of a later version, are ignored.
const (
	// Retry has waiting messages tried now, and resets what keeps messages away from the
	// endpoint: its breaker and pauses.
	Retry Action = "retry"
	// Refresh has processes ask again whether the endpoint is disabled, and try what
	// waits, as far as breaker and pauses allow.
	Refresh Action = "refresh"
)

// Order is what an operator wants of all processes that deliver to an endpoint.
type Order struct {
	Endpoint string
	Action   Action
	Account  string // of this account's messages; empty: all
}

func (b Board) ordersKey() string { return "{" + b.wire.Namespace() + ":webhooks}:orders" }

// Tell gives an order to the processes that run now. A process that starts later has
// nothing that it concerns. It is safe to repeat.
func (b Board) Tell(ctx context.Context, o Order) error {
	if o.Endpoint == "" {
		return fmt.Errorf("%w: order: endpoint: missing", wire.ErrInput)
	}
	key := b.ordersKey()
	if _, err := b.wire.Pipeline(ctx, key,
		wire.Command{"XADD", key, "MAXLEN", "~", ordersKept, "*", fieldName, o.Endpoint, fieldAction, string(o.Action), fieldID, o.Account},
		wire.Command{"PEXPIRE", key, ordersLive.Milliseconds()}); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	return nil
}

// Orders returns the orders after a position, the position to continue from, and the time
// by Redis' clock. With an empty position it returns no orders, and the position after
// the last one.
func (b Board) Orders(ctx context.Context, after string) (orders []Order, next string, now time.Time, err error) {
	key := b.ordersKey()
	from := after
	if from == "" {
		from = circulate.StreamStart
	}
	replies, err := b.wire.Pipeline(ctx, key, wire.Command{"TIME"},
		wire.Command{"XRANGE", key, "(" + from, "+", "COUNT", ordersRead}, wire.Command{"XREVRANGE", key, "+", "-", "COUNT", 1})
	if err != nil {
		return nil, after, now, fmt.Errorf("orders: %w", err)
	}
	if now, err = wire.Time(replies[0]); err != nil {
		return nil, after, now, err
	}
	given, err := entries(replies[1])
	if err != nil {
		return nil, after, now, err
	}
	last, err := entries(replies[2])
	if err != nil {
		return nil, after, now, err
	}
	end := "0-0"
	if len(last) > 0 {
		end = last[0].id
	}
	switch {
	case after == "", len(last) == 0, circulate.ComparePositions(end, after) < 0:
		// A stream that ends before the position is another one: Redis has lost its end,
		// or all of it.
		return nil, end, now, nil
	case len(given) == 0:
		return nil, after, now, nil
	}
	for _, e := range given {
		orders = append(orders, Order{Endpoint: e.fields[fieldName], Action: Action(e.fields[fieldAction]), Account: e.fields[fieldID]})
	}
	return orders, given[len(given)-1].id, now, nil
}

// entry reads an entry of a stream.
type entry struct {
	id     string
	fields map[string]string
}

func entries(reply any) ([]entry, error) {
	values, err := redis.Values(reply, nil)
	if errors.Is(err, redis.ErrNil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("orders: %w", err)
	}
	all := make([]entry, len(values))
	for i, value := range values {
		pair, err := redis.Values(value, nil)
		if err != nil || len(pair) != 2 {
			return nil, fmt.Errorf("orders: entry %s: %w", strconv.Itoa(i), wire.ErrReply)
		}
		if all[i].id, err = redis.String(pair[0], nil); err != nil {
			return nil, fmt.Errorf("orders: %w", err)
		}
		if all[i].fields, err = redis.StringMap(pair[1], nil); err != nil {
			return nil, fmt.Errorf("orders: %w", err)
		}
	}
	return all, nil
}
