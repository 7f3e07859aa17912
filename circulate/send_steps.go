package circulate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// AttemptOrder says which sends to attempt.
type AttemptOrder struct {
	Replica string        // who sends
	Step    string        // a name that no other Attempt ever has, of 1 to 64 bytes, such as rand.Text()
	Kinds   []string      // the kinds that the replica can send
	Most    int           // how many sends
	Lasts   time.Duration // after that an attempt without outcome is unknown; longer than the call
	// WithFile is Lasts for a send whose data names a file, which takes longer; 0: Lasts. Any data
	// with the word "file" in quotes counts as such.
	WithFile time.Duration
}

// lasts returns how long an attempt may last, as send_attempt.lua judges it too.
func (o *AttemptOrder) lasts(data []byte) time.Duration {
	if bytes.Contains(data, []byte(`"file"`)) {
		return o.WithFile
	}
	return o.Lasts
}

// Attempt is a send that may be sent now, once.
type Attempt struct {
	Send
	Shard  int
	Token  string // of the newest message of its peer's window; opaque to the ring
	Record []byte // the account's

	ends float64 // when it becomes unknown by itself, unix ms: no other attempt of the send ends then
}

// Attempt notes that sends of one shard are on their way, and returns them. The caller
// waits by [Syncer.Attempts] until that is durable, if it wants so, sends each at once, and
// settles it. Of each peer there is at most one, the first in line. It also returns when the
// next one is due; zero: none is.
//
// After an error no send may be sent. Attempt has then withdrawn what it took, if it
// could; otherwise the caller calls Withdraw until that succeeds.
func (s Sends) Attempt(ctx context.Context, shard int, o AttemptOrder) (attempts []Attempt, next time.Time, err error) {
	if err := errors.Join(ValidateReplica(o.Replica), wire.CheckBatch("attempt", o.Most)); err != nil {
		return nil, time.Time{}, err
	}
	if o.Step == "" || len(o.Step) > 64 || o.Lasts < time.Millisecond {
		return nil, time.Time{}, fmt.Errorf("%w: attempt: a step needs a name and a bound", wire.ErrInput)
	}
	o.WithFile = cmp.Or(o.WithFile, o.Lasts)
	args := []any{o.Replica, o.Step, o.Most, o.Lasts.Milliseconds(), o.WithFile.Milliseconds(), ReasonPaused, pausedFor.Milliseconds()}
	for _, kind := range o.Kinds {
		if WaitsByKind(kind) {
			args = append(args, kind)
		}
	}
	k := &s.ring.keys[shard]
	reply, err := redis.Values(s.ring.wire.Run(ctx, attemptSendScript, shard,
		k.outbox.with(k.ticketSeq, k.ticketMark, k.accounts, k.reasons, k.leaving), args...))
	if err == nil {
		attempts, next, err = readAttempts(shard, reply)
	}
	for i := range attempts {
		attempts[i].ends = float64(attempts[i].Since.UnixMilli() + o.lasts(attempts[i].Data).Milliseconds())
	}
	if err != nil {
		// No byte of them has left, and none will.
		if _, withdrawErr := s.Withdraw(ctx, shard, o.Replica, o.Step); withdrawErr != nil {
			err = errors.Join(err, withdrawErr)
		}
		return nil, time.Time{}, err
	}
	return attempts, next, nil
}

func readAttempts(shard int, reply []any) (attempts []Attempt, next time.Time, err error) {
	const each = 5
	malformed := fmt.Errorf("attempt, shard %d: %w", shard, wire.ErrReply)
	if len(reply) < 2 || (len(reply)-2)%each != 0 {
		return nil, time.Time{}, malformed
	}
	due, err := redis.Int64(reply[1], nil)
	if err != nil {
		return nil, time.Time{}, malformed
	}
	if due >= 0 {
		next = time.UnixMilli(due)
	}
	fields, err := redis.Strings(reply[2:], nil)
	if err != nil {
		return nil, time.Time{}, malformed
	}
	for i := 0; i < len(fields); i += each {
		a := Attempt{Shard: shard, Token: fields[i+3], Record: []byte(fields[i+4])}
		if a.Send, err = readSend(fields[i], fields[i+1]); err != nil {
			return nil, time.Time{}, err
		}
		a.Fence = fields[i+2]
		attempts = append(attempts, a)
	}
	return attempts, next, nil
}

