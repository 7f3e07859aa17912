package circulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var lookScript = wire.NewScript("look", lua("look"))

// Place is where in its life an account is.
type Place string

// The places. Each account is in exactly one.
const (
	Scheduled Place = "scheduled" // due later
	Waiting   Place = "waiting"   // in message_queue
	Claimed   Place = "claimed"   // in processing_list: being checked
	Parked    Place = "parked"    // out of circulation, with a reason
)

// View is what the ring knows about an account.
type View struct {
	ID       string
	Record   []byte
	Place    Place
	Due      time.Time // scheduled: when it is due
	Since    time.Time // claimed or parked: since when
	Replica  string    // claimed: by which replica
	Reason   string    // parked: why
	Failures int       // in a row
	Strikes  int       // requeues by the monitor since the last return
	Now      time.Time // Redis' clock

	Priority Priority
	Rule     Rule // why it is or was due at that time
	History  History
	NudgedTo time.Time // a check asked for while it circulated; zero: none
	Error    string    // why its last check failed; empty: it did not
	ErrorAt  time.Time
	State    string // what the last return stored; see Return.State
}

// Look returns views of accounts of one shard. It leaves out ids that are not registered.
func (r *Ring) Look(ctx context.Context, shard int, ids []string) ([]View, error) {
	if err := wire.CheckBatch("look", len(ids)); err != nil {
		return nil, err
	}
	return everywhere(ctx, r, shard, ids, func(v *View) string { return v.ID }, r.lookIn)
}

// lookIn is Look in exactly this shard.
func (r *Ring) lookIn(ctx context.Context, shard int, ids []string) ([]View, error) {
	k := &r.keys[shard]
	answer, err := redis.Values(r.wire.Run(ctx, lookScript, shard, []string{
		k.tickets, k.accounts, k.schedule, k.parked, k.reasons, k.failures, k.strikes, k.processing, k.nudges, k.errors, k.states,
	}, anyOf(ids)...))
	if err != nil {
		return nil, err
	}
	malformed := fmt.Errorf("look, shard %d: %w", shard, wire.ErrReply)
	now, answer, err := cutNow(answer)
	if err != nil || len(answer) != len(ids) {
		return nil, malformed
	}
	views := make([]View, 0, len(ids))
	for i, id := range ids {
		fields, err := redis.ByteSlices(answer[i], nil)
		if err != nil || len(fields) != 0 && len(fields) != 11 {
			return nil, malformed
		}
		if len(fields) > 0 {
			views = append(views, readView(id, now, fields))
		}
	}
	return views, nil
}

func readView(id string, now time.Time, fields [][]byte) View {
	v := View{ID: id, Now: now, Record: fields[0], Reason: string(fields[3]), State: string(fields[10])}
	v.Failures, _ = strconv.Atoi(string(fields[4]))
	v.Strikes, _ = strconv.Atoi(string(fields[5]))
	if behind := string(fields[7]); len(behind) > 2 {
		v.Priority = Priority(behind[0])
		v.Rule, v.History = ReadHistory(behind)
	}
	if nudge := fields[8]; len(nudge) > stampWidth {
		if ms, err := digits(string(nudge[:stampWidth])); err == nil && ms > 0 {
			v.NudgedTo = time.UnixMilli(ms)
		}
	}
	v.Error, v.ErrorAt = readError(fields[9])
	due, dueErr := score(fields[1])
	since, sinceErr := score(fields[2])
	entry, entryErr := ParseEntry(string(fields[6]))
	switch {
	case sinceErr == nil:
		v.Place, v.Since = Parked, since
	case dueErr == nil:
		v.Place, v.Due = Scheduled, due
	case entryErr == nil:
		v.Place, v.Since, v.Replica = Claimed, entry.Stamp, entry.Replica
	default:
		v.Place = Waiting
	}
	return v
}

// cutNow returns the time that an answer begins with, and the rest.
func cutNow(answer []any) (now time.Time, rest []any, err error) {
	var ms int64
	rest, err = redis.Scan(answer, &ms)
	return time.UnixMilli(ms), rest, err
}

