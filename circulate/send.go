package circulate

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// SendIDLength is how many bytes the id of a send has: digits and capital letters.
	SendIDLength = 32
	// MaxPeer is the most bytes of a peer.
	MaxPeer = 512
	// MaxSendData is the most bytes of a send's data.
	MaxSendData = 16 << 10
	// SendKeyKept is how long an idempotency key is remembered.
	SendKeyKept = 48 * time.Hour
	// MostSendKeys is how many keys of an account are remembered. The oldest are forgotten
	// first.
	MostSendKeys = 8192
	// MostEndedSends is how many ended sends of an account are remembered, for a week at
	// most.
	MostEndedSends = 256
	// MostWindows is how many peers of an account may have a window at a time.
	MostWindows = 16384

	// DefaultWaitingSends is how many sends of an account may wait or be in doubt.
	DefaultWaitingSends = 1000
	// DefaultAllWaitingSends is how many of all accounts may wait or be under an attempt.
	DefaultAllWaitingSends = 1_000_000
	// MaxTrace is the most bytes of a traceparent (https://www.w3.org/TR/trace-context/).
	MaxTrace = 55

	// withdrawnFor is how long Attempt takes nothing under the name of a step that was
	// withdrawn. A step that has not reached Redis by then never will.
	withdrawnFor = time.Minute
	// pausedFor is how long the sends of a paused account wait before they are looked at
	// again.
	pausedFor = 5 * time.Second
	// busyFor is when to try again if too many sends wait.
	busyFor = 10 * time.Second
	// maxWindowToken is the most bytes of a window's token.
	maxWindowToken = 8 << 10
	// mostSendText is the most bytes of an outcome's text.
	mostSendText = 512
)

// SendState is where in its life a send is.
type SendState byte

// The states. A send begins as queued. Queued and attempting take turns; unknown ends with
// a resolution; the others are final, except that an accepted send may still fail and a
// rejected one may be sent again.
const (
	SendQueued     SendState = 'q' // waits for its turn, its time or its window
	SendAttempting SendState = 'a' // may be on its way
	SendAccepted   SendState = 'y' // the vendor has it
	SendRejected   SendState = 'n' // the vendor refused it, or it could not be sent
	SendUnknown    SendState = 'u' // an attempt of which nobody knows how it went
	SendFailed     SendState = 'f' // the vendor had accepted it and could not deliver it
	SendCanceled   SendState = 'c' // somebody canceled it while it was queued
	SendExpired    SendState = 'x' // it was still queued when it expired
)

// sendStates are all states with their names.
var sendStates = map[SendState]string{
	SendQueued: "queued", SendAttempting: "attempting", SendAccepted: "accepted", SendRejected: "rejected",
	SendUnknown: "unknown", SendFailed: "failed", SendCanceled: "canceled", SendExpired: "expired",
}

// String returns the state's name, such as "queued".
func (s SendState) String() string { return sendStates[s] }

// ParseSendState returns the state with a name, or false if there is none.
func ParseSendState(name string) (SendState, bool) {
	for state, known := range sendStates {
		if known == name {
			return state, true
		}
	}
	return 0, false
}

