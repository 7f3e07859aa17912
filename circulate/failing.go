package circulate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var failingScript = wire.NewScript("failing", lua("failing"))

// Failing finds the accounts of a ring whose last check failed, at a cost that grows with their
// number, not with the number of all accounts.
type Failing struct{ ring *Ring }

// Failing returns the failing accounts of the ring.
func (r *Ring) Failing() Failing { return Failing{r} }

// FailingAccount is what the ring knows about an account, except its place.
type FailingAccount struct {
	ID       string
	Record   []byte
	Error    string // why its last check failed; empty: it did not
	ErrorAt  time.Time
	Failures int       // in a row
	Due      time.Time // zero: it is not scheduled
	Rule     Rule
	History  History
}

// FailingPage is the result of one step of a scan.
type FailingPage struct {
	Now      time.Time // Redis' clock
	Accounts []FailingAccount
	Looked   int    // accounts that the step looked at
	Read     int    // bytes of the records
	Next     string // the cursor to go on with; ScanDone at the end
}

// Scan looks at about n of a shard's accounts that have an error. It returns the accounts
// that circulate and whose last check failed: its mark is neither MarkOK nor in sound.
// The scan begins with an empty cursor and ends when the next one is ScanDone. An account
// that fails throughout is returned once, in rare cases twice. A step costs Redis eleven
// commands, including the commands inside the script.
func (f Failing) Scan(ctx context.Context, shard int, cursor string, n int, sound []Mark) (FailingPage, error) {
	if err := wire.CheckBatch("failing", n); err != nil {
		return FailingPage{}, err
	}
	if cursor == "" {
		cursor = ScanDone
	}
	return f.run(ctx, shard, cursor, n, sound)
}

// Look returns what the ring knows about accounts of one shard. It leaves out ids that
// are not registered there.
func (f Failing) Look(ctx context.Context, shard int, ids []string) (FailingPage, error) {
	if err := wire.CheckBatch("failing", len(ids)); err != nil {
		return FailingPage{}, err
	}
	return f.run(ctx, shard, "", len(ids), nil, ids...)
}

func (f Failing) run(ctx context.Context, shard int, cursor string, n int, sound []Mark, ids ...string) (FailingPage, error) {
	marks := []byte{byte(MarkOK)}
	for _, mark := range sound {
		marks = append(marks, byte(mark))
	}
	args := []any{cursor, n, marks}
	for _, id := range ids {
		args = append(args, id)
	}
	k := &f.ring.keys[shard]
	answer, err := redis.Values(f.ring.wire.Run(ctx, failingScript, shard,
		[]string{k.errors, k.tickets, k.accounts, k.failures, k.schedule, k.parked}, args...))
	if err != nil {
		return FailingPage{}, err
	}
	page, err := readFailing(answer)
	if err != nil {
		return FailingPage{}, fmt.Errorf("failing, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
	}
	return page, nil
}

func readFailing(answer []any) (FailingPage, error) {
	const width = 6
	var p FailingPage
	var now int64
	rest, err := redis.Scan(answer, &now, &p.Next, &p.Looked)
	if err != nil {
		return FailingPage{}, err
	}
	texts, err := redis.ByteSlices(rest, nil)
	if err != nil || len(texts)%width != 0 {
		return FailingPage{}, errors.Join(wire.ErrReply, err)
	}
	p.Now, p.Accounts = time.UnixMilli(now), make([]FailingAccount, 0, len(texts)/width)
	for ; len(texts) > 0; texts = texts[width:] {
		a := FailingAccount{ID: string(texts[0]), Record: texts[2]}
		a.Error, a.ErrorAt = readError(texts[1])
		a.Failures, _ = strconv.Atoi(string(texts[3]))
		if ms, err := strconv.ParseFloat(string(texts[4]), 64); err == nil {
			a.Due = time.UnixMilli(int64(ms))
		}
		a.Rule, a.History = ReadHistory(string(texts[5]))
		p.Read += len(a.Record)
		p.Accounts = append(p.Accounts, a)
	}
	return p, nil
}

// IDs looks at about n of a shard's accounts that have an error. It returns the ids of
// the accounts whose error fn accepts, and the next cursor. Cursors and repeated ids are
// as for Scan. Parked accounts are included, and so are accounts whose last check did not
// fail but which have not caught up yet.
func (f Failing) IDs(ctx context.Context, shard int, cursor string, n int, fn func(text string) bool) (ids []string, next string, err error) {
	if cursor == "" {
		cursor = ScanDone
	}
	key := f.ring.keys[shard].errors
	replies, err := f.ring.wire.PipelineOn(ctx, wire.Ordinary, shard, key, wire.Command{"HSCAN", key, cursor, "COUNT", n})
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

// Sizes returns how many of a shard's accounts have an error, and how many are parked. An
// account may be both.
func (f Failing) Sizes(ctx context.Context, shard int) (erred, parked int, err error) {
	k := &f.ring.keys[shard]
	replies, err := f.ring.wire.PipelineOn(ctx, wire.Ordinary, shard, k.errors, wire.Command{"HLEN", k.errors}, wire.Command{"ZCARD", k.parked})
	if err != nil {
		return 0, 0, fmt.Errorf("failing, shard %d: %w", shard, err)
	}
	if _, err := redis.Scan(replies, &erred, &parked); err != nil {
		return 0, 0, fmt.Errorf("failing, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
	}
	return erred, parked, nil
}