func score(text []byte) (time.Time, error) {
	ms, err := strconv.ParseFloat(string(text), 64)
	return time.UnixMilli(int64(ms)), err
}

// ScanDone is the cursor that ends the scan of a shard.
const ScanDone = "0"

// Scan returns some ids of a shard's accounts and the next cursor. The scan begins with
// an empty cursor and ends with ScanDone. An account that stays registered throughout is
// returned at least once.
func (r *Ring) Scan(ctx context.Context, shard int, cursor string, count int) (ids []string, next string, err error) {
	pairs, next, err := r.scanPairs(ctx, shard, r.keys[shard].tickets, cursor, count)
	for i := 0; i < len(pairs); i += 2 {
		ids = append(ids, pairs[i])
	}
	return ids, next, err
}

// CheckedAccount is an account and when a check of it last succeeded, as in [History].
type CheckedAccount struct {
	ID        string
	Succeeded time.Time
}

// ScanChecked is Scan with when a check of each account last succeeded completely.
func (r *Ring) ScanChecked(ctx context.Context, shard int, cursor string, count int) (all []CheckedAccount, next string, err error) {
	pairs, next, err := r.scanPairs(ctx, shard, r.keys[shard].tickets, cursor, count)
	for i := 0; i+1 < len(pairs); i += 2 {
		one := CheckedAccount{ID: pairs[i]}
		if value := pairs[i+1]; len(value) >= ticketWidth+2+historyWidth {
			_, history := ReadHistory(value[ticketWidth : ticketWidth+2+historyWidth])
			one.Succeeded = history.Succeeded
		}
		all = append(all, one)
	}
	return all, next, err
}

// FailedAccount is an account and how many of its checks failed in a row.
type FailedAccount struct {
	ID       string
	Failures int
}

// ScanFailures scans, as Scan does, the accounts whose checks failed, parked ones among them.
func (r *Ring) ScanFailures(ctx context.Context, shard int, cursor string, count int) (all []FailedAccount, next string, err error) {
	pairs, next, err := r.scanPairs(ctx, shard, r.keys[shard].failures, cursor, count)
	for i := 0; i+1 < len(pairs); i += 2 {
		if n, err := strconv.Atoi(pairs[i+1]); err == nil && n > 0 {
			all = append(all, FailedAccount{pairs[i], n})
		}
	}
	return all, next, err
}

// scanPairs scans a HASH of a shard.
func (r *Ring) scanPairs(ctx context.Context, shard int, key, cursor string, count int) (pairs []string, next string, err error) {
	if cursor == "" {
		cursor = ScanDone
	}
	replies, err := r.wire.Pipeline(ctx, key, wire.Command{"HSCAN", key, cursor, "COUNT", count})
	if err == nil {
		pairs, next, err = readPairs(replies[0])
	}
	if err != nil {
		return nil, "", fmt.Errorf("scan, shard %d: %w", shard, err)
	}
	return pairs, next, nil
}

// Window is some ids of a shard, in the order in which Redis has them.
type Window struct {
	IDs      []string
	Next     string // the cursor of the next window; ScanDone: there is none
	Server   string // the run of the server, because each run has its own order; empty: unknown
	Accounts int    // of the shard
}

// ScanWindow scans as [Ring.Scan] does, in a walk that later calls continue. It returns little more
// than count ids, or all of them if Redis stores a small shard in one piece. A cursor is
// valid only while the server stays the same.
func (r *Ring) ScanWindow(ctx context.Context, shard int, cursor string, count int) (Window, error) {
	var w Window
	key := r.keys[shard].tickets
	replies, err := r.wire.Pipeline(ctx, key, wire.Command{"HLEN", key}, wire.Command{"HSCAN", key, cursor, "COUNT", count})
	if err != nil {
		return w, fmt.Errorf("scan, shard %d: %w", shard, err)
	}
	if w.Accounts, err = redis.Int(replies[0], nil); err != nil {
		return w, fmt.Errorf("scan, shard %d: %w", shard, err)
	}
	if w.IDs, w.Next, err = readScan(replies[1]); err != nil {
		return w, fmt.Errorf("scan, shard %d: %w", shard, err)
	}
	if w.Next == ScanDone && cursor == ScanDone {
		return w, nil // the window is the whole shard
	}
	info, err := r.wire.Pipeline(ctx, key, wire.Command{"INFO", "server"})
	if err != nil && !wire.Replied(err) {
		return w, fmt.Errorf("scan, shard %d: %w", shard, err)
	}
	text, _ := redis.String(info[0], err) // not every server reports its run
	w.Server = infoFields(text)["run_id"]
	return w, nil
}