// Due returns the shards in which a peer's first send waits to be attempted, now or later.
// It costs one round trip to each node, and a second one if there are any. It does
// not tell when.
func (s Sends) Due(ctx context.Context) ([]int, error) {
	return s.existing(ctx, "sends due", func(o *outboxKeys) string { return o.due })
}

// Present returns the shards that have sends, idempotency keys or windows, at the cost of
// Due.
func (s Sends) Present(ctx context.Context) ([]int, error) {
	return s.existing(ctx, "sends present", func(o *outboxKeys) string { return o.index })
}

// SendCount is how many sends of a shard have not ended.
type SendCount struct {
	Queued, Attempting, Unknown int
	// Oldest is when the oldest of the unknown ones was queued; zero: there are none.
	Oldest time.Time
}

// Add adds the count of another shard.
func (c *SendCount) Add(other SendCount) {
	c.Queued += other.Queued
	c.Attempting += other.Attempting
	c.Unknown += other.Unknown
	c.note(other.Oldest)
}

func (c *SendCount) note(queued time.Time) {
	if !queued.IsZero() && (c.Oldest.IsZero() || queued.Before(c.Oldest)) {
		c.Oldest = queued
	}
}

// Count counts the sends of a shard that have not ended: of those under an attempt, and of
// those that are unknown, at most 10,000 each. ZLEXCOUNT would count them all, but rules for
// Redis of earlier versions do not allow it.
func (s Sends) Count(ctx context.Context, shard int) (c SendCount, err error) {
	keys := s.ring.keys[shard].outbox
	commands := []wire.Command{{"ZCARD", keys.line}}
	for _, group := range []SendGroup{GroupAttempting, GroupUnknown} {
		commands = append(commands, wire.Command{"ZRANGEBYLEX", keys.index, "[" + string(group), "(" + string(group+1), "LIMIT", 0, 10_000})
	}
	replies, err := s.ring.wire.PipelineOn(ctx, wire.Ordinary, shard, keys.index, commands...)
	var lined int
	var attempting, unknown []string
	if err == nil {
		_, err = redis.Scan(replies, &lined, &attempting, &unknown)
	}
	if err != nil {
		return SendCount{}, fmt.Errorf("count sends, shard %d: %w", shard, err)
	}
	c = SendCount{Queued: max(0, lined-len(attempting)), Attempting: len(attempting), Unknown: len(unknown)}
	for _, member := range unknown {
		if at := len(member) - SendIDLength - stampWidth; at > 0 {
			queued, _ := readMilli(member[at : at+stampWidth]) // an audit finds what is malformed
			c.note(queued)
		}
	}
	return c, nil
}

// existing returns the shards in which a key exists.
func (s Sends) existing(ctx context.Context, what string, of func(*outboxKeys) string) (shards []int, err error) {
	if s.ring.Node(0) == "" { // one server has them all, mostly none
		command := make(wire.Command, 1, 1+len(s.ring.keys))
		command[0] = "EXISTS"
		for shard := range s.ring.keys {
			command = append(command, of(&s.ring.keys[shard].outbox))
		}
		replies, err := s.ring.wire.PipelineFor(ctx, wire.Ordinary, command[1].(string), command)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if replies[0] == int64(0) {
			return nil, nil
		}
	}
	all := make([]int, len(s.ring.keys))
	for shard := range all {
		all[shard] = shard
	}
	there, err := s.each(ctx, what, all, func(shard int) wire.Command { return wire.Command{"EXISTS", of(&s.ring.keys[shard].outbox)} })
	for shard, reply := range there {
		if reply == int64(1) {
			shards = append(shards, shard)
		}
	}
	return shards, err
}