// Send is one answer to a peer of an account.
type Send struct {
	ID      string // of NewSendID
	Account string
	Kind    string // the account's; a replica attempts only sends of kinds that it checks
	Peer    string // whom it is for, in the kind's own form
	ReplyTo string // the message that it answers; opaque to the ring
	Type    string
	Data    json.RawMessage

	Expires  time.Time // never attempted after that, by Redis' clock; zero: never too late
	Waits    bool      // waits for its peer's window, instead of being refused outside it
	Windowed bool      // the kind allows answers only within windows
	Free     bool      // Windowed, and takes nothing from the window's count

	// Request is what the caller was asked to send, in the caller's own words. A repetition
	// with the same key must have the same Request. Empty: it must have the same kind, peer,
	// answer, type, data, expiry and waiting. Request itself is not stored.
	Request string

	// Trace is the traceparent of what queued it (https://www.w3.org/TR/trace-context/), of 55 bytes.
	// Empty: it is not traced.
	Trace string

	// The rest is the ring's.
	State  SendState
	Queued time.Time // by Redis' clock, in ms
	Since  time.Time // when its state began
	// NotBefore is when its next attempt may be, if its last one was put off; of one under an
	// attempt, when that was allowed. Zero: at once.
	NotBefore time.Time
	Attempts  int    // including the one under way; not those of which no byte left by a fault of ours
	Fence     string // of its last attempt; "" while it is queued
	Code      string // of its outcome, or of the last refusal
	Text      string // the same for people
	VendorID  string // the vendor's own
	Replica   string // that made the last attempt
}

// NewSendID returns an id that nobody can guess. It begins with the CRC32 of the account,
// so that the send is found wherever the account is: see [Ring.ShardOf].
func NewSendID(account string) string {
	return fmt.Sprintf("%08X", crc32.ChecksumIEEE([]byte(account))) + rand.Text()[:SendIDLength-8]
}

var (
	// ErrSendConflict reports that another send of the account has the idempotency key.
	ErrSendConflict = wire.Finding("circulate: another send has this key")
	// ErrSendExpired reports a send that expires before it could be queued.
	ErrSendExpired = wire.Finding("circulate: the send has expired")
	// ErrNoSend reports an id that no send has.
	ErrNoSend = wire.Finding("circulate: no such send")
	// ErrSendState reports a send that is not, or not any more, as the caller saw it.
	ErrSendState = wire.Finding("circulate: the send is in another state")
)

// SendsBusyError reports that too many sends wait.
type SendsBusyError struct {
	All   bool          // of all accounts; otherwise of this one
	After time.Duration // when to try again
}

// Error says of whom too many wait.
func (e *SendsBusyError) Error() string {
	if e.All {
		return "circulate: too many sends wait"
	}
	return "circulate: too many sends of the account wait"
}

// WindowError reports that a peer may not be answered now.
type WindowError struct {
	Until time.Time // when the last known window ends or ended; zero: none is known
	Left  int       // of its count that sends in line do not take; -1: it has no count
}

// Error says whether the window is over or used up.
func (e *WindowError) Error() string {
	if e.Until.IsZero() {
		return "circulate: the peer has no window"
	}
	return "circulate: the peer's window is over or used up"
}

// Answerable is until when and how often a peer may be answered, from when a message of
// the peer is found on. It is not written if the peer is none, if For is not positive, or
// if the token has more than 8 KiB.
type Answerable struct {
	Peer  string
	For   time.Duration
	Count int    // 0: any number
	Token string // what an answer must carry; opaque to the ring, sealed by the caller
}

// usable reports whether it can be written. A message is found in any case.
func (w *Answerable) usable() bool {
	return w != nil && validPeer(w.Peer) && w.For > 0 && len(w.Token) <= maxWindowToken
}

// append appends it as scripts take it.
func (w *Answerable) append(args []any) []any {
	left := "-"
	if w.Count > 0 {
		left = strconv.Itoa(w.Count)
	}
	return append(args, w.Peer, w.For.Milliseconds(), left, w.Token)
}

// Sends are the steps of the outbox: see *Sends* in the package comment.
type Sends struct{ ring *Ring }

// Sends returns the steps of the outbox.
func (r *Ring) Sends() Sends { return Sends{r} }

// SendBounds are how many sends may be queued or under an attempt. Those of an account
// that are unknown count for it. Zero means the defaults.
type SendBounds struct{ Account, All int }

