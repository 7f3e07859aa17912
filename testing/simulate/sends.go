package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/census"
	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

const (
	simPeers    = 3                // of each account
	windowFor   = 30 * time.Minute // for which a message allows answers
	windowCount = 4                // how many

	// windowSlack is how long after its window a send may still arrive: a page is committed late, and
	// a replica stands still between the attempt and the call.
	windowSlack = longTimeout + 10*time.Minute
	// attemptLasts is the longest that an attempt is under way before it is unknown.
	attemptLasts = 65*time.Second + sweep
)

// manner is how sends of an account go. It never changes.
type manner struct {
	windowed bool         // its people may be answered only within windows
	doubt    poller.Doubt // what can be done about an unknown end
	retries  bool         // what is unknown is sent again
}

func mannerOf(account string) manner {
	switch text(account) % 5 {
	case 0:
		return manner{windowed: true}
	case 1:
		return manner{retries: true}
	case 2:
		return manner{doubt: poller.DoubtRepeats}
	}
	return manner{}
}

// ledger is what is known of sends apart from what Redis has: what a caller asked for, and what
// arrived at the third party.
type ledger struct {
	violated func(format string, args ...any)
	look     func(id string) (circulate.Send, error)
	now      func() time.Time // by Redis' clock

	mu      sync.Mutex
	asked   map[string]*asked
	open    []*asked       // that have not ended as far as is known, oldest first
	last    map[string]int // account and peer -> the number of the last send that arrived
	windows map[string]*grant
	stepped time.Time // when Redis' clock was last changed
	counts  sendCounts
}

// sendCounts count sends, and calls that reached the third party. The doubts are those of the last
// judgement.
type sendCounts struct{ asked, arrived, refused, doubts, resolved int }

// asked is a send as its caller knows it.
type asked struct {
	id, account, peer string
	number            int       // later ones of a peer have higher numbers
	at                time.Time // when it was asked for
	queued            bool      // Redis said so
	again             bool      // it may arrive twice, because somebody had it sent again
	resolved          bool      // somebody said what became of it
	arrived           int
	ended             circulate.SendState // 0: not as far as is known
}

func (a *asked) line() string { return a.account + " " + a.peer }

// repeats reports whether it may be sent more than once.
func (a *asked) repeats() bool {
	m := mannerOf(a.account)
	return a.again || m.retries || m.doubt == poller.DoubtRepeats
}

// grant is what a message allows: so many answers to a peer, for a while.
type grant struct {
	account, peer string
	until         time.Time
	at            time.Time
	calls         int // that reached the third party
}

func newLedger() *ledger {
	return &ledger{asked: make(map[string]*asked), last: make(map[string]int), windows: make(map[string]*grant)}
}

// grants notes that a message allows answers to its sender. The message is also the token.
func (l *ledger) grants(account, message string, number int) *poller.Answerable {
	peer := fmt.Sprint("peer", number%simPeers)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.windows[message] == nil { // it may come again
		l.windows[message] = &grant{account: account, peer: peer, until: l.now().Add(windowFor), at: time.Now()}
	}
	return &poller.Answerable{Peer: peer, For: windowFor, Count: windowCount, Token: message}
}

// called notes that a call has reached the third party, and that it has the send or not.
func (l *ledger) called(r poller.SendRequest, takes bool) {
	l.mu.Lock()
	a := l.asked[r.ID]
	if a == nil || a.account != r.Account || a.peer != r.Peer || string(r.Data) != strconv.Itoa(a.number) {
		l.mu.Unlock()
		l.violated("sends: %q got %s of %q to %s with %s, and nobody asked for that", r.Peer, r.ID, r.Account, r.Peer, r.Data)
		return
	}
	var wrong []string
	if mannerOf(a.account).windowed {
		wrong = l.within(a, r.Token)
	}
	overtaken := false
	if takes {
		a.arrived++
		l.counts.arrived++
		switch {
		case a.arrived > 1 && !a.repeats():
			wrong = append(wrong, "arrived twice")
		case (a.ended == circulate.SendCanceled || a.ended == circulate.SendExpired || a.ended == circulate.SendRejected) && !a.repeats() && !a.resolved:
			wrong = append(wrong, "arrived, and is "+a.ended.String())
		}
		if a.number > l.last[a.line()] {
			l.last[a.line()] = a.number
		} else {
			overtaken = a.arrived == 1 && !(a.repeats() && r.Attempt > 1)
		}
	} else {
		l.counts.refused++
	}
	after := l.last[a.line()]
	l.mu.Unlock()
	// One whose attempt is not the outbox's any more may come late.
	if overtaken {
		if s, err := l.look(r.ID); err == nil && s.State == circulate.SendAttempting && s.Attempts == r.Attempt {
			wrong = append(wrong, fmt.Sprintf("arrived after number %d", after))
		}
	}
	for _, what := range wrong {
		l.violated("sends: number %d of %q to %s, %s, %s", a.number, a.account, a.peer, a.id, what)
	}
}

