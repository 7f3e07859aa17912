package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
)

// bareConfig is the pattern without tickets, which package circulate improves on: claim
// is RPOPLPUSH, return is MULTI(LREM, LPUSH) with what was found, and the monitor is the
// ring's. It has one account, under the keys' own names.
func bareConfig(look string, crashes, cuts int) Config {
	p := &program{name: "poller", named: true, renamed: true, run: barePoller}
	m := &program{name: "monitor", eager: true, run: bareMonitor}
	return Config{
		Actors: []*program{p, p, m, m}, Crashes: crashes, Cuts: cuts, Law: bareLaw{look}, Rest: true, RestAnyway: true, Remember: true, MaxStates: 1_000_000,
		Begin: func(s *store) error {
			_, err := s.do(operation{{"LPUSH", "message_queue", accountID(0)}})
			return err
		},
	}
}

func barePoller(a *actor) error {
	ctx := context.Background()
	conn, err := a.server.Conn(ctx, "")
	if err != nil {
		return err
	}
	entry, err := redis.String(conn.Do("RPOPLPUSH", "message_queue", "processing_list"))
	if err != nil {
		return unless(errors.Is(err, redis.ErrNil) || errors.Is(err, errCut), err)
	}
	for {
		a.at("holds", entry)
		_, err := a.transact(ctx,
			[]any{"LREM", "processing_list", -1, entry},
			[]any{"LPUSH", "message_queue", entry},
			[]any{"XADD", "messages", "*", "account", entry, "id", a.name})
		if !errors.Is(err, errCut) {
			return err
		}
		a.at("knows nothing", entry)
		if a.pick(2) == 1 {
			return nil
		}
	}
}

func bareMonitor(a *actor) error {
	ctx := context.Background()
	conn, err := a.server.Conn(ctx, "")
	if err != nil {
		return err
	}
	held, err := redis.Strings(conn.Do("LRANGE", "processing_list", -8, -1))
	if err != nil || len(held) == 0 {
		return unless(errors.Is(err, errCut), err)
	}
	entry := held[a.pick(len(held))]
	a.at("suspects", entry)
	results, err := a.transact(ctx,
		[]any{"LREM", "processing_list", -1, entry},
		[]any{"LPUSH", "message_queue", entry})
	if err != nil || results[0] == int64(1) {
		return unless(errors.Is(err, errCut), err)
	}
	a.at("compensates", entry)
	_, err = a.transact(ctx,
		[]any{"LREM", "message_queue", 1, entry},
		[]any{"LREM", "processing_list", 1, entry})
	return unless(errors.Is(err, errCut), err)
}

// bareLaw looks for one way in which the pattern fails: the account is nowhere in Redis,
// or it is missing or doubled while nobody is under way who would repair that. The
// explorer itself sees when something is written twice.
type bareLaw struct{ look string }

func (l bareLaw) holds(s snapshot) (fault, strict string) {
	var in []string
	for _, k := range s {
		for range k.elements {
			in = append(in, k.name)
		}
	}
	slices.Sort(in)
	switch {
	case len(in) == 0 && l.look == "nowhere":
		return "nowhere: the account is in no list, and only a poller that holds it can bring it back", ""
	case len(in) == 0 && l.look == "lost":
		return "", "lost: the account is nowhere, and nobody is under way"
	case len(in) > 1 && l.look == "doubled":
		return "", fmt.Sprintf("doubled: the account is in %v, and nobody is under way", in)
	}
	return "", ""
}

func (bareLaw) mayWrite(snapshot, emitted) string                 { return "" }
func (bareLaw) goesOn(_, _ snapshot, step string) string          { return "" }
func (bareLaw) recovers(*store, snapshot) (fault string, _ error) { return "", nil }