// readScan reads the reply to HSCAN.
func readScan(reply any) (ids []string, next string, err error) {
	pairs, next, err := readPairs(reply)
	for i := 0; i < len(pairs); i += 2 {
		ids = append(ids, pairs[i])
	}
	return ids, next, err
}

// readPairs reads a reply of HSCAN.
func readPairs(reply any) (pairs []string, next string, err error) {
	parts, err := redis.Values(reply, nil)
	if err != nil || len(parts) != 2 {
		return nil, "", errors.Join(wire.ErrReply, err)
	}
	if next, err = redis.String(parts[0], nil); err != nil {
		return nil, "", err
	}
	if pairs, err = redis.Strings(parts[1], nil); err != nil {
		return nil, "", err
	}
	return pairs, next, nil
}

var lookBriefScript = wire.NewScript("lookbrief", lua("lookbrief"))

// BriefView is what LookBrief returns of an account.
type BriefView struct {
	ID     string
	Record []byte
	Parked bool
	Reason string // parked: why
}

// LookBrief is Look with fewer fields, for a walk through very many accounts. It costs
// Redis less than half as much. It does not return an account's place, except whether it
// is parked. It also returns the time by Redis' clock. Ids that are not registered are
// left out; the others come in no particular order.
func (r *Ring) LookBrief(ctx context.Context, shard int, ids []string) ([]BriefView, time.Time, error) {
	if err := wire.CheckBatch("lookbrief", len(ids)); err != nil {
		return nil, time.Time{}, err
	}
	var now time.Time
	views, err := everywhere(ctx, r, shard, ids, func(v *BriefView) string { return v.ID },
		func(ctx context.Context, shard int, ids []string) ([]BriefView, error) {
			views, then, err := r.lookBriefIn(ctx, shard, ids)
			now = cmp.Or(now, then)
			return views, err
		})
	return views, now, err
}

// lookBriefIn is LookBrief in exactly this shard.
func (r *Ring) lookBriefIn(ctx context.Context, shard int, ids []string) ([]BriefView, time.Time, error) {
	k := &r.keys[shard]
	answer, err := redis.Values(r.wire.Run(ctx, lookBriefScript, shard, []string{k.tickets, k.accounts, k.parked, k.reasons}, anyOf(ids)...))
	if err != nil {
		return nil, time.Time{}, err
	}
	malformed := fmt.Errorf("lookbrief, shard %d: %w", shard, wire.ErrReply)
	now, answer, err := cutNow(answer)
	if err != nil || len(answer) != len(ids) {
		return nil, time.Time{}, malformed
	}
	views := make([]BriefView, 0, len(ids))
	for i, id := range ids {
		fields, err := redis.ByteSlices(answer[i], nil)
		if err != nil || len(fields) > 2 {
			return nil, time.Time{}, malformed
		}
		switch len(fields) {
		case 1:
			views = append(views, BriefView{ID: id, Record: fields[0]})
		case 2:
			views = append(views, BriefView{ID: id, Record: fields[0], Parked: true, Reason: string(fields[1])})
		}
	}
	return views, now, nil
}

var snapshotScript = wire.NewScript("snapshot", lua("snapshot"))

// Snapshot is an account with everything that moves with it to another ring.
type Snapshot struct {
	ID     string
	Record []byte
	Begin
}

// Snapshots returns accounts of one shard, each read at one moment. It leaves out ids
// that are not registered. The others come in no particular order.
func (r *Ring) Snapshots(ctx context.Context, shard int, ids []string) ([]Snapshot, error) {
	if err := wire.CheckBatch("snapshot", len(ids)); err != nil {
		return nil, err
	}
	return everywhere(ctx, r, shard, ids, func(s *Snapshot) string { return s.ID }, r.snapshotsIn)
}

