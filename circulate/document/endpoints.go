package document

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// ReportEvery is the longest time between two reports of a process. A process counts
	// as gone after four times as long.
	ReportEvery = 15 * time.Second
	reportLives = 4 * ReportEvery

	maxAttempts = 2 << 20 // bytes of all attempts of a process

	ordersKept    = 1000 // about
	ordersLive    = time.Hour
	ordersRead    = 256 // at once
	orderEndpoint = "endpoint"
	orderAction   = "action"
	orderAccount  = "account"
	orderProcess  = "process"
	orderID       = "id"
)

// Endpoints connects the processes that deliver to webhook endpoints with the operators
// who look after them. It carries orders, and reports on the state of each endpoint.
// Nothing in it decides where a message is. A report that is lost, late or from a dead
// process misleads a reader for at most a minute. A lost order changes nothing.
type Endpoints struct {
	place          // of the reports: reporters ZSET, reports HASH; see wire.Presence
	attempts place // the same of attempts: attempters ZSET, attempts HASH
	orders   stream
}

// Endpoints returns the reports and orders.
func (d Documents) Endpoints() Endpoints {
	return Endpoints{d.place("webhooks", "reporters", "zset", "reports", "hash"), d.place("webhooks", "attempters", "zset", "attempts", "hash"), stream{d.place("webhooks", "orders", "stream")}}
}

// Report is the state of an endpoint, as one process sees it. Its times are by Redis'
// clock. It is stored as JSON. Fields may be added, and a report of an older version
// lacks some.
type Report struct {
	Endpoint string `json:"endpoint"`

	Status    int       `json:"status,omitempty"`   // of the last answer; 0: there was none
	Outcome   string    `json:"outcome,omitempty"`  // how the last attempt ended; empty: there was none
	Why       string    `json:"why,omitempty"`      // why the last attempt had no answer; empty: it had one, or nobody knows
	At        time.Time `json:"at,omitzero"`        // when the last attempt ended
	Delivered time.Time `json:"delivered,omitzero"` // when a message was last accepted
	Breaker   string    `json:"breaker,omitempty"`  // closed, half-open or open
	Until     time.Time `json:"until,omitzero"`     // nothing is sent until then
	Most      int       `json:"most,omitempty"`     // deliveries after which a message is a dead letter
	Accounts  int       `json:"accounts,omitempty"` // accounts with waiting messages
	Messages  int       `json:"messages,omitempty"` // waiting messages
	Waiting   []Waiting `json:"waiting,omitempty"`  // the first message of each such account, or of some
	Kinds     []string  `json:"kinds,omitempty"`    // the kinds of accounts whose messages it gets; none: all

	Process string   `json:"process,omitempty"` // who reports; empty: a process of an earlier version, which makes no tests
	Tests   []Tested `json:"tests,omitempty"`   // how the last tests ended
	// Revision is that of an endpoint that was added while the service runs; 0: a file declares it.
	Revision int64 `json:"revision,omitempty"`
}

// Tested is how the test of an endpoint ended that somebody has ordered.
type Tested struct {
	ID      string    `json:"id"` // of the order
	At      time.Time `json:"at"`
	Status  int       `json:"status,omitempty"` // of the answer; 0: there was none
	Outcome string    `json:"outcome"`
	Why     string    `json:"why,omitempty"`
}

// Waiting is a message that an endpoint did not accept. Later ones of its account wait
// behind it.
type Waiting struct {
	Account  string    `json:"account"`
	Shard    int       `json:"shard"`
	Position string    `json:"position"`
	Failed   int       `json:"failed"`           // failed deliveries of it
	Behind   int       `json:"behind,omitempty"` // messages that wait behind it
	Next     time.Time `json:"next"`             // when the next delivery is due
	Why      string    `json:"why,omitempty"`    // the error of the last try
}

func (e Endpoints) presence() wire.Presence { return wire.Presence{Beats: e.key(0), Reports: e.key(1)} }

// Report replaces a process' reports of its endpoints.
func (e Endpoints) Report(ctx context.Context, process string, reports []Report) error {
	text, err := json.Marshal(reports)
	if err != nil {
		return fmt.Errorf("report endpoints: %w", err)
	}
	if _, err := wire.Mending(ctx, e.wire, e.keys, func() ([]string, error) {
		return e.wire.Beat(ctx, e.presence(), process, text, reportLives)
	}); err != nil {
		return fmt.Errorf("report endpoints: %w", err)
	}
	return nil
}

// Withdraw removes a process' reports when it ends.
func (e Endpoints) Withdraw(ctx context.Context, process string) error {
	if err := e.wire.Retire(ctx, e.presence(), process); err != nil {
		return fmt.Errorf("withdraw reports: %w", err)
	}
	return nil
}

// Reports returns the reports of the live processes, by endpoint, and the time by Redis'
// clock. It leaves out unreadable reports, such as a later version's.
func (e Endpoints) Reports(ctx context.Context) (map[string][]Report, time.Time, error) {
	now, replies, err := e.timed(ctx, "endpoints' reports",
		wire.Command{"ZRANGE", e.key(0), 0, -1, "WITHSCORES"}, wire.Command{"HGETALL", e.key(1)})
	if err != nil {
		return nil, time.Time{}, err
	}
	beats, badBeats := redis.Int64Map(replies[0], nil)
	texts, badTexts := redis.StringMap(replies[1], nil)
	if err := errors.Join(badBeats, badTexts); err != nil {
		return nil, time.Time{}, fmt.Errorf("endpoints' reports: %w", err)
	}
	all := make(map[string][]Report)
	for process, beat := range beats {
		var reports []Report
		if now.Sub(time.UnixMilli(beat)) > reportLives || json.Unmarshal([]byte(texts[process]), &reports) != nil {
			continue
		}
		for _, r := range reports {
			all[r.Endpoint] = append(all[r.Endpoint], r)
		}
	}
	return all, now, nil
}