// Withdraw queues again, at their old places, the sends of an Attempt whose reply the
// caller did not read, so that no byte of them has left. A step that reaches Redis only
// now takes nothing. It returns how many it queued.
func (s Sends) Withdraw(ctx context.Context, shard int, replica, step string) (int, error) {
	k := &s.ring.keys[shard]
	return redis.Int(s.ring.wire.Run(ctx, withdrawSendScript, shard, k.outbox.with(), replica, step, withdrawnFor.Milliseconds()))
}

// SendOutcome is how an attempt went.
type SendOutcome byte

// The outcomes.
const (
	AttemptAccepted SendOutcome = 'y' // the vendor accepted it
	AttemptRejected SendOutcome = 'n' // the vendor refused it for good
	AttemptUnknown  SendOutcome = 'u' // nobody knows: the call was cut, or timed out after its first byte
	// AttemptAgain says that the vendor refused it for now. What it took from the window's
	// count stays taken.
	AttemptAgain SendOutcome = 'r'
	// AttemptUnsent says that no byte has left, as when the vendor could not be reached.
	AttemptUnsent SendOutcome = 'b'
	// AttemptNotBegun says that the caller has not tried, as at shutdown. It counts as no
	// attempt.
	AttemptNotBegun SendOutcome = 'w'
)

// Settlement is how one attempt went.
type Settlement struct {
	ID, Fence string
	Outcome   SendOutcome
	Code      string
	Text      string // for people, without a secret; cut to 512 bytes
	VendorID  string
	After     time.Time // if it is to be tried again: when it may be, by Redis' clock; zero: at once
}

// Settle writes how attempts went. It reports for each whether that is its outcome now.
// False says that the attempt was not the send's last one any more, or that the send is
// not there: nothing was written. Settle is safe to repeat. An error may come after some
// were settled.
//
// An attempt that became unknown meanwhile, because it took too long or its replica
// seemed dead, may still be settled as accepted or rejected: the doubt is over then.
func (s Sends) Settle(ctx context.Context, all []Settlement) ([]bool, error) {
	if err := wire.CheckBatch("settle", len(all)); err != nil {
		return nil, err
	}
	settled := make([]bool, len(all))
	places := make(map[int][]int) // by shard
	for i := range all {
		if first, _, ok := s.shardsOf(all[i].ID); ok {
			places[first] = append(places[first], i)
		}
	}
	if err := s.settleEach(ctx, all, places, settled); err != nil {
		return settled, err
	}
	for shard, in := range places {
		in = slices.DeleteFunc(in, func(i int) bool { return settled[i] })
		if len(in) == 0 {
			continue
		}
		// What is unknown may have moved since.
		elsewhere := make(map[int][]int)
		for _, i := range in {
			if _, target, _ := s.shardsOf(all[i].ID); target != shard {
				elsewhere[target] = append(elsewhere[target], i)
			}
		}
		if _, err := s.ring.beyond(ctx, shard, nil); err != nil {
			return settled, err
		}
		if len(elsewhere) == 0 {
			continue
		}
		if err := s.settleEach(ctx, all, elsewhere, settled); err != nil {
			return settled, err
		}
	}
	return settled, nil
}

// settleEach settles all attempts, each in exactly one shard, at the cost of one round trip to each
// node. With appendfsync always Redis syncs its disk once for each.
func (s Sends) settleEach(ctx context.Context, all []Settlement, places map[int][]int, settled []bool) error {
	shards := slices.Sorted(maps.Keys(places))
	if len(shards) == 1 {
		return s.settleIn(ctx, shards[0], all, places[shards[0]], settled)
	}
	calls := make([]wire.Call, len(shards))
	for i, shard := range shards {
		calls[i] = wire.Call{Keys: s.ring.keys[shard].outbox.with(), Args: settleArgs(all, places[shard])}
	}
	var failed error
	for i, reply := range s.ring.wire.EvalEach(ctx, settleSendScript, calls) {
		err := reply.Err
		if wire.HasCode(err, "WRONGTYPE") { // by itself a call mends that
			err = s.settleIn(ctx, shards[i], all, places[shards[i]], settled)
		} else if err == nil {
			err = readSettled(reply.Value, shards[i], places[shards[i]], settled)
		} else {
			err = fmt.Errorf("settle, shard %d: %w", shards[i], err)
		}
		if err != nil && (failed == nil || wire.Unknown(err) || wire.Unavailable(err)) {
			failed = err // the caller tries again if one of them may succeed then
		}
	}
	return failed
}