// snapshotsIn is Snapshots in exactly this shard.
func (r *Ring) snapshotsIn(ctx context.Context, shard int, ids []string) ([]Snapshot, error) {
	k := &r.keys[shard]
	answer, err := redis.Values(r.wire.Run(ctx, snapshotScript, shard,
		[]string{k.tickets, k.accounts, k.cursors, k.states, k.failures, k.parked, k.reasons}, anyOf(ids)...))
	if err != nil {
		return nil, err
	}
	malformed := fmt.Errorf("snapshot, shard %d: %w", shard, wire.ErrReply)
	if len(answer) != len(ids) {
		return nil, malformed
	}
	snapshots := make([]Snapshot, 0, len(ids))
	for i, id := range ids {
		fields, err := redis.ByteSlices(answer[i], nil)
		if err != nil || len(fields) != 0 && len(fields) != 6 {
			return nil, malformed
		}
		if len(fields) == 0 {
			continue
		}
		s := Snapshot{ID: id, Record: fields[0], Begin: Begin{State: string(fields[2]), Park: string(fields[5])}}
		if len(fields[1]) > 0 {
			s.Cursor = fields[1]
		}
		s.Failures, _ = strconv.Atoi(string(fields[3]))
		if since, err := score(fields[4]); err == nil {
			s.Since = since
			if s.Park == "" {
				s.Park = "parked" // its reason was lost
			}
		}
		snapshots = append(snapshots, s)
	}
	return snapshots, nil
}

// queueDepth is how many entries of each lane are searched for one account. A deeper
// search would cost the replicas more than it is worth.
const queueDepth = 5000

var turnScript = wire.NewScript("turn", lua("bykind"), lua("turn"))

// QueuePosition is what a due account waits behind, and its cadence's state.
type QueuePosition struct {
	Urgent, Normal, Low int // entries in the lanes of its shard, including void ones

	Lane  Priority  // the lane that the account waits in; zero: it waits in none, or too far back
	Since time.Time // when it became due; zero if Lane is zero
	Ahead int       // entries of its lane that come before it

	Kind string // the kind that it waits by; Ahead then counts entries of this kind

	State string // its cadence's state, whether it waits or not
}

// QueuePosition searches the lanes of message_queue for the account, at one moment.
func (a Account) QueuePosition(ctx context.Context) (QueuePosition, error) {
	var position QueuePosition
	err := a.ring.whereverIs(ctx, a.id, func(ctx context.Context, shard int) (err error) {
		position, err = a.ring.queuePositionIn(ctx, shard, a.id)
		return err
	})
	if errors.Is(err, ErrNotRegistered) {
		err = nil
	}
	return position, err
}

// queuePositionIn is QueuePosition in exactly this shard. It returns ErrNotRegistered if
// the shard does not have the account.
func (r *Ring) queuePositionIn(ctx context.Context, shard int, id string) (QueuePosition, error) {
	k := &r.keys[shard]
	results, err := redis.Values(r.wire.Run(ctx, turnScript, shard,
		[]string{k.tickets, k.states, k.urgent, k.queue, k.low, k.byKind}, id, queueDepth))
	if err != nil {
		return QueuePosition{}, err
	}
	var w QueuePosition
	var registered bool
	var lane, ahead int
	var text string
	if _, err := redis.Scan(results, &registered, &w.State, &w.Urgent, &w.Normal, &w.Low, &lane, &text, &ahead, &w.Kind); err != nil {
		return QueuePosition{}, fmt.Errorf("turn, shard %d: %w: %w", shard, wire.ErrReply, err)
	}
	if lane > 0 {
		entry, err := ParseEntry(text)
		if err != nil || lane > 4 {
			return QueuePosition{}, fmt.Errorf("turn, shard %d: %w", shard, wire.ErrReply)
		}
		w.Lane, w.Since, w.Ahead = [...]Priority{Urgent, Normal, Low, Normal}[lane-1], entry.Stamp, ahead
	}
	if !registered {
		return w, ErrNotRegistered // so it waits nowhere
	}
	return w, nil
}
