package poller

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/limit"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/internal/conceal"
	"github.com/rounds-dev/rounds/poller/internal/panics"
)

const (
	sendLoops = 4   // looks at shards at once
	sendBatch = 128 // the most attempts of one look

	// sendBegin is how soon after its note a call must have begun. An attempt that has waited longer
	// is given back. By default monitors take a replica for dead that has been silent for ten seconds.
	sendBegin = 9 * time.Second
	// sendMargin is how much longer than its call an attempt may last, to wait for Redis' disk and a
	// place, to ask limits and to be settled. It is unknown after that.
	sendMargin = 45 * time.Second

	// A limit that denies an attempt is asked again after at most denialWait, without giving the
	// attempt back, if that would cost another wait for Redis of costlyWait or more.
	costlyWait = 100 * time.Millisecond
	denialWait = 2 * time.Second

	sendRetry    = time.Second // before the second attempt, doubled each time
	sendRetryMax = 5 * time.Minute
	sendGiveUp   = 24 * time.Hour // after which a send without an expiry is not tried again

	fleetingFor = 10 * time.Second // from when a fleeting send is queued until it is too late for it

	// fileTime is how much longer the attempt of a send with a file may last. One in filePart of the
	// places for calls, and at least one more, are for such sends, and no others.
	fileTime      = 5 * time.Minute
	filePart      = 8
	filePause     = 10 * time.Second // the longest wait for such a place
	codeFileStore = "file_store"

	codeLate = "late"
	textLate = "it is sent at once or not at all"
)

// sends attempts queued sends of the kinds that this replica checks, and whose checkers are
// Senders. Calls have places of their own, so a check never waits for a send. An attempt that waits
// for Redis' disk and replicas has none: see ahead.
//
// It does not poll: a queued send wakes it. A replica looks with one round trip to each node at
// whether any shard has sends, every Config.IdleInterval and after each subscription, in case that
// a wake-up was lost.
type sends struct {
	*replica
	outbox   circulate.Sends
	ring     *circulate.Ring
	checkers Checkers
	kinds    []string // that can send
	limiter  *limiter
	troubles *troubles // of checks
	syncer   *circulate.Syncer
	tokens   TokenSealer // nil: tokens are stored as they are
	files    SendFiles   // nil: this replica cannot read the files of sends

	times      *timetable
	places     *places // of calls
	filePlaces *places // of calls with a file
	ahead      *ahead  // of attempts before and after their calls
	crew       *crew[*sending]
	settler    *settler
	traces     *traces
	subscribed atomic.Bool    // wake-ups reach this replica
	missed     signal         // has a value when wake-ups may have been missed
	doubted    signal         // has a value when an attempt has become unknown here
	abandoned  atomic.Int64   // attempts whose senders hang
	batches    sync.WaitGroup // goroutines that prepare attempts
	aside      sync.WaitGroup // goroutines that withdraw attempts or nudge accounts, which end with writes

	calls    context.Context // done after the grace period
	endCalls context.CancelFunc
	writes   context.Context // done when the last writes must end

	quiet chan struct{} // closed when no call is under way any more, or all that are have been given up

	mu      sync.Mutex
	running map[*sending]struct{} // attempts whose settlement is not written
	empty   signal                // has a value after the last one was removed
}

func newSends(r *replica, ring *circulate.Ring, checkers Checkers, l *limiter, syncer *circulate.Syncer, tokens TokenSealer, files SendFiles) *sends {
	s := &sends{
		replica: r, outbox: ring.Sends(), ring: ring, checkers: checkers, kinds: checkers.senders(), limiter: l, syncer: syncer, tokens: tokens, files: files,
		times: newTimetable(ring.Shards(), never), places: newPlaces(r.config.Sends), filePlaces: newPlaces(max(1, r.config.Sends/filePart)), missed: newSignal(), doubted: newSignal(),
		running: make(map[*sending]struct{}), empty: newSignal(), quiet: make(chan struct{}),
	}
	r.sendTimes = s.times
	s.ahead = newAhead(s.places, r.config.SendsAhead)
	s.traces = newTraces(s)
	s.settler = &settler{sends: s, kick: newSignal()}
	s.crew = newCrew(sendBatch, func() crewWorker[*sending] { return sendWorker{newBox(s.calls)} })
	return s
}

// sendWorker makes attempts, one after the other.
type sendWorker struct{ box *box }