// settleIn settles, of all attempts, those at some places, in exactly this shard.
func (s Sends) settleIn(ctx context.Context, shard int, all []Settlement, places []int, settled []bool) error {
	k := &s.ring.keys[shard]
	reply, err := s.ring.wire.Run(ctx, settleSendScript, shard, k.outbox.with(), settleArgs(all, places)...)
	if err != nil {
		return err
	}
	return readSettled(reply, shard, places, settled)
}

// settleArgs returns the script's arguments for the attempts at some places.
func settleArgs(all []Settlement, places []int) []any {
	args := make([]any, 0, 7*len(places))
	for _, i := range places {
		it, after := &all[i], ""
		if !it.After.IsZero() && (it.Outcome == AttemptAgain || it.Outcome == AttemptUnsent || it.Outcome == AttemptNotBegun) {
			after = strconv.FormatInt(min(max(0, it.After.UnixMilli()), latestDue), 10)
		}
		args = append(args, it.ID, it.Fence, string(it.Outcome), clipTo(it.Code, 64), clipTo(it.Text, mostSendText), clipTo(it.VendorID, 256), after)
	}
	return args
}

// readSettled reads the script's reply for the attempts at some places.
func readSettled(reply any, shard int, places []int, settled []bool) error {
	letters, err := redis.String(reply, nil)
	if err != nil || len(letters) != len(places) {
		return fmt.Errorf("settle, shard %d: %w", shard, wire.ErrReply)
	}
	for n, i := range places {
		settled[i] = letters[n] == '1'
	}
	return nil
}