// within checks that a call is one of those that a message allows.
func (l *ledger) within(a *asked, token string) (wrong []string) {
	w := l.windows[token]
	if w == nil || w.account != a.account || w.peer != a.peer {
		return []string{fmt.Sprintf("has the token %q of no message of the peer", token)}
	}
	if w.calls++; w.calls > windowCount {
		wrong = append(wrong, fmt.Sprintf("is answer %d to %s, of %d", w.calls, token, windowCount))
	}
	if late := l.now().Sub(w.until); late > windowSlack && l.stepped.Before(w.at) {
		wrong = append(wrong, fmt.Sprintf("came %v after the window of %s", late, token))
	}
	return wrong
}

// jump changes Redis' clock.
func (s *simulation) jump(by time.Duration) {
	s.world.Jump(by)
	s.up.sends.set(func() { s.up.sends.stepped = time.Now() })
}

// ask notes a send before it is queued.
func (l *ledger) ask(account, peer string) *asked {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.asked++
	n := l.counts.asked
	a := &asked{id: fmt.Sprintf("%08X%024d", crc32.ChecksumIEEE([]byte(account)), n), account: account, peer: peer, number: n, at: time.Now()}
	l.asked[a.id], l.open = a, append(l.open, a)
	return a
}

func (l *ledger) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// Sending says how sends of an account go.
func (checker) Sending(config json.RawMessage) poller.Sending {
	var s settings
	_ = json.Unmarshal(config, &s) // it was validated
	return poller.Sending{Types: []string{"text"}, Windowed: s.Windowed, Doubt: poller.Doubt(s.Doubt)}
}

// PrepareSend has nothing to complete.
func (checker) PrepareSend(json.RawMessage, *poller.Outgoing, *poller.Message) error { return nil }

// Send makes a call to the third party, which arrives half way through. Some fail in any way, and
// more of them when checks do. It stands still when its replica does.
func (c checker) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	c.link.WhilePaused()
	c.mu.Lock()
	rough, network, slow := c.rough, c.network, max(1, c.slow)
	c.mu.Unlock()
	nth := replicas.Mix(c.seed, text(r.ID), uint64(time.Now().UnixMilli()))
	chance := func(what uint64) float64 { return replicas.Chance(nth, what) }
	p := 0.0
	if rough || chance(4) < 0.2 {
		p = chance(1)
	}
	half := time.Duration(slow * (2 + 50*chance(2)) * float64(time.Millisecond))
	unsent := &poller.SendError{Unsent: true, Code: "unreachable", Message: "no route to host"}
	cut := &poller.CheckError{Code: "cut", Message: "as simulated"}
	if err := wait(ctx, half); err != nil {
		return poller.Sent{}, err
	}
	knows := c.sends.has(r.ID) && mannerOf(r.Account).doubt == poller.DoubtRepeats
	switch {
	case network || p >= 0.70 && p < 0.75:
		return poller.Sent{}, unsent
	case p >= 0.75 && p < 0.80 && !knows:
		c.sends.called(r, false)
		return poller.Sent{}, poller.Refused("blocked", "as simulated")
	case p >= 0.80 && p < 0.85:
		c.sends.called(r, false)
		return poller.Sent{}, &poller.SendError{Code: "busy", Message: "as simulated", After: time.Duration(chance(3) * float64(2*time.Minute))}
	case p >= 0.85 && p < 0.88:
		return poller.Sent{}, cut
	case p >= 0.88 && p < 0.90: // hangs, and arrives late
		time.Sleep(time.Duration(chance(3) * float64(5*time.Minute)))
	}
	c.link.WhilePaused()
	c.sends.called(r, true)
	switch {
	case p >= 0.90 && p < 0.94:
		return poller.Sent{}, cut
	case p >= 0.94 && p < 0.96:
		<-ctx.Done()
		return poller.Sent{}, ctx.Err()
	case p >= 0.96 && p < 0.98:
		time.Sleep(time.Duration(chance(3) * float64(5*time.Minute)))
	case p >= 0.98:
		panic("as simulated")
	}
	if err := wait(ctx, half); err != nil {
		return poller.Sent{}, err
	}
	return poller.Sent{VendorID: "v" + r.ID}, nil
}