// Do makes an attempt.
func (w sendWorker) Do(a *sending) { a.run(w.box) }

// Close ends the use of the worker's box.
func (w sendWorker) Close() { w.box.Close() }

// run attempts sends until ctx is done. Then attempts that have not begun are given back, those
// under way have the grace period to end, and those that have not ended by then are unknown. Run
// returns when all of them are settled, or writes is done.
func (s *sends) run(ctx, writes context.Context, hurry <-chan struct{}) {
	if len(s.kinds) == 0 {
		close(s.quiet)
		return
	}
	s.writes = writes
	s.calls, s.endCalls = context.WithCancel(context.WithoutCancel(ctx))
	defer s.endCalls()
	defer s.crew.Close()
	settled, endSettling := context.WithCancel(context.Background())
	var looking, settling sync.WaitGroup
	for range settlers {
		settling.Go(func() { s.settler.run(settled) })
	}
	for range sendLoops {
		looking.Go(func() { s.loop(ctx) })
	}
	looking.Go(func() { s.lookOn(ctx) })
	looking.Go(func() { s.reviveOn(ctx) })
	looking.Wait()
	s.batches.Wait()
	if !s.drained(s.config.GracePeriod, hurry) {
		s.log.Info("grace period over: ending sends", "running", len(s.all()))
		s.endCalls()
		s.drained(abandonAfter, nil)
		for _, a := range s.all() {
			a.settle(circulate.Settlement{Outcome: circulate.AttemptUnknown, Code: "shutdown", Text: "the replica stopped before the call had ended"})
		}
	}
	close(s.quiet)
	for len(s.all()) > 0 { // their settlements end with writes
		<-s.empty
	}
	s.aside.Wait()
	endSettling()
	settling.Wait()
}

// wake notes that a send may be attempted in a shard.
func (s *sends) wake(shard int, chance float64) {
	s.times.bring(shard, time.Now().Add(s.times.patience(shard, chance)))
}

// heard notes whether wake-ups reach this replica. Some may have been missed before.
func (s *sends) heard(subscribed bool) {
	s.subscribed.Store(subscribed)
	s.missed.give()
}