var (
	queueSendScript    = wire.NewScript("queue send", lua("sends"), lua("send_queue"))
	attemptSendScript  = wire.NewVitalScript("attempt send", lua("sends"), lua("send_attempt"))
	withdrawSendScript = wire.NewVitalScript("withdraw send", lua("sends"), lua("send_withdraw"))
	settleSendScript   = wire.NewVitalScript("settle send", lua("sends"), lua("send_settle"))
	failSendScript     = wire.NewScript("fail send", lua("sends"), lua("send_fail"))
	cancelSendScript   = wire.NewScript("cancel send", lua("sends"), lua("send_cancel"))
	resolveSendScript  = wire.NewScript("resolve send", lua("sends"), lua("send_resolve"))
	sweepSendScript    = wire.NewScript("sweep send", lua("sends"), lua("send_sweep"))
	listSendScript     = wire.NewScript("list send", lua("sends"), lua("send_list"))
)

// Queue takes a send over as the last of its peer, and returns it as it is. A send with
// the same key and the same contents is not queued again: Queue returns the first one, and
// false. Key is the caller's idempotency key, or "" for none; the id is one as well.
//
// Errors: ErrSendConflict, ErrNotRegistered, ErrSendExpired, a *SendsBusyError, a
// *WindowError. A Redis at its memory limit refuses it (Full). After an unknown outcome
// repeat it with the same id.
func (s Sends) Queue(ctx context.Context, send Send, key string, b SendBounds) (queued Send, isNew bool, err error) {
	if err := send.validate(); err != nil {
		return Send{}, false, fmt.Errorf("%w: queue send: %w", wire.ErrInput, err)
	}
	if b.Account <= 0 {
		b.Account = DefaultWaitingSends
	}
	if b.All <= 0 {
		b.All = DefaultAllWaitingSends
	}
	if err := s.ring.keepOut(ctx); err != nil {
		return Send{}, false, err
	}
	shards := len(s.ring.keys) - s.ring.sources
	share := (b.All + shards - 1) / shards
	keyed := ""
	if key != "" {
		keyed = digestOf(send.Account, key)
	}
	args := []any{
		send.ID, keyed, send.digest(), send.Account, send.Kind, send.Peer, expiryText(send.Expires), wire.Flag(send.Waits), send.windowed(),
		send.ReplyTo, send.Type, []byte(send.Data), b.Account, share, SendKeyKept.Milliseconds(), MostSendKeys, send.Trace,
	}
	err = s.ring.whereverIs(ctx, send.Account, func(ctx context.Context, shard int) error {
		k := &s.ring.keys[shard]
		reply, err := redis.Strings(s.ring.wire.Run(ctx, queueSendScript, shard, k.outbox.with(k.tickets), args...))
		if err != nil {
			return err
		}
		queued, isNew, err = readQueued(reply)
		return err
	})
	return queued, isNew, err
}

// readQueued reads the reply of a step that queues a send.
func readQueued(reply []string) (queued Send, isNew bool, err error) {
	reply = append(reply, "", "", "") // one that is too short is no record
	switch reply[0] {
	case "q", "s":
		queued, err = readSend(reply[1], reply[2])
		return queued, reply[0] == "q", err
	case "g":
		return Send{ID: reply[1]}, false, nil
	case "c":
		return Send{}, false, fmt.Errorf("%w: %s", ErrSendConflict, reply[1])
	case "n":
		return Send{}, false, ErrNotRegistered
	case "a":
		return Send{}, false, &SendsBusyError{After: busyFor}
	case "f":
		return Send{}, false, &SendsBusyError{All: true, After: busyFor}
	case "x":
		return Send{}, false, ErrSendExpired
	case "o":
		w := &WindowError{Left: -1}
		w.Until, _ = readMilli(reply[1])
		if left, err := strconv.Atoi(reply[2]); err == nil {
			w.Left = left
		}
		return Send{}, false, w
	}
	return Send{}, false, fmt.Errorf("queue send: %w", wire.ErrReply)
}

