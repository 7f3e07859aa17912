package circulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var claimScript = wire.NewVitalScript("claim", lua("bykind"), lua("late"), lua("claim"))

// Claim is an account claimed by a replica. It ends when the replica returns or releases
// the account, or when the monitor takes it away.
type Claim struct {
	ID       string
	Shard    int
	Due      time.Time // since when it waited to be claimed
	Cursor   []byte    // as the last check left it; nil at first
	Failures int       // in a row, before this check
	Hint     []byte    // a nudge's hint; nil: none
	State    string    // the cadence's state; opaque to the ring
	Strikes  int       // times taken from a replica since the last returned check
	Rule     Rule      // what decided when it was due

	// Succeeded is when a check last succeeded completely, cut to seconds, or when the
	// account was registered if no check ever did.
	Succeeded time.Time

	// Judged is what memory had to say about the last page that [Ring.Progress] wrote.
	Judged Judged

	entry string
	found int // messages of the pages before the last one
	again int // repetitions in these pages
}

// Ticket returns the fencing token of the claim. No two claims of an account ever have
// the same ticket. The claims of one batch share one.
func (c *Claim) Ticket() string { return c.entry[:ticketWidth] }

// Tickets returns the current tickets of a shard's accounts in the order of the ids, with
// "" for an account that is not registered there. A claim with another ticket is lost.
func (r *Ring) Tickets(ctx context.Context, shard int, ids []string) ([]string, error) {
	if err := wire.CheckBatch("tickets", len(ids)); err != nil {
		return nil, err
	}
	key := r.keys[shard].tickets
	replies, err := r.wire.PipelineOn(ctx, wire.Vital, shard, key, append(wire.Command{"HMGET", key}, anyOf(ids)...))
	if err != nil {
		return nil, fmt.Errorf("tickets, shard %d: %w", shard, err)
	}
	values, err := redis.Strings(replies[0], nil)
	if err != nil || len(values) != len(ids) {
		return nil, fmt.Errorf("tickets, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
	}
	for i, value := range values {
		values[i] = value[:min(len(value), ticketWidth)]
	}
	return values, nil
}

// ClearStrikes clears the strikes of a shard's accounts, as a good return does. It is for
// accounts whose calls are held: a call that has been held for a while has done no harm,
// and its check may not return for long.
func (r *Ring) ClearStrikes(ctx context.Context, shard int, ids []string) error {
	if err := wire.CheckBatch("clear strikes", len(ids)); err != nil {
		return err
	}
	key := r.keys[shard].strikes
	if _, err := r.wire.PipelineOn(ctx, wire.Vital, shard, key, append(wire.Command{"HDEL", key}, anyOf(ids)...)); err != nil {
		return fmt.Errorf("clear strikes, shard %d: %w", shard, err)
	}
	return nil
}

// Batch is the result of one Claim.
type Batch struct {
	Now     time.Time // Redis' clock
	NextDue time.Time // when the shard's next account is due; zero: nothing is scheduled
	More    bool      // more may wait now; NextDue is not known
	Claims  []Claim

	Void      int // entries dropped because their ticket was not current
	Malformed int // texts set aside because they were no entry
	Passed    int // accounts not taken, which now wait for a replica of their kind

	// Change is the last record change that Changed covers. Pass it to the next Claim as
	// known.
	Change int64
	// Changed are the accounts whose records have changed since known.
	Changed []string
	// ForgetAll says that any record may have changed since known, so forget all.
	ForgetAll bool
}

// Claim promotes a shard's due accounts and takes up to n accounts for the replica, the
// longest waiting first. Where accounts are more than ten seconds late, and more are due
// than it takes, Claim promotes those first that are late by the most of their intervals.
// Known is the Change of the caller's last claim of the shard, or
// 0 at first. A caller that caches records needs to read only the changed ones.
//
// Kinds are the kinds that the replica checks; none means any. Claim passes by accounts
// that were handed over for another kind. See [Kinds].
func (r *Ring) Claim(ctx context.Context, shard int, replica string, n int, known int64, kinds ...string) (Batch, error) {
	return r.ClaimAhead(ctx, shard, replica, n, known, 0, kinds...)
}

// MaxAhead is how long before its due time an account can be claimed at most.
const MaxAhead = time.Second

// ClaimAhead claims as [Ring.Claim] does. If n allows and no account waits, it also takes
// accounts that become due within a time, at most MaxAhead. The caller must not check
// them before they are due. So a replica that is always busy claims more at once, and no
// check is late because of it.
func (r *Ring) ClaimAhead(ctx context.Context, shard int, replica string, n int, known int64, ahead time.Duration, kinds ...string) (Batch, error) {
	if err := wire.CheckBatch("claim", n); err != nil {
		return Batch{}, err
	}
	if err := ValidateReplica(replica); err != nil {
		return Batch{}, err
	}
	if ahead < 0 || ahead > MaxAhead {
		return Batch{}, fmt.Errorf("%w: claim: at most %v ahead, not %v", wire.ErrInput, MaxAhead, ahead)
	}
	args := append([]any{replica, n, known}, append(r.wakeArgs(shard), claimedKinds(kinds))...)
	if ahead > 0 {
		args = append(args, ahead.Milliseconds())
	}
	k := &r.keys[shard]
	reply, err := r.wire.Run(ctx, claimScript, shard, []string{
		k.queue, k.processing, k.schedule, k.tickets, k.ticketSeq, k.cursors, k.failures, k.nudges, k.changes, k.setAside, k.strikes, k.states,
		k.urgent, k.low, k.laneCounter, k.leaving, k.ticketMark, k.byKind, k.kinds,
	}, args...)
	if err != nil {
		return Batch{}, err
	}
	batch, err := readBatch(reply, shard, known)
	if err != nil {
		return Batch{}, fmt.Errorf("claim, shard %d: %w", shard, err)
	}
	if batch.Malformed > 0 {
		r.wire.CountSetAside(batch.Malformed)
		r.log.Error("malformed entries of message_queue were set aside", "shard", shard, "count", batch.Malformed, "key", k.setAside)
	}
	return batch, nil
}

func readBatch(reply any, shard int, known int64) (Batch, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) != 2 && len(fields) != 7 && len(fields) != 15 {
		return Batch{}, wire.ErrReply
	}
	now, nowOK := fields[0].(int64)
	next, nextOK := fields[1].(int64)
	if !nowOK || !nextOK {
		return Batch{}, wire.ErrReply
	}
	batch := Batch{Now: time.UnixMilli(now), More: next == 0, Change: known}
	if next > 0 {
		batch.NextDue = time.UnixMilli(next)
	}
	if len(fields) == 2 {
		return batch, nil
	}
	if err := batch.readChanges(fields[2]); err != nil {
		return Batch{}, err
	}
	var rare []any
	if len(fields) == 15 {
		var err [3]error
		batch.Void, err[0] = redis.Int(fields[7], nil)
		batch.Malformed, err[1] = redis.Int(fields[8], nil)
		batch.Passed, err[2] = redis.Int(fields[9], nil)
		if joined := errors.Join(err[:]...); joined != nil {
			return Batch{}, joined
		}
		rare = fields[10:]
	}
	var failed error
	if batch.Claims, failed = readClaims(fields[3:7], rare, shard); failed != nil {
		return Batch{}, failed
	}
	return batch, nil
}