// lookOn finds sends of which no wake-up has told, until ctx is done.
func (s *sends) lookOn(ctx context.Context) {
	for {
		shards, err := s.outbox.Due(ctx)
		if err != nil {
			s.log.Debug("could not look for sends", "error", err)
		}
		for _, shard := range shards {
			s.wake(shard, 0.5)
		}
		timer := time.NewTimer(s.config.idle(s.subscribed.Load()))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.missed:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// loop attempts sends of one shard after another, until ctx is done.
func (s *sends) loop(ctx context.Context) {
	failures := 0
	for {
		shard, ok := s.awaitShard(ctx)
		if !ok {
			return
		}
		n := s.ahead.take(ctx, sendBatch)
		if n == 0 {
			return
		}
		next, err := s.attempt(ctx, shard, n)
		if err == nil {
			failures = 0
			s.times.put(shard, next)
			continue
		}
		s.metrics.redisErrors.WithLabelValues("attempt").Inc()
		s.log.Debug("sends were not attempted", "shard", shard, "error", err)
		pause := min(claimRetryMax, claimRetry<<min(failures, 6))
		failures++
		s.times.put(shard, time.Now().Add(pause))
		if circulate.Unavailable(err) && s.ring.Node(shard) == "" && !sleep(ctx, pause) {
			return
		}
	}
}

// awaitShard waits until a shard is due for a look.
func (s *sends) awaitShard(ctx context.Context) (int, bool) {
	for ctx.Err() == nil {
		if s.abandoned.Load() >= int64(max(s.config.Sends, leastAbandoned)) {
			sleep(ctx, hangingPause)
			continue
		}
		if shard, ok := s.times.await(ctx, s.config.IdleInterval); ok {
			return shard, true
		}
	}
	return 0, false
}

// attempt takes up to n sends of a shard, for which there is room ahead, and begins them. It
// returns when to look at the shard next.
func (s *sends) attempt(ctx context.Context, shard, n int) (next time.Time, err error) {
	order := circulate.AttemptOrder{Replica: s.config.Replica, Step: rand.Text(), Kinds: s.kinds, Most: n, Lasts: s.config.SendTimeout + sendMargin, WithFile: s.longest()}
	taken, due, err := s.outbox.Attempt(s.writes, shard, order)
	received := time.Now()
	s.ahead.leave(n-len(taken), 0)
	switch {
	case err != nil:
		s.aside.Go(func() { s.withdraw(shard, order.Step) })
		return time.Time{}, err
	case len(taken) == n:
		next = received
	case due.IsZero():
		next = never
	case s.clocks.last.Load() == nil:
		next = received.Add(time.Second) // Redis' clock is not known yet
	default:
		// Redis truncates its time to milliseconds.
		next = s.clocks.local(due).Add(time.Millisecond + s.times.patience(shard, 0.5))
	}
	if len(taken) == 0 {
		return next, nil
	}
	all := make([]*sending, len(taken))
	for i := range taken {
		all[i] = &sending{sends: s, attempt: &taken[i], received: received}
	}
	s.add(all)
	s.batches.Go(func() { s.begin(ctx, shard, taken, all) })
	return next, nil
}

// longest returns how long an attempt with a file may last.
func (s *sends) longest() time.Duration { return s.config.SendTimeout + sendMargin + fileTime }

// withdraw queues again what a failed step of Attempt may have taken, of which nothing was sent.
// It tries until the step is withdrawn, or until what it took is unknown.
func (s *sends) withdraw(shard int, step string) {
	until := time.Now().Add(s.longest())
	for try := 0; time.Now().Before(until); try++ {
		if _, err := s.outbox.Withdraw(s.writes, shard, s.config.Replica, step); err == nil {
			return
		}
		if !sleep(s.writes, min(commitRetryMax, commitRetry<<min(try, 6))) {
			return
		}
	}
}

// begin waits until attempts of a shard are on Redis' disk and replicas, as far as the config says,
// and then makes their calls. Many attempts share a wait; see circulate.Syncer.
func (s *sends) begin(ctx context.Context, shard int, taken []circulate.Attempt, all []*sending) {
	began := time.Now()
	held, _, err := s.syncer.Attempts(s.writes, shard, taken)
	if err != nil {
		s.metrics.redisErrors.WithLabelValues("sync").Inc()
		for _, a := range all {
			a.putOff("redis_not_synced", "Redis did not say that it has the attempt on its disk and replicas", a.now().Add(syncRetry))
		}
		return
	}
	waited, rest := time.Since(began), all[:0:len(all)]
	for i, a := range all {
		if a.waited = waited; !held[i] {
			a.putOff("fenced", "another party ended the attempt before its call", a.now().Add(syncRetry))
			continue
		}
		rest = append(rest, a)
	}
	plain, withFile := s.readable(rest)
	s.call(ctx, withFile) // it does not wait
	s.call(ctx, plain)
}

// call makes the calls of attempts as soon as there are places for them, and gives those back that
// find none in time. What bounds calls is asked at that moment. Either all of the attempts have files,
// or none has.
func (s *sends) call(ctx context.Context, all []*sending) {
	for len(all) > 0 {
		places, n := s.takePlaces(ctx, all)
		if n == 0 {
			for _, a := range all {
				a.leave(ctx)
			}
			return
		}
		some, waited := all[:n:n], all[0].waited
		if all = all[n:]; !some[0].promised.IsZero() {
			waited = 0 // it has been counted
		}
		s.ahead.leave(n, waited)
		for _, a := range some {
			a.place = places
		}
		for _, a := range s.withinLimits(ctx, s.passable(ctx, s.timely(some))) {
			if a.late(ctx) {
				a.finish()
				a.leave(ctx)
				continue
			}
			s.crew.Do(a)
		}
	}
}

// takePlaces takes places for the calls of attempts. It waits for one only if they have no files: a
// place of a file may be taken for minutes, and meanwhile no attempt without a file would be noted.
func (s *sends) takePlaces(ctx context.Context, all []*sending) (from *places, n int) {
	switch first := all[0]; {
	case first.late(ctx):
		return nil, 0
	case first.carries:
		return s.filePlaces, s.filePlaces.tryTake(len(all))
	default:
		within, cancel := context.WithDeadline(ctx, first.received.Add(sendBegin))
		defer cancel()
		return s.places, s.places.take(within, len(all))
	}
}

// late reports whether the attempt must not begin any more.
func (a *sending) late(ctx context.Context) bool {
	return ctx.Err() != nil || time.Since(a.received) >= sendBegin
}

// leave gives back an attempt that is late.
func (a *sending) leave(ctx context.Context) {
	if ctx.Err() != nil {
		a.putOff(a.attempt.Code, a.attempt.Text, time.Time{})
		return
	}
	pause := unansweredPause
	if a.carries {
		pause = filePause
	}
	a.putOff("no_place", "the replica had no place for the call in time", a.now().Add(upTo(pause)))
}

// finish ends what the attempt holds of its limits.
func (a *sending) finish() {
	if a.limits != (limitsOfCheck{}) {
		a.sends.limiter.finish(a.limits, a.asks.checkID)
	}
}

// readable returns the attempts whose accounts this replica can send for, those with a file apart.
func (s *sends) readable(all []*sending) (plain, withFile []*sending) {
	for _, a := range all {
		account, unknown, err := accounts.ReadStored(a.attempt.Record)
		a.account, a.sender = account, s.checkers.Sender(account.Kind)
		switch {
		case err != nil:
			a.settle(circulate.Settlement{Outcome: circulate.AttemptRejected, Code: "record", Text: "the account's record cannot be read"})
		case account.Kind != a.attempt.Kind:
			a.settle(circulate.Settlement{Outcome: circulate.AttemptRejected, Code: "kind", Text: fmt.Sprintf("the account is now of kind %q", account.Kind)})
		case len(unknown) > 0 || a.sender == nil:
			a.putOff(reasonField, "this version does not know all of the account's record", a.now().Add(upTo(unknownPause)))
		default:
			a.egress = egressOf(&a.account)
			a.way, _ = s.config.Ways.Choose(&a.egress) // if it names a way that there is not, its call fails
			sending := answer("Sending", a.sender.Sending, account.Config, nil)
			a.fleeting, a.carries = slices.Contains(sending.Fleeting, a.attempt.Type), slices.Contains(sending.Files, a.attempt.Type)
			if a.carries {
				withFile = append(withFile, a)
			} else {
				plain = append(plain, a)
			}
		}
	}
	return plain, withFile
}

// timely returns the attempts for which it is not too late.
func (s *sends) timely(all []*sending) []*sending {
	rest := all[:0:len(all)]
	for _, a := range all {
		switch {
		case !a.attempt.Expires.IsZero() && !a.now().Before(a.attempt.Expires):
			a.putOff(a.attempt.Code, a.attempt.Text, time.Time{}) // the next look at it ends it
		case a.fleeting && (a.attempt.Attempts > 1 || a.now().After(a.attempt.Queued.Add(fleetingFor))):
			a.settle(circulate.Settlement{Outcome: circulate.AttemptRejected, Code: codeLate, Text: textLate})
		default:
			rest = append(rest, a)
		}
	}
	return rest
}

// passable returns the attempts whose way lets them start. While a way is down or pauses, by what checks
// and sends saw, sends wait as checks do, and one of them may be the probe.
func (s *sends) passable(ctx context.Context, all []*sending) []*sending {
	t := s.troubles
	if !t.active.Load() {
		return all
	}
	by := make([]sharer, len(all))
	for i, a := range all {
		if len(a.probes) == 0 { // otherwise it has come back from its limits
			by[i] = a
		}
	}
	rest := all[:0:len(all)]
	for i, pass := range t.passes(ctx, by) {
		a := all[i]
		if pass.wait != nil {
			a.waitAt(pass.wait)
			continue
		}
		if by[i] != nil {
			a.probes = pass.probes
		}
		rest = append(rest, a)
	}
	return rest
}

// waitAt puts the attempt off while its way is in trouble. A send that has waited for a day is given up,
// as one that was tried all day is.
func (a *sending) waitAt(of *limit.Trouble) {
	now, text := a.now(), "the way "+a.way+" is down"
	if of.Paused {
		text = "the way " + a.way + " has asked for a pause"
	}
	if of.Cause != "" {
		text += " (" + of.Cause + ")"
	}
	wait := a.sends.troubles.until(of, a.attempt.Code == accounts.RuleDown, troubleSpread)
	after := now.Add(max(wait, min(troubleWaitSend, now.Sub(a.attempt.Queued)/troubleShare)))
	if a.givenUp(after) {
		a.settle(circulate.Settlement{Outcome: circulate.AttemptRejected, Code: accounts.RuleDown, Text: afterADay + text})
		return
	}
	a.putOff(accounts.RuleDown, text+"; it waits for a probe", after)
}

// shared implements sharer. A send may go to another host than the checks of its account, so it shares
// only its way.
func (*sending) shared() string { return "" }

// reaches implements sharer.
func (*sending) reaches() string { return "" }

// leaves implements sharer.
func (a *sending) leaves() string { return wayName(a.way) }

// saw notes what the end of the call says about its way; nil: the send was accepted. A failure of the
// account says nothing: a kind may refuse a send before it calls.
func (a *sending) saw(failed *CheckError) {
	switch t := a.sends.troubles; {
	case a.way == "":
	case failed == nil:
		t.succeeded(a)
	case failed.Scope == ScopeWay, failed.Scope == ScopeRateKey:
		t.failed(a, failed, a.probes)
	}
}

// withinLimits returns the attempts whose limits let them start. They are the limits of checks.
func (s *sends) withinLimits(ctx context.Context, all []*sending) []*sending {
	limits := s.limiter.limits.Load()
	var asking []*candidate
	for _, a := range all {
		key := answer("RateKey", a.sender.RateKey, a.account.Config, nil)
		if a.limits = limits.of(a.account.Kind, key, a.way); a.limits == (limitsOfCheck{}) {
			continue
		}
		a.asks = &candidate{kind: a.account.Kind, limits: a.limits, checkID: "send-" + a.attempt.Fence + a.attempt.ID}
		if a.asks.promised = a.promised; a.promised.IsZero() && a.attempt.Code == accounts.RuleLimit {
			a.asks.promised = a.attempt.NotBefore
		}
		asking = append(asking, a.asks)
	}
	if len(asking) == 0 {
		return all
	}
	s.limiter.ask(s.writes, asking)
	rest := all[:0:len(all)]
	for _, a := range all {
		switch c := a.asks; {
		case c == nil || c.admitted():
			rest = append(rest, a)
		case c.err != nil:
			a.limits = limitsOfCheck{} // ask has ended the leases
			a.putOff("limit_unanswered", "the account's limits did not answer", a.now().Add(upTo(unansweredPause)))
		default:
			a.limits = limitsOfCheck{}
			if wait := c.until.Sub(a.now()); a.waited >= costlyWait && wait <= denialWait && time.Since(a.received)+wait < sendBegin {
				s.comeBack(ctx, a, c.until, wait)
				continue
			}
			a.putOff(accounts.RuleLimit, "the limit "+c.by+" denied it", c.until)
		}
	}
	return rest
}

// comeBack has an attempt ask its limits again at a time that they have promised. Until then it has
// no place.
func (s *sends) comeBack(ctx context.Context, a *sending, promised time.Time, wait time.Duration) {
	a.promised = promised
	a.leavePlace()
	s.batches.Go(func() {
		sleep(ctx, wait)
		s.call(ctx, []*sending{a})
	})
}

// leavePlace frees the attempt's place, if it has one.
func (a *sending) leavePlace() {
	if a.place == nil {
		return
	}
	a.sends.ahead.back()
	a.place.give(1)
	a.place = nil
}

// add notes attempts that are to be settled.
func (s *sends) add(all []*sending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range all {
		s.running[a] = struct{}{}
	}
}

// all returns the attempts whose settlement is not written.
func (s *sends) all() (all []*sending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.running {
		all = append(all, a)
	}
	return all
}

// remove notes that an attempt is settled, and makes room for others.
func (s *sends) remove(a *sending) {
	s.mu.Lock()
	delete(s.running, a)
	none := len(s.running) == 0
	s.mu.Unlock()
	s.ahead.leave(1, 0)
	if none {
		s.empty.give()
	}
}

// drained waits until every attempt is settled, until d has passed, or until hurry is closed.
func (s *sends) drained(d time.Duration, hurry <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for len(s.all()) > 0 {
		select {
		case <-timer.C:
			return len(s.all()) == 0
		case <-hurry:
			return len(s.all()) == 0
		case <-s.empty:
		}
	}
	return true
}

// sending is one attempt of a send.
type sending struct {
	sends    *sends
	attempt  *circulate.Attempt
	account  accounts.Account
	sender   Sender
	egress   egress.Account
	way      string   // by which its call goes; empty: by none that has a name
	probes   []string // its way is in trouble, and it tries that: keys of limit.TroubleKey
	limits   limitsOfCheck
	fleeting bool
	carries  bool          // its type is a file
	asks     *candidate    // nil: it has no limits
	received time.Time     // our clock when it was taken
	waited   time.Duration // for Redis' disk and replicas
	promised time.Time     // when its limits let it ask again; zero: they have not denied it
	place    *places       // where it has a place for its call; nil: it has none

	secrets conceal.Secrets
	settled atomic.Bool
	hangs   atomic.Bool // it is abandoned
}

// now returns the time by Redis' clock.
func (a *sending) now() time.Time { return a.attempt.Since.Add(time.Since(a.received)) }

// run makes the call and settles the attempt.
func (a *sending) run(box *box) {
	s := a.sends
	defer a.finish()
	token := a.attempt.Token
	if s.tokens != nil && token != "" {
		opened, err := s.tokens.OpenToken(a.attempt.Account, token)
		if err != nil {
			a.putOff("token", "this replica cannot open the token of the peer's window: "+err.Error(), a.now().Add(upTo(unknownPause)))
			return
		}
		token = opened
	}
	var file *SendFile
	if a.carries {
		var ok bool
		if file, ok = a.file(); !ok {
			return
		}
	}
	if s.calls.Err() != nil {
		a.putOff(a.attempt.Code, a.attempt.Text, time.Time{})
		return
	}
	began, recorded := time.Now(), a.record()
	outcome := circulate.Settlement{Outcome: circulate.AttemptUnknown, Code: codePanic, Text: panics.Ended}
	defer func() { // also if the goroutine ends
		s.metrics.sendSeconds.WithLabelValues(a.account.Kind).Observe(time.Since(began).Seconds())
		endAttempt(recorded, outcome.Outcome)
		a.settle(outcome)
		if a.hangs.Load() {
			s.abandoned.Add(-1)
		}
	}()
	timeout := s.config.SendTimeout
	if a.carries {
		timeout += fileTime
	}
	ctx := box.Begin(callLimits{Timeout: timeout, Grace: abandonAfter, Overrun: a, Secrets: &a.secrets, Egress: &a.egress, Span: recorded}, sendKey{}, nil)
	defer box.End(ctx)
	sent, err := a.call(ctx, token, file)
	outcome = a.judge(sent, err)
}

// file returns the send's file. Without it, the attempt is settled.
func (a *sending) file() (*SendFile, bool) {
	s := a.sends
	if s.files == nil {
		a.putOff(codeFileStore, "this replica has no store of files: set ROUNDS_FILES as the API's process has it", a.now().Add(upTo(unknownPause)))
		return nil, false
	}
	within, cancel := context.WithDeadline(s.calls, a.received.Add(sendBegin))
	defer cancel()
	file, err := s.files.FileOf(within, a.attempt.Account, a.attempt.ID)
	if err == nil {
		err = within.Err() // it came too late for the call
	}
	switch {
	case errors.Is(err, ErrNoSendFile):
		a.settle(circulate.Settlement{Outcome: circulate.AttemptRejected, Code: "file_gone", Text: "the send's file is gone: upload it again"})
	case err != nil:
		a.putOff(codeFileStore, "the store of files does not answer", a.now().Add(upTo(unansweredPause)))
		s.log.Debug("the file of a send was not found", "send", a.attempt.ID, "error", err)
	}
	return file, err == nil
}

// sendKey is the key under which a call's context holds nothing.
type sendKey struct{}

// call calls the sender. A panic is an unknown end.
func (a *sending) call(ctx context.Context, token string, file *SendFile) (sent Sent, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			a.sends.metrics.panics.WithLabelValues(a.account.Kind).Inc()
			a.sends.log.Error("a sender panicked", "kind", a.account.Kind, "account", a.account.ID, "panic", panics.Type(reason), "stack", string(debug.Stack()))
			err = &CheckError{Code: codePanic, Message: "the sender panicked"}
		}
	}()
	return a.sender.Send(ctx, SendRequest{
		Account: a.account.ID, Config: orEmpty(a.account.Config), ID: a.attempt.ID, Attempt: a.attempt.Attempts,
		Peer: a.attempt.Peer, Type: a.attempt.Type, Data: json.RawMessage(a.attempt.Data), File: file, Token: token,
	})
}