// has reports whether a send has arrived.
func (l *ledger) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.asked[id]
	return a != nil && a.arrived > 0
}

// caller asks for sends, cancels some, and decides about some that are unknown.
type caller struct {
	ring   *circulate.Ring
	ledger *ledger
	ids    []string
	random *rand.Rand
}

func newCaller(w *replicas.World, l *replicas.Link, up *upstream, ids []string, seed uint64) (*caller, error) {
	ring, err := w.Open(context.Background(), l)
	return &caller{ring: ring, ledger: up.sends, ids: ids, random: rand.New(rand.NewPCG(seed, 3))}, err
}

// run asks for something from time to time, until ctx is done.
func (c *caller) run(ctx context.Context, mean time.Duration) {
	for wait(ctx, time.Duration(c.random.ExpFloat64()*float64(mean))) == nil {
		switch c.random.IntN(12) {
		case 0:
			c.cancel()
		case 1, 2:
			c.resolve()
		default:
			c.queue(ctx, c.ids[c.random.IntN(len(c.ids))], fmt.Sprint("peer", c.random.IntN(simPeers)))
		}
	}
}

// queue asks for a send until Redis has answered. Nothing else is asked for meanwhile, so that the
// order of a peer's sends is known.
func (c *caller) queue(ctx context.Context, account, peer string) *asked {
	a := c.ledger.ask(account, peer)
	send := circulate.Send{ID: a.id, Account: account, Kind: "sim", Peer: peer, Type: "text", Data: json.RawMessage(strconv.Itoa(a.number)),
		Windowed: mannerOf(account).windowed, Waits: c.random.IntN(3) == 0}
	if c.random.IntN(5) == 0 {
		if now, err := c.ring.Account(account).Now(ctx); err == nil {
			send.Expires = now.Add(time.Duration(1 + c.random.Int64N(int64(20*time.Minute))))
		}
	}
	for {
		_, _, err := c.ring.Sends().Queue(context.Background(), send, "key of "+a.id, circulate.SendBounds{})
		var busy *circulate.SendsBusyError
		var outside *circulate.WindowError
		switch {
		case err == nil:
			c.ledger.set(func() { a.queued = true })
			return a
		case errors.Is(err, circulate.ErrSendConflict):
			c.ledger.violated("sends: %s is another send's: %v", a.id, err)
			return a
		case errors.Is(err, circulate.ErrNotRegistered), errors.Is(err, circulate.ErrSendExpired), errors.As(err, &busy), errors.As(err, &outside):
			return a
		case wait(ctx, time.Second) != nil:
			return a // nobody knows
		}
	}
}

// some returns a send that has not ended as far as is known, or nil.
func (c *caller) some() *asked {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	if len(c.ledger.open) == 0 {
		return nil
	}
	return c.ledger.open[c.random.IntN(len(c.ledger.open))]
}

// cancel cancels a send, if that is still possible.
func (c *caller) cancel() {
	if a := c.some(); a != nil {
		_, _ = c.ring.Sends().Cancel(context.Background(), a.id) // what became of it is judged
	}
}

// resolve decides about a send, if it is unknown.
func (c *caller) resolve() {
	for range 10 {
		a := c.some()
		if a == nil {
			return
		}
		s, err := c.ring.Sends().Look(context.Background(), a.id)
		if err != nil || s.State != circulate.SendUnknown {
			continue
		}
		r := circulate.Resolution{Fence: s.Fence, To: []circulate.SendState{circulate.SendAccepted, circulate.SendRejected, circulate.SendQueued}[c.random.IntN(3)]}
		c.ledger.set(func() {
			a.resolved, a.again = true, a.again || r.To == circulate.SendQueued
			c.ledger.counts.resolved++
		})
		_, _ = c.ring.Sends().Resolve(context.Background(), a.id, r) // what became of it is judged
		return
	}
}