// readChanges reads the changes since known: 0 for none, a text for the change up to
// which the replica must forget every record, or a list of ids that ends with the change.
func (b *Batch) readChanges(reply any) (err error) {
	if none, ok := reply.(int64); ok && none == 0 {
		return nil
	}
	last := reply
	if all, ok := reply.([]any); ok && len(all) > 0 {
		last = all[len(all)-1]
		if b.Changed, err = redis.Strings(all[:len(all)-1], nil); err != nil {
			return err
		}
	} else {
		b.ForgetAll = true
	}
	b.Change, err = redis.Int64(last, nil)
	return err
}

// readClaims reads the accounts of a claim's reply. Texts are the lengths, the entries,
// when the accounts began to wait, and the rests of their tickets fields. Rare has long
// cursors, failures, hints, states and strikes, each with a value for every account or
// none at all.
//
// The claims share these texts, so the texts live as long as any of the claims.
func readClaims(texts, rare []any, shard int) ([]Claim, error) {
	lengths, since, tickets := wire.BytesAt(texts, 0), wire.BytesAt(texts, 2), wire.BytesAt(texts, 3)
	entries := string(wire.BytesAt(texts, 1))
	var columns [5][]any
	for i := range min(len(rare), len(columns)) {
		columns[i], _ = rare[i].([]any)
	}
	claims := make([]Claim, bytes.Count(lengths, []byte{' '})/2)
	single := len(lengths) == 0 && len(entries) > 0 // one claim takes up the texts, and comes without lengths
	if single {
		claims = make([]Claim, 1)
	}
	for i := range claims {
		entry, ticket := len(entries), len(tickets)
		if !single {
			entry, lengths = cutLength(lengths)
			ticket, lengths = cutLength(lengths)
		}
		if entry < idOffset || entry > len(entries) || len(since) < stampWidth || ticket < ticketWidth || ticket > len(tickets) {
			return nil, wire.ErrReply
		}
		c := &claims[i]
		c.Shard, c.entry = shard, entries[:entry]
		if err := c.read(since[:stampWidth], tickets[:ticket:ticket], &columns, i); err != nil {
			return nil, err
		}
		entries, since, tickets = entries[entry:], since[stampWidth:], tickets[ticket:]
	}
	if len(lengths)+len(entries)+len(since)+len(tickets) > 0 {
		return nil, wire.ErrReply
	}
	return claims, nil
}