// judge says what the end of a call means for the send.
func (a *sending) judge(sent Sent, err error) (outcome circulate.Settlement) {
	defer func() {
		if recover() != nil { // the error's own methods have panicked
			outcome = circulate.Settlement{Outcome: circulate.AttemptUnknown, Code: codePanic, Text: "the sender's error panicked"}
		}
	}()
	if err == nil {
		a.saw(nil)
		return circulate.Settlement{Outcome: circulate.AttemptAccepted, VendorID: sent.VendorID, Code: a.secrets.Scrub(sent.Warning.Code), Text: a.secrets.Scrub(sent.Warning.Message)}
	}
	var e *SendError
	switch known := errors.As(err, &e); {
	case known && e == nil:
		return circulate.Settlement{Outcome: circulate.AttemptUnknown, Code: "nil_error", Text: "the sender returned a nil *SendError, which is not a nil error"}
	case !known:
		failed := Classify(err)
		a.saw(failed)
		return circulate.Settlement{Outcome: circulate.AttemptUnknown, Code: a.secrets.Scrub(failed.Code), Text: a.secrets.Scrub(failed.Message)}
	}
	a.saw(Classify(err))
	if e.Account && !a.settled.Load() {
		a.checkAccount()
	}
	outcome = circulate.Settlement{Outcome: circulate.AttemptRejected, Code: a.secrets.Scrub(e.Code), Text: a.secrets.Scrub(e.Message)}
	if e.Final {
		return outcome
	}
	outcome.After = a.now().Add(max(e.After, sendPause(a.attempt.Attempts)))
	switch {
	case a.givenUp(outcome.After):
		outcome.After, outcome.Text = time.Time{}, afterADay+outcome.Text
	case e.Unsent:
		outcome.Outcome = circulate.AttemptUnsent
	default:
		outcome.Outcome = circulate.AttemptAgain
	}
	return outcome
}

