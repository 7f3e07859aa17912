// Package endpoint connects processes that deliver to webhook endpoints with those that
// look after them: it carries reports of how each endpoint stands, and orders.
//
// Nothing in it decides where a message is. A report that is lost, late or from a dead
// process misleads a reader for at most a minute. An order that is lost changes nothing.
package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// ReportEvery is how often a process reports at least. A process counts as gone after
	// four times as long.
	ReportEvery = 15 * time.Second
	reportLives = 4 * ReportEvery
)

// Report is how an endpoint stands, as seen by one process. Its times are by Redis'
// clock. It is stored as JSON. Fields may be added, and a report of an older version
// lacks some.
type Report struct {
	Endpoint string `json:"endpoint"`

	Status    int       `json:"status,omitempty"`   // of the last answer; 0: there was none
	Outcome   string    `json:"outcome,omitempty"`  // how the last attempt ended; empty: there was none
	At        time.Time `json:"at,omitzero"`        // when that was
	Delivered time.Time `json:"delivered,omitzero"` // when a message was last accepted
	Breaker   string    `json:"breaker,omitempty"`  // closed, half-open or open
	Until     time.Time `json:"until,omitzero"`     // nothing is sent before
	Most      int       `json:"most,omitempty"`     // deliveries after which a message is a dead letter
	Accounts  int       `json:"accounts,omitempty"` // that have messages waiting
	Messages  int       `json:"messages,omitempty"` // that wait
	Waiting   []Waiting `json:"waiting,omitempty"`  // the first message of each such account, or of some of them
}

// Waiting is a message that an endpoint did not accept. Later ones of its account wait
// behind it.
type Waiting struct {
	Account  string    `json:"account"`
	Shard    int       `json:"shard"`
	Position string    `json:"position"`
	Failed   int       `json:"failed"`           // failed deliveries of it
	Behind   int       `json:"behind,omitempty"` // messages that wait behind it
	Next     time.Time `json:"next"`             // when it is tried again
	Why      string    `json:"why,omitempty"`    // the error of the last try
}

// Board is where the processes of a ring's namespace find each other's reports and
// orders.
type Board struct{ wire *wire.Wire }

// Of returns the ring's board.
func Of(ring *circulate.Ring) Board { return Board{ring.Wire()} }

func (b Board) presence() wire.Presence {
	tag := "{" + b.wire.Namespace() + ":webhooks}:"
	return wire.Presence{Beats: tag + "reporters", Reports: tag + "reports"}
}

// Report replaces a process' reports of its endpoints.
func (b Board) Report(ctx context.Context, process string, reports []Report) error {
	text, err := json.Marshal(reports)
	if err != nil {
		return fmt.Errorf("report endpoints: %w", err)
	}
	if _, err := b.wire.Beat(ctx, b.presence(), process, text, reportLives); err != nil {
		return fmt.Errorf("report endpoints: %w", err)
	}
	return nil
}

// Leave removes a process' reports when it ends.
func (b Board) Leave(ctx context.Context, process string) error {
	if err := b.wire.Retire(ctx, b.presence(), process); err != nil {
		return fmt.Errorf("withdraw reports: %w", err)
	}
	return nil
}

// Reports returns the reports of the live processes, by endpoint, and the time by Redis'
// clock. A report that cannot be read, as from a later version, is left out.
func (b Board) Reports(ctx context.Context) (map[string][]Report, time.Time, error) {
	p := b.presence()
	replies, err := b.wire.Pipeline(ctx, p.Beats,
		wire.Command{"TIME"}, wire.Command{"ZRANGE", p.Beats, 0, -1, "WITHSCORES"}, wire.Command{"HGETALL", p.Reports})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("endpoints' reports: %w", err)
	}
	now, err := wire.Time(replies[0])
	if err != nil {
		return nil, time.Time{}, err
	}
	beats, err := redis.Int64Map(replies[1], nil)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("endpoints' reports: %w", err)
	}
	texts, err := redis.StringMap(replies[2], nil)
	if err != nil {
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