// windowed returns what scripts know of Windowed and Free.
func (send *Send) windowed() string {
	switch {
	case send.Windowed && send.Free:
		return "2"
	case send.Windowed:
		return "1"
	}
	return "0"
}

func (send *Send) validate() error {
	switch {
	case ValidateID(send.Account) != nil:
		return fmt.Errorf("account %q: %w", send.Account, ValidateID(send.Account))
	case len(send.ID) != SendIDLength || !strings.HasPrefix(send.ID, fmt.Sprintf("%08X", crc32.ChecksumIEEE([]byte(send.Account)))):
		return fmt.Errorf("id %q is none of the account's", send.ID)
	case !WaitsByKind(send.Kind):
		return fmt.Errorf("kind %q", send.Kind)
	case !validPeer(send.Peer):
		return fmt.Errorf("peer: must be 1 to %d bytes without control characters", MaxPeer)
	case len(send.Trace) > MaxTrace:
		return fmt.Errorf("trace: has %d bytes, more than %d", len(send.Trace), MaxTrace)
	case len(send.Data) > MaxSendData:
		return fmt.Errorf("data: has %d bytes, more than %d", len(send.Data), MaxSendData)
	}
	return nil
}

func validPeer(peer string) bool {
	return peer != "" && len(peer) <= MaxPeer && utf8.ValidString(peer) && !strings.ContainsFunc(peer, func(r rune) bool { return r < ' ' })
}

// digest identifies what is to be sent.
func (send *Send) digest() string {
	if send.Request != "" {
		return digestOf(send.Request)
	}
	return digestOf(send.Kind, send.Peer, send.ReplyTo, send.Type, string(send.Data), expiryText(send.Expires), strconv.FormatBool(send.Waits))
}

// digestOf returns a digest of texts in 32 hexadecimal digits.
func digestOf(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		h.Write(fmt.Appendf(nil, "%d:%s", len(text), text))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// expiry returns a time as scripts take it.
func expiryText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%0*d", stampWidth, min(max(0, t.UnixMilli()), latestDue))
}

func readMilli(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	return time.UnixMilli(ms), err
}

// sendFields is how many fields a record has: see sends.lua.
const sendFields = 24

// readSend reads a send's record.
func readSend(id, record string) (Send, error) {
	fields := make([]string, 0, sendFields)
	lengths, rest, ok := strings.Cut(record, "|")
	for len(fields) < sendFields {
		length, more, behind := strings.Cut(lengths, ",")
		n, err := strconv.Atoi(length)
		if !ok || !behind || err != nil || n < 0 || n > len(rest) {
			return Send{}, fmt.Errorf("send %s: %w", id, errors.Join(wire.ErrReply, err))
		}
		fields = append(fields, rest[:n])
		lengths, rest = more, rest[n:]
	}
	send := Send{
		ID: id, Fence: fields[1], Account: fields[2], Kind: fields[3], Peer: fields[4], Waits: fields[9] == "1", Windowed: fields[10] == "1" || fields[10] == "2", Free: fields[10] == "2",
		Code: fields[14], Text: fields[15], VendorID: fields[16], Replica: fields[17],
		ReplyTo: fields[21], Type: fields[22], Data: json.RawMessage(fields[23]), Trace: rest,
	}
	if len(fields[0]) != 1 {
		return Send{}, fmt.Errorf("send %s: %w", id, wire.ErrReply)
	}
	send.State = SendState(fields[0][0])
	var errs [5]error
	send.Queued, errs[0] = readMilli(fields[5])
	send.Since, errs[1] = readMilli(fields[6])
	send.Expires, errs[2] = readMilli(fields[8])
	send.NotBefore, errs[4] = readMilli(fields[7])
	send.Attempts, errs[3] = strconv.Atoi(fields[13])
	if err := errors.Join(errs[:]...); err != nil {
		return Send{}, fmt.Errorf("send %s: %w: %w", id, wire.ErrReply, err)
	}
	return send, nil
}