// afterADay begins the text of a send that is not tried again.
const afterADay = "given up after a day: "

// givenUp reports whether the send is given up rather than tried again at a time.
func (a *sending) givenUp(at time.Time) bool {
	return a.attempt.Expires.IsZero() && at.After(a.attempt.Queued.Add(sendGiveUp))
}

// sendPause returns the least time before another attempt, after so many.
func sendPause(attempts int) time.Duration {
	return upTo(min(sendRetryMax, sendRetry<<min(max(0, attempts-1), 16)))
}

// checkAccount has the account checked at once.
func (a *sending) checkAccount() {
	s, id := a.sends, a.account.ID
	s.aside.Go(func() {
		if err := s.ring.Account(id).Nudge(s.writes, circulate.Nudge{}); err != nil {
			s.log.Debug("an account was not nudged after a send", "account", id, "error", err)
		}
	})
}

// Overrun gives up a call that goes on after its context is done. How it ended is unknown, unless
// it still tells.
func (a *sending) Overrun() {
	a.sends.abandoned.Add(1)
	a.hangs.Store(true)
	a.sends.log.Warn("a send exceeded its time and was abandoned", "account", a.account.ID, "kind", a.account.Kind, "send", a.attempt.ID)
	a.settle(circulate.Settlement{Outcome: circulate.AttemptUnknown, Code: codeHung, Text: "the call went on after its time was over"})
}

// putOff gives back an attempt of which no byte has left. It counts as none.
func (a *sending) putOff(code, text string, until time.Time) {
	a.settle(circulate.Settlement{Outcome: circulate.AttemptNotBegun, Code: code, Text: text, After: until})
}

// settle settles the attempt, once. An attempt that another party has settled as unknown may still
// turn out to be accepted or rejected.
func (a *sending) settle(outcome circulate.Settlement) {
	s := a.sends
	outcome.ID, outcome.Fence = a.attempt.ID, a.attempt.Fence
	if a.fleeting && outcome.Outcome != circulate.AttemptAccepted && outcome.Outcome != circulate.AttemptNotBegun {
		outcome.Outcome, outcome.After = circulate.AttemptRejected, time.Time{}
	}
	if !a.settled.Swap(true) {
		a.leavePlace()
		s.settler.submit(settlement{outcome, a})
	} else if outcome.Outcome == circulate.AttemptAccepted || outcome.Outcome == circulate.AttemptRejected {
		s.settler.submit(settlement{outcome, nil})
	}
}