// clipTo cuts a text to so many bytes, and not within a character.
func clipTo(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// Fail writes that the vendor could not deliver a send that it had accepted. The id is
// the vendor's, or ours. It returns our id, or ErrNoSend.
func (s Sends) Fail(ctx context.Context, account, id, code, text string) (string, error) {
	var ours string
	err := s.search(ctx, s.ring.ShardOf(account), s.ring.target(account), func(shard int) (err error) {
		k := &s.ring.keys[shard]
		ours, err = redis.String(s.ring.wire.Run(ctx, failSendScript, shard, k.outbox.with(), account, id, clipTo(code, 64), clipTo(text, mostSendText)))
		if err == nil && ours == "" {
			err = ErrNoSend
		}
		return err
	})
	return ours, err
}

// Cancel cancels a queued send, and returns it as it then is. A send that is not queued
// any more does not change, and the error is ErrSendState. A canceled one may be canceled
// again.
func (s Sends) Cancel(ctx context.Context, id string) (send Send, err error) {
	err = s.whereverIs(ctx, id, func(shard int) error {
		k := &s.ring.keys[shard]
		record, err := redis.String(s.ring.wire.Run(ctx, cancelSendScript, shard, k.outbox.with(), id))
		send, err = readIfThere(id, record, err)
		return err
	})
	if err == nil && send.State != SendCanceled {
		err = ErrSendState
	}
	return send, err
}

// Resolution is what somebody decided about a send.
type Resolution struct {
	Fence string // of the send as the caller saw it

	// To is SendAccepted or SendRejected for an unknown send, or SendQueued for an unknown
	// or rejected one, which is then sent again, last of its peer.
	To       SendState
	Code     string
	Text     string
	VendorID string
	Expires  time.Time // for SendQueued, as in Send
}

// Resolve writes what somebody decided about an unknown send, or sends a rejected one
// again, and returns the send. If it is not as the caller saw it any more, nothing
// changes, and the error is ErrSendState.
func (s Sends) Resolve(ctx context.Context, id string, r Resolution) (send Send, err error) {
	if r.To != SendAccepted && r.To != SendRejected && r.To != SendQueued {
		return Send{}, fmt.Errorf("%w: resolve: no send is resolved to be %s", wire.ErrInput, r.To)
	}
	done := false
	err = s.whereverIs(ctx, id, func(shard int) error {
		k := &s.ring.keys[shard]
		reply, err := redis.Strings(s.ring.wire.Run(ctx, resolveSendScript, shard, k.outbox.with(), id, r.Fence, string(r.To),
			clipTo(r.Code, 64), clipTo(r.Text, mostSendText), clipTo(r.VendorID, 256), expiryText(r.Expires)))
		if err == nil && len(reply) != 2 {
			err = fmt.Errorf("resolve, shard %d: %w", shard, wire.ErrReply)
		}
		if err != nil {
			return err
		}
		done = reply[0] == "1"
		send, err = readIfThere(id, reply[1], nil)
		return err
	})
	if err == nil && !done {
		err = ErrSendState
	}
	return send, err
}

// SweptSends is what one sweep of a shard's sends found.
type SweptSends struct {
	Looked  int      // how many things had ended; as many as asked for: there may be more
	Expired int      // sends
	Unknown []string // sends whose attempts became unknown
}

// Sweep ends what ends by itself in a shard: sends that expire, attempts that last too
// long, or longer than grace if their replica is not alive; and it forgets ended sends,
// keys and windows whose time is over. It looks at up to n of them.
func (s Sends) Sweep(ctx context.Context, shard, n int, grace time.Duration, alive []string) (SweptSends, error) {
	if err := wire.CheckBatch("sweep sends", n); err != nil {
		return SweptSends{}, err
	}
	k := &s.ring.keys[shard]
	reply, err := redis.Values(s.ring.wire.Run(ctx, sweepSendScript, shard, k.outbox.with(), append([]any{n, grace.Milliseconds()}, anyOf(alive)...)...))
	if err != nil {
		return SweptSends{}, err
	}
	var swept SweptSends
	if _, err := redis.Scan(reply, &swept.Looked, &swept.Expired, &swept.Unknown); err != nil {
		return SweptSends{}, fmt.Errorf("sweep sends, shard %d: %w: %w", shard, wire.ErrReply, err)
	}
	return swept, nil
}

// Look returns a send, or ErrNoSend.
func (s Sends) Look(ctx context.Context, id string) (send Send, err error) {
	err = s.whereverIs(ctx, id, func(shard int) error {
		key := s.ring.keys[shard].outbox.sends
		replies, err := s.ring.wire.PipelineOn(ctx, wire.Ordinary, shard, key, wire.Command{"HGET", key, id})
		if err != nil {
			return fmt.Errorf("look at a send, shard %d: %w", shard, err)
		}
		record, err := redis.String(replies[0], nil)
		if errors.Is(err, redis.ErrNil) {
			err = nil
		}
		send, err = readIfThere(id, record, err)
		return err
	})
	return send, err
}

// readIfThere reads one send; an empty record is ErrNoSend.
func readIfThere(id, record string, err error) (Send, error) {
	if err != nil {
		return Send{}, err
	}
	if record == "" {
		return Send{}, ErrNoSend
	}
	return readSend(id, record)
}

// SendGroup is a group of sends in which lists go by time.
type SendGroup byte

// The groups, by when their sends were queued; those that have ended, by when they did.
const (
	GroupQueued     SendGroup = 'q'
	GroupAttempting SendGroup = 'a'
	GroupUnknown    SendGroup = 'u'
	GroupEnded      SendGroup = 'e' // accepted, rejected, failed, canceled or expired
)

// List returns some sends of a group in one shard: those of one account, the oldest first,
// or those of all, account by account. It goes on behind the place that the call before
// returned; "" is the start, and "" comes back at the end.
func (s Sends) List(ctx context.Context, shard int, group SendGroup, account, behind string, n int) (sends []Send, next string, err error) {
	if err := wire.CheckBatch("list sends", n); err != nil {
		return nil, "", err
	}
	from, to := "["+string(group), "("+string(group+1)
	if account != "" {
		from, to = from+account+"\x00", "("+string(group)+account+"\x01"
	}
	if behind != "" {
		from = "(" + behind
	}
	k := &s.ring.keys[shard]
	reply, err := redis.Strings(s.ring.wire.Run(ctx, listSendScript, shard, k.outbox.with(), from, to, n))
	if err != nil {
		return nil, "", err
	}
	for i := 0; i+1 < len(reply); i += 2 {
		member := reply[i]
		if reply[i+1] == "" || len(member) < SendIDLength {
			continue // an audit finds it
		}
		send, err := readSend(member[len(member)-SendIDLength:], reply[i+1])
		if err != nil {
			return nil, "", err
		}
		sends = append(sends, send)
	}
	if len(reply) == 2*n {
		next = reply[len(reply)-2]
	}
	return sends, next, nil
}

// OpenWindow is the window of a peer as it is known.
type OpenWindow struct {
	Until time.Time // by Redis' clock
	Left  int       // -1: any number
	Token string
}

// readWindow reads a window: see sends.lua.
func readWindow(text string) (OpenWindow, error) {
	parts := strings.SplitN(text, "|", 4)
	if len(parts) != 4 {
		return OpenWindow{}, wire.ErrReply
	}
	w := OpenWindow{Left: -1, Token: parts[3]}
	_, err := readMilli(parts[2])
	if err == nil {
		w.Until, err = readMilli(parts[0])
	}
	if err == nil && parts[1] != "-" {
		w.Left, err = strconv.Atoi(parts[1])
	}
	if err != nil {
		return OpenWindow{}, errors.Join(wire.ErrReply, err)
	}
	return w, nil
}

// Window returns the last known window of a peer, which may be over. False: none is
// known.
func (s Sends) Window(ctx context.Context, account, peer string) (w OpenWindow, known bool, err error) {
	err = s.search(ctx, s.ring.ShardOf(account), s.ring.target(account), func(shard int) error {
		key := s.ring.keys[shard].outbox.windows
		replies, err := s.ring.wire.PipelineOn(ctx, wire.Ordinary, shard, key, wire.Command{"HGET", key, account + "\x00" + peer})
		if err != nil {
			return fmt.Errorf("window, shard %d: %w", shard, err)
		}
		text, err := redis.String(replies[0], nil)
		if errors.Is(err, redis.ErrNil) {
			return ErrNoSend
		}
		if err == nil {
			w, err = readWindow(text)
		}
		if err != nil {
			return fmt.Errorf("window, shard %d: %w", shard, err)
		}
		known = true
		return nil
	})
	if errors.Is(err, ErrNoSend) {
		err = nil
	}
	return w, known, err
}

// whereverIs does a step in the shards where a send may be, until one has it.
func (s Sends) whereverIs(ctx context.Context, id string, step func(shard int) error) error {
	first, target, ok := s.shardsOf(id)
	if !ok {
		return ErrNoSend
	}
	return s.search(ctx, first, target, step)
}

// shardsOf returns the first shard where a send may be, and the one that its account moves
// to. False: no send has that id.
func (s Sends) shardsOf(id string) (first, target int, ok bool) {
	crc, err := strconv.ParseUint(id[:min(8, len(id))], 16, 32)
	if err != nil || len(id) != SendIDLength {
		return 0, 0, false
	}
	r := s.ring
	target = r.sources + int(crc%uint64(len(r.keys)-r.sources))
	if r.sources > 0 && !r.left.Load() {
		return int(crc % uint64(r.sources)), target, true
	}
	return target, target, true
}

// search does a step in the shard where a send may be, and then, if it is not there, in
// the one that its account moves to.
func (s Sends) search(ctx context.Context, first, target int, step func(shard int) error) error {
	err := step(first)
	if !errors.Is(err, ErrNoSend) {
		return err
	}
	if _, beyondErr := s.ring.beyond(ctx, first, nil); beyondErr != nil {
		return beyondErr
	}
	if first != target {
		err = step(target)
	}
	return err
}