// Attempt is one call of an endpoint, as a process made it. It is stored as JSON. Fields may be added,
// and an attempt of an older version lacks some.
type Attempt struct {
	At      time.Time     `json:"at"`                // when it ended, by Redis' clock
	Took    time.Duration `json:"took"`              // until the answer's header came, or it failed
	Account string        `json:"account,omitempty"` // of the message
	Address string        `json:"address,omitempty"` // the address and port that were connected, of a proxy if there is one; empty: none was
	Status  int           `json:"status,omitempty"`  // of the answer; 0: there was none
	Outcome string        `json:"outcome"`
	Why     string        `json:"why,omitempty"`    // what went wrong; empty: nothing
	Answer  string        `json:"answer,omitempty"` // the beginning of the answer's body: a stranger's text
}

// Tried replaces the latest attempts that a process made, by endpoint. They are forgotten about ten
// minutes after its last call of Tried, and are no longer than maxAttempts.
func (e Endpoints) Tried(ctx context.Context, process string, attempts map[string][]Attempt) error {
	text, err := json.Marshal(attempts)
	if err == nil && len(text) > maxAttempts {
		err = fmt.Errorf("attempts: must be at most %d bytes, are %d", maxAttempts, len(text))
	}
	if err != nil {
		return fmt.Errorf("report attempts: %w", err)
	}
	presence := wire.Presence{Beats: e.attempts.key(0), Reports: e.attempts.key(1)}
	if _, err := wire.Mending(ctx, e.wire, e.attempts.keys, func() ([]string, error) {
		return e.wire.Beat(ctx, presence, process, text, reportLives)
	}); err != nil {
		return fmt.Errorf("report attempts: %w", err)
	}
	return nil
}

// Attempts returns the latest attempts at an endpoint, of processes that still run or ran minutes ago,
// in no order. It leaves out unreadable ones, such as a later version's.
func (e Endpoints) Attempts(ctx context.Context, endpoint string) ([]Attempt, error) {
	replies, err := e.attempts.do(ctx, "endpoint's attempts", wire.Command{"HGETALL", e.attempts.key(1)})
	if err != nil {
		return nil, err
	}
	texts, err := redis.StringMap(replies[0], nil)
	if err != nil {
		return nil, fmt.Errorf("endpoint's attempts: %w", err)
	}
	var all []Attempt
	for _, text := range texts {
		var attempts map[string][]Attempt
		if json.Unmarshal([]byte(text), &attempts) == nil {
			all = append(all, attempts[endpoint]...)
		}
	}
	return all, nil
}

// Action is what an order asks for.
type Action string

// The actions. Unknown ones, of a later version, are ignored.
const (
	// Retry makes processes try waiting messages now, and resets the breaker and the
	// pauses of the endpoint.
	Retry Action = "retry"
	// Refresh makes processes ask again whether the endpoint is disabled, and try the
	// waiting messages, as far as breaker and pauses allow.
	Refresh Action = "refresh"
	// Test makes one process send a test event to the endpoint, and report how that ended.
	Test Action = "test"
)

// Order is an operator's order to all processes that deliver to an endpoint.
type Order struct {
	Endpoint string
	Action   Action
	Account  string // only messages of this account; empty: all
	Process  string // only this process obeys; empty: all do
	ID       string // of a test
}

// Tell gives an order to the processes that run now. A process that starts later has
// nothing to do with it. Tell is safe to repeat.
func (e Endpoints) Tell(ctx context.Context, o Order) error {
	if o.Endpoint == "" {
		return refused("order", errors.New("endpoint: missing"))
	}
	_, err := e.orders.append(ctx, "order", ordersKept, ordersLive, orderEndpoint, o.Endpoint, orderAction, string(o.Action), orderAccount, o.Account,
		orderProcess, o.Process, orderID, o.ID)
	return err
}

// Orders returns the orders after a position, the position to continue from, and the time
// by Redis' clock. With an empty position it returns no orders, and the position after
// the last one.
func (e Endpoints) Orders(ctx context.Context, after string) (orders []Order, next string, now time.Time, err error) {
	key := e.orders.key(0)
	from := after
	if from == "" {
		from = circulate.StreamStart
	}
	now, replies, err := e.orders.timed(ctx, "orders",
		wire.Command{"XRANGE", key, "(" + from, "+", "COUNT", ordersRead}, wire.Command{"XREVRANGE", key, "+", "-", "COUNT", 1})
	if err != nil {
		return nil, after, now, err
	}
	given, badGiven := wire.Entries(replies[0])
	last, badLast := wire.Entries(replies[1])
	if err := errors.Join(badGiven, badLast); err != nil {
		return nil, after, now, fmt.Errorf("orders: %w", err)
	}
	end := "0-0"
	if len(last) > 0 {
		end = last[0].Position
	}
	switch {
	case after == "", len(last) == 0, circulate.ComparePositions(end, after) < 0:
		// A stream that ends before the position is a new one: Redis has lost the old
		// stream, or its end.
		return nil, end, now, nil
	case len(given) == 0:
		return nil, after, now, nil
	}
	for _, g := range given {
		orders = append(orders, Order{
			Endpoint: g.Field(orderEndpoint), Action: Action(g.Field(orderAction)), Account: g.Field(orderAccount), Process: g.Field(orderProcess), ID: g.Field(orderID),
		})
	}
	return orders, given[len(given)-1].Position, now, nil
}
