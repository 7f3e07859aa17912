// Package failing finds the accounts of a ring whose last check failed, at a cost that grows
// with their number and not with that of all accounts.
package failing

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed failing.lua
var failingLua string

var failingScript = wire.NewScript("failing", failingLua)

// stampWidth is the length of a time in the errors HASH, in ms.
const stampWidth = 13

// Store reaches the failing accounts of a ring. It is safe for concurrent use.
type Store struct {
	ring *circulate.Ring
	wire *wire.Wire
}

// Of returns the store of a ring.
func Of(ring *circulate.Ring) Store { return Store{ring, ring.Wire()} }

// Account is what is known of an account without its place.
type Account struct {
	ID       string
	Record   []byte
	Error    string // what went wrong with its last check; empty: nothing
	ErrorAt  time.Time
	Failures int       // in a row
	Due      time.Time // when it is scheduled; zero: it is not
	Rule     circulate.Rule
	History  circulate.History
}

// Page is what a step of a scan found.
type Page struct {
	Now      time.Time // Redis' clock
	Accounts []Account
	Looked   int    // accounts that the step looked at
	Read     int    // bytes of the records
	Next     string // the cursor to go on with; circulate.ScanDone at the end
}

// Scan looks at about n of a shard's accounts that have an error, and returns those that
// circulate and whose last check failed: its mark is neither circulate.MarkOK nor one of
// sound. It begins with an empty cursor and ends when the next one is circulate.ScanDone. An
// account that fails throughout is returned, in rare cases twice. It costs Redis eleven
// commands, those inside the script included.
func (s Store) Scan(ctx context.Context, shard int, cursor string, n int, sound []circulate.Mark) (Page, error) {
	if err := wire.CheckBatch("failing", n); err != nil {
		return Page{}, err
	}
	if cursor == "" {
		cursor = circulate.ScanDone
	}
	return s.run(ctx, shard, cursor, n, sound)
}

// Look returns what is known of accounts of one shard. Ids that are not registered in it are
// left out.
func (s Store) Look(ctx context.Context, shard int, ids []string) (Page, error) {
	if err := wire.CheckBatch("failing", len(ids)); err != nil {
		return Page{}, err
	}
	return s.run(ctx, shard, "", len(ids), nil, ids...)
}

func (s Store) run(ctx context.Context, shard int, cursor string, n int, sound []circulate.Mark, ids ...string) (Page, error) {
	marks := []byte{byte(circulate.MarkOK)}
	for _, mark := range sound {
		marks = append(marks, byte(mark))
	}
	args := []any{cursor, n, marks}
	for _, id := range ids {
		args = append(args, id)
	}
	k := circulate.PlightKeys(s.ring, shard)
	answer, err := redis.Values(s.wire.Run(ctx, failingScript, shard,
		[]string{k.Errors, k.Tickets, k.Accounts, k.Failures, k.Schedule, k.Parked}, args...))
	if err != nil {
		return Page{}, err
	}
	page, err := readPage(answer)
	if err != nil {
		return Page{}, fmt.Errorf("failing, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
	}
	return page, nil
}

func readPage(answer []any) (Page, error) {
	const width = 6
	var p Page
	var now int64
	rest, err := redis.Scan(answer, &now, &p.Next, &p.Looked)
	if err != nil {
		return Page{}, err
	}
	texts, err := redis.ByteSlices(rest, nil)
	if err != nil || len(texts)%width != 0 {
		return Page{}, errors.Join(wire.ErrReply, err)
	}
	p.Now, p.Accounts = time.UnixMilli(now), make([]Account, 0, len(texts)/width)
	for ; len(texts) > 0; texts = texts[width:] {
		a := Account{ID: string(texts[0]), Record: texts[2]}
		if failed := texts[1]; len(failed) > stampWidth {
			if ms, err := strconv.ParseInt(string(failed[:stampWidth]), 10, 64); err == nil {
				a.Error, a.ErrorAt = string(failed[stampWidth+1:]), time.UnixMilli(ms)
			}
		}
		a.Failures, _ = strconv.Atoi(string(texts[3]))
		if ms, err := strconv.ParseFloat(string(texts[4]), 64); err == nil {
			a.Due = time.UnixMilli(int64(ms))
		}
		a.Rule, a.History = circulate.ReadHistory(string(texts[5]))
		p.Read += len(a.Record)
		p.Accounts = append(p.Accounts, a)
	}
	return p, nil
}

// IDs looks at about n of a shard's accounts that have an error, and returns the ids of those
// whose error fn accepts, and the next cursor. Cursors and repeated ids are as for Scan.
// Parked accounts are among them, and such whose last check did not fail though it has not
// caught up.
func (s Store) IDs(ctx context.Context, shard int, cursor string, n int, fn func(text string) bool) (ids []string, next string, err error) {
	if cursor == "" {
		cursor = circulate.ScanDone
	}
	key := circulate.PlightKeys(s.ring, shard).Errors
	replies, err := s.wire.PipelineOn(ctx, wire.Ordinary, shard, key, wire.Command{"HSCAN", key, cursor, "COUNT", n})
	if err != nil {
		return nil, "", fmt.Errorf("failing, shard %d: %w", shard, err)
	}
	var fields []string
	reply, err := redis.Values(replies[0], nil)
	if err == nil {
		_, err = redis.Scan(reply, &next, &fields)
	}
	if err != nil || len(fields)%2 != 0 {
		return nil, "", fmt.Errorf("failing, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
	}
	for i := 0; i < len(fields); i += 2 {
		if text := fields[i+1]; len(text) > stampWidth && fn(text[stampWidth+1:]) {
			ids = append(ids, fields[i])
		}
	}
	return ids, next, nil
}

// Sizes returns how many of a shard's accounts have an error, and how many are parked. Some
// are both.
func (s Store) Sizes(ctx context.Context, shard int) (erred, parked int, err error) {
	k := circulate.PlightKeys(s.ring, shard)
	replies, err := s.wire.PipelineOn(ctx, wire.Ordinary, shard, k.Errors, wire.Command{"HLEN", k.Errors}, wire.Command{"ZCARD", k.Parked})
	if err != nil {
		return 0, 0, fmt.Errorf("failing, shard %d: %w", shard, err)
	}
	if _, err := redis.Scan(replies, &erred, &parked); err != nil {
		return 0, 0, fmt.Errorf("failing, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
	}
	return erred, parked, nil
}

// LongestParked returns the account of a shard that this many have been parked for longer
// than, to begin a walk with circulate.Ring.ParkedPage behind it; the zero account if there
// is none.
func (s Store) LongestParked(ctx context.Context, shard, longer int) (circulate.ParkedAccount, error) {
	key := circulate.PlightKeys(s.ring, shard).Parked
	replies, err := s.wire.PipelineOn(ctx, wire.Ordinary, shard, key, wire.Command{"ZRANGE", key, longer, longer, "WITHSCORES"})
	if err != nil {
		return circulate.ParkedAccount{}, fmt.Errorf("parked, shard %d: %w", shard, err)
	}
	pair, err := redis.Strings(replies[0], nil)
	if err == nil && len(pair) == 0 {
		return circulate.ParkedAccount{}, nil
	}
	if err != nil || len(pair) != 2 {
		return circulate.ParkedAccount{}, fmt.Errorf("parked, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
	}
	ms, err := strconv.ParseFloat(pair[1], 64)
	return circulate.ParkedAccount{ID: pair[0], Since: time.UnixMilli(int64(ms))}, err
}