// windows checks that no window's count is below zero or above what its message allows.
func (o *oracle) windows() {
	for shard := range o.world.Ring().Shards() {
		all, err := redis.StringMap(o.world.Do("HGETALL", o.world.Key(shard, "windows")))
		if err != nil {
			if o.world.Serves() {
				o.violated("windows: %v", err)
			}
			return
		}
		for line, value := range all {
			parts := strings.SplitN(value, "|", 3)
			if left, err := strconv.Atoi(parts[min(1, len(parts)-1)]); err != nil || left < 0 || left > windowCount {
				o.violated("sends: the window of %q is %q", line, value)
			}
		}
	}
}

// sends compares what Redis has of each send that has not ended with what is known. When all is
// well, a send waits only for its account, its window or its time.
func (o *oracle) sends(c *census.Census) {
	l := o.up.sends
	o.windows()
	for shard := range o.world.Ring().Shards() {
		found, err := o.world.Ring().Sends().Audit(context.Background(), shard, false)
		if err != nil || len(found) > 0 {
			o.violated("sends: an audit finds %c of %q, %v", kinds(found), findings(found), err)
		}
	}
	l.mu.Lock()
	open := l.open
	l.open, l.counts.doubts = nil, 0
	l.mu.Unlock()
	var still []*asked
	all := make([]judged, 0, len(open))
	waits := make(map[string]bool) // lines in which a send has a reason to wait: those behind it wait as well
	for _, a := range open {
		s, err := o.world.Ring().Sends().Look(context.Background(), a.id)
		if err != nil && !errors.Is(err, circulate.ErrNoSend) {
			o.violated("sends: %v", err)
			return
		}
		l.mu.Lock()
		known := *a
		if err == nil {
			switch s.State {
			case circulate.SendQueued, circulate.SendAttempting:
				still = append(still, a)
			case circulate.SendUnknown:
				l.counts.doubts++
				still = append(still, a)
			default:
				a.ended = s.State
			}
		}
		l.mu.Unlock()
		all = append(all, judged{known, s, err == nil})
		if err == nil && s.State == circulate.SendQueued && o.mayWait(c, &known, s) {
			waits[known.line()] = true
		}
	}
	for i := range all {
		if what := o.wrong(c, &all[i], waits); what != "" {
			a := &all[i].asked
			o.violated("sends: number %d of %q to %s, %s, %s", a.number, a.account, a.peer, a.id, what)
		}
	}
	l.set(func() { l.open = append(still, l.open...) })
}

// judged is a send as its caller knows it, and as Redis has it.
type judged struct {
	asked
	is    circulate.Send
	there bool
}

// wrong says what is wrong about a send, or returns "".
func (o *oracle) wrong(c *census.Census, a *judged, waits map[string]bool) string {
	s := a.is
	if !a.there {
		if a.queued && !o.reg.deletedSince(a.account, a.at) {
			return "is not there"
		}
		return ""
	}
	switch s.State {
	case circulate.SendAccepted:
		if a.arrived == 0 && !a.resolved {
			return "never arrived, and is accepted"
		}
	case circulate.SendRejected, circulate.SendExpired, circulate.SendCanceled:
		if a.arrived > 0 && !a.resolved && !a.repeats() {
			return "arrived, and is " + s.State.String()
		}
	case circulate.SendFailed:
		return "is failed, and nobody said so"
	case circulate.SendAttempting:
		if age := c.Now.Sub(s.Since); age > attemptLasts {
			return fmt.Sprintf("has been under an attempt of %s for %v", s.Replica, age)
		}
	case circulate.SendQueued:
		if waited := c.Now.Sub(s.Since); waited > lateness && !waits[a.line()] {
			return fmt.Sprintf("has been queued for %v", waited)
		}
	}
	return ""
}

// mayWait reports whether a queued send may wait: for its account, its window or its time.
func (o *oracle) mayWait(c *census.Census, a *asked, s circulate.Send) bool {
	account := c.Accounts[a.account]
	return account != nil && strings.HasPrefix(account.Reason, circulate.ReasonPaused) || s.NotBefore.After(c.Now) || s.Windowed && s.Waits
}

func kinds(found []circulate.SendFinding) (all []byte) {
	for _, f := range found {
		all = append(all, byte(f.Kind))
	}
	return all
}

func findings(found []circulate.SendFinding) (all []string) {
	for _, f := range found {
		all = append(all, f.Of)
	}
	return all
}