// cutLength reads a number and the space after it; -1 means that there is none.
func cutLength(text []byte) (n int, rest []byte) {
	for i, c := range text {
		switch {
		case c == ' ' && i > 0:
			return n, text[i+1:]
		case c < '0' || c > '9' || i == 9:
			return -1, nil
		}
		n = 10*n + int(c-'0')
	}
	return -1, nil
}

// read reads one account from the stamp since when it waited, its tickets field, and the
// values that only few accounts have.
func (c *Claim) read(since, ticket []byte, rare *[5][]any, i int) (err error) {
	c.ID = c.entry[idOffset:]
	var due int64
	for _, digit := range since {
		if digit < '0' || digit > '9' {
			return ErrMalformedEntry
		}
		due = 10*due + int64(digit-'0')
	}
	c.Due = time.UnixMilli(due)
	if len(ticket) > ruleOffset {
		c.Rule = Rule(ticket[ruleOffset])
	}
	if len(ticket) >= ruleOffset+9 {
		if seconds, err := strconv.ParseInt(string(ticket[ruleOffset+1:ruleOffset+9]), 16, 64); err == nil {
			c.Succeeded = time.Unix(seconds, 0)
		}
	}
	if cursor := wire.BytesAt(rare[0], i); len(cursor) > 0 {
		c.Cursor = cursor
	} else if len(ticket) > cursorOffset {
		c.Cursor = ticket[cursorOffset:]
	}
	if failures := wire.BytesAt(rare[1], i); failures != nil {
		if c.Failures, err = redis.Int(failures, nil); err != nil {
			c.Failures = 0 // an unreadable count must not stop the account
		}
	}
	c.Hint = wire.BytesAt(rare[2], i)
	c.State = string(wire.BytesAt(rare[3], i))
	if strikes := wire.BytesAt(rare[4], i); strikes != nil {
		c.Strikes, _ = redis.Int(strikes, nil) // as above
	}
	return nil
}
