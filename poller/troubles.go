package poller

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/limit"
	"github.com/rounds-dev/rounds/poller/egress"
)

const (
	// Checks with one rate key that fail one after the other, with no success in between, say that
	// what they share is down: a few of them over a while, or many at once. If every seventh check
	// fails, or every second, it is not down.
	rowFew   = 3
	rowMany  = 20
	rowLeast = time.Second // of the few
	rowMost  = time.Minute // a longer row begins anew: so rare checks say little about now
	rowsMost = 16384

	sharedMost = 3 // things that a call shares with others

	troublesRead = time.Second // between two looks at the troubles that replicas share, if there are any

	// troubleSpread is the time over which accounts that wait at a trouble become due together.
	troubleSpread = 5 * time.Second
	// troubleShare is the least part of its interval that an account waits at a trouble, up to
	// troubleWait: a million slow accounts must not ask every few seconds. A send has no interval, so it
	// is the part of the time that it has been waiting, up to troubleWaitSend.
	troubleShare    = 16
	troubleWait     = 15 * time.Minute
	troubleWaitSend = time.Minute
)

// troubles notice that what accounts share by their rate key, or by the way that their calls go, is
// down or asks for a pause, which all replicas share; see limit.Troubles. The accounts then wait, and
// one probe at a time goes out. So do sends at their way. Where there are ways, a host to which no
// connection is made is down for the accounts of that way alone: others may reach it.
// A replica looks at the troubles with each heartbeat, and once a second while checks fail here.
type troubles struct {
	shared limit.Troubles
	log    *slog.Logger
	errors prometheus.Counter
	kick   signal        // has a value when there is something to report
	idle   time.Duration // between two looks at the troubles while there is none
	active atomic.Bool   // there is a trouble, or a row
	full   atomic.Bool   // there are too many troubles: further ones are not known to others

	mu      sync.Mutex
	at      instant                      // of the last answer
	known   map[string]*limit.Trouble    // by limit.TroubleKey
	rows    map[string]*row              // likewise
	pending map[string]limit.TroubleStep // likewise, not yet reported
}

// row is checks that failed one after the other.
type row struct {
	began  time.Time
	checks int
	wait   time.Duration // the longest that a failure asked for
}

func newTroubles(ring *circulate.Ring, idle time.Duration, log *slog.Logger, m *Metrics) *troubles {
	return &troubles{
		shared: limit.TroublesOf(ring), log: log, errors: m.redisErrors.WithLabelValues("trouble"), kick: newSignal(), idle: idle,
		known: make(map[string]*limit.Trouble), rows: make(map[string]*row), pending: make(map[string]limit.TroubleStep),
	}
}

// sharer makes a call: an account by its check, or a send.
type sharer interface {
	// shared returns the name of what it shares with others, such as a host; empty: it shares nothing.
	shared() string
	// leaves returns the name of the way by which its calls go; empty: by none that has a name.
	leaves() string
	// reaches returns the name of what it shares, as its own way reaches it; see limit.Via. Another way may
	// reach it when this one does not. It is empty if the call shares nothing, or there are no ways.
	reaches() string
}

// shared implements sharer.
func (r *record) shared() string { return sharedName(r.account.Kind, r.rateKey) }

// leaves implements sharer.
func (r *record) leaves() string { return wayName(r.way) }

// reaches implements sharer.
func (r *record) reaches() string { return r.via }

func wayName(way string) string { return sharedName(egress.Target, way) }

func sharedName(kind, rateKey string) string {
	if rateKey == "" {
		return ""
	}
	return keyLimitName(kind, rateKey)
}

// answered reports whether a third party said something about an account, although its check failed.
func answered(err *CheckError) bool {
	return err.Scope == ScopeAccount && !err.Network && err.Code != codeHung && err.Code != codePanic && err.Code != codeTimeout
}

// succeeded notes that a third party answered a call.
func (t *troubles) succeeded(by sharer) {
	if !t.active.Load() {
		return
	}
	shared, way := by.shared(), by.leaves()
	if shared == "" && way == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.well(shared)
	t.well(way)
	t.well(by.reaches())
	t.note()
}

// well notes that a name is well.
func (t *troubles) well(name string) {
	if name == "" {
		return
	}
	key := limit.TroubleKey(name)
	delete(t.rows, key)
	if t.known[key] != nil {
		t.report(key, limit.TroubleStep{Name: name, What: limit.Well})
	}
}

// led reports whether a failure that is blamed on a host shows that the account's way led there. A
// proxy that says that it does not reach the host is well.
func led(err *CheckError) bool { return !err.Network || err.Code == "connect" || err.Code == "tls" }

// failed notes how a call failed, which was perhaps a probe of some keys. It reports whether what it
// shares with others is to blame, and its state keeps calls from it.
func (t *troubles) failed(by sharer, err *CheckError, probes []string) bool {
	if answered(err) {
		t.succeeded(by)
		return false
	}
	name := ""
	switch err.Scope {
	case ScopeRateKey:
		if name = by.shared(); err.Network && by.reaches() != "" {
			name = by.reaches()
		}
	case ScopeWay:
		name = by.leaves()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.note()
	if err.Scope == ScopeRateKey && led(err) {
		t.well(by.leaves())
	}
	if err.Scope == ScopeRateKey && !err.Network {
		t.well(by.reaches())
	}
	if name == "" {
		return false
	}
	key := limit.TroubleKey(name)
	switch {
	case err.Kind == RateLimited:
		wait := err.RetryAfter
		if wait <= 0 {
			wait = cadence.ThrottlePause
		}
		if of := t.known[key]; of == nil || of.Next.Before(t.now().Add(min(wait, limit.MaxPause)-time.Second)) {
			t.report(key, limit.TroubleStep{Name: name, What: limit.Paused, Wait: wait, Cause: err.Code})
			t.known[key] = t.sketch(name, err.Code, wait, true)
		}
	case t.known[key] != nil:
		if slices.Contains(probes, key) || err.RetryAfter > 0 && t.known[key].Next.Before(t.now().Add(min(err.RetryAfter, limit.MaxPause)-time.Second)) {
			t.report(key, limit.TroubleStep{Name: name, What: limit.Failed, Wait: err.RetryAfter, Cause: err.Code})
		}
	case t.lengthen(key, err.RetryAfter):
		t.report(key, limit.TroubleStep{Name: name, What: limit.Failed, Wait: t.rows[key].wait, Cause: err.Code})
		t.known[key] = t.sketch(name, err.Code, t.rows[key].wait, false)
	}
	return !t.full.Load()
}

// lengthen adds a failure to a row, and reports whether the row says that the name is down.
func (t *troubles) lengthen(key string, wait time.Duration) bool {
	now, r := time.Now(), t.rows[key]
	if r == nil || now.Sub(r.began) > rowMost {
		if len(t.rows) >= rowsMost {
			clear(t.rows) // they are soon there again
		}
		r = &row{began: now}
		t.rows[key] = r
		t.kick.give() // others may know more
	}
	r.checks++
	r.wait = max(r.wait, wait)
	return r.checks >= rowMany || r.checks >= rowFew && now.Sub(r.began) >= rowLeast
}

// sketch returns a trouble as it is until the report is answered.
func (t *troubles) sketch(name, cause string, wait time.Duration, paused bool) *limit.Trouble {
	now := t.now()
	return &limit.Trouble{Name: name, Cause: cause, Paused: paused, Since: now, Next: now.Add(max(wait, 2*time.Second))}
}

// report has a step done soon. A later step of a name takes the place of an earlier one.
func (t *troubles) report(key string, s limit.TroubleStep) {
	t.pending[key] = s
	t.kick.give()
}

// note notes whether successes matter.
func (t *troubles) note() { t.active.Store(len(t.known)+len(t.rows) > 0) }

// now returns the time by Redis' clock, from the last answer.
func (t *troubles) now() time.Time {
	if t.at.local.IsZero() {
		return time.Now()
	}
	return t.at.server.Add(time.Since(t.at.local))
}

// run reports what checks saw, and reads what other replicas saw, until ctx is done.
func (t *troubles) run(ctx context.Context) {
	for ctx.Err() == nil {
		t.read(ctx)
		for read := time.Now(); ctx.Err() == nil && time.Since(read) < t.apart(); {
			timer := time.NewTimer(t.apart() - time.Since(read))
			select {
			case <-ctx.Done():
			case <-timer.C:
			case <-t.kick:
				if !t.send(ctx) {
					sleep(ctx, troublesRead)
					t.kick.give()
				}
			}
			timer.Stop()
		}
	}
}

// apart returns the time between two looks.
func (t *troubles) apart() time.Duration {
	if t.active.Load() {
		return troublesRead
	}
	return t.idle
}

// send does the pending steps, and reports whether none is left.
func (t *troubles) send(ctx context.Context) bool {
	for {
		var steps []limit.TroubleStep
		t.mu.Lock()
		for key, s := range t.pending {
			if len(steps) < circulate.MaxBatch {
				steps = append(steps, s)
				delete(t.pending, key)
			}
		}
		t.mu.Unlock()
		if len(steps) == 0 {
			return true
		}
		if _, err := t.do(ctx, steps); err != nil {
			t.mu.Lock()
			for _, s := range steps {
				if key := limit.TroubleKey(s.Name); t.pending[key].Name == "" && worthwhile(err) {
					t.pending[key] = s // repeating is safe
				}
			}
			t.mu.Unlock()
			return false
		}
	}
}

// do does steps, and notes their answers.
func (t *troubles) do(ctx context.Context, steps []limit.TroubleStep) ([]limit.TroubleAnswer, error) {
	answers, now, err := t.shared.Do(ctx, steps)
	if err != nil {
		t.errors.Inc()
		t.log.Debug("the state of hosts was not reported", "names", len(steps), "error", err)
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = instant{now, time.Now()}
	for i, a := range answers {
		key := limit.TroubleKey(steps[i].Name)
		switch {
		case a.Trouble != nil:
			t.known[key] = a.Trouble
		default:
			if steps[i].What == limit.Failed || steps[i].What == limit.Paused {
				t.full.Store(true)
			}
			delete(t.known, key)
			delete(t.rows, key)
		}
	}
	t.note()
	return answers, nil
}

// read reads the troubles that replicas share.
func (t *troubles) read(ctx context.Context) {
	all, now, err := t.shared.All(ctx)
	if err != nil {
		if ctx.Err() == nil {
			t.errors.Inc()
			t.log.Debug("the state of hosts was not read", "error", err)
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.known {
		_, newer := t.pending[key] // what was seen here meanwhile
		if all[key] == nil && !newer {
			delete(t.known, key) // it is well again
			delete(t.rows, key)
		}
	}
	for key, one := range all {
		if _, newer := t.pending[key]; !newer {
			t.known[key] = one
		}
	}
	for key, r := range t.rows {
		if t.known[key] == nil && time.Since(r.began) > rowMost {
			delete(t.rows, key)
		}
	}
	if len(all) > 0 {
		t.at = instant{now, time.Now()}
	}
	t.full.Store(len(all) >= limit.MostTroubles)
	t.note()
}

// waiting returns the trouble that a check with a key has to wait for, or nil. If a probe may be
// asked for, it says so.
func (t *troubles) waiting(key string) (of *limit.Trouble, ask bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of = t.known[key]; of == nil {
		return nil, false
	}
	now := t.now()
	return of, !of.Next.After(now) && !of.Probing.After(now)
}

// pass is the leave of a call to start.
type pass struct {
	wait   *limit.Trouble // what it has to wait for; nil: it may start
	probes []string       // what is in trouble, and it tries that: keys of limit.TroubleKey
}

// passes returns which calls may start. A call has to wait while what it shares is down or pauses,
// except for one probe at a time. If several things that it shares are in trouble, such as its host and
// its way, it is a probe of all, and only if no other is under way. A nil sharer shares nothing.
func (t *troubles) passes(ctx context.Context, all []sharer) []pass {
	passes := make([]pass, len(all))
	waits := make([][]string, len(all)) // by index: what is in trouble
	ready := make([]bool, len(all))     // likewise: a probe of all that may be asked for
	for i, by := range all {
		if by != nil {
			waits[i], ready[i] = t.ailing(by)
		}
	}
	var steps []limit.TroubleStep
	asked := make(map[string]int) // name -> index in steps
	probing := make([]bool, len(all))
	for n := range sharedMost {
		for i, names := range waits {
			if len(names) != n+1 || !ready[i] || slices.ContainsFunc(names, func(name string) bool { _, ok := asked[name]; return ok }) {
				continue
			}
			probing[i] = true
			for _, name := range names {
				asked[name] = len(steps)
				steps = append(steps, limit.TroubleStep{Name: name, What: limit.Probe})
			}
		}
	}
	var answers []limit.TroubleAnswer
	if len(steps) > 0 {
		answers, _ = t.do(ctx, steps)
	}
	for i := range all {
		for _, name := range waits[i] {
			now, _ := t.waiting(limit.TroubleKey(name))
			switch {
			case now == nil:
			case probing[i] && answers != nil && answers[asked[name]].Granted:
				passes[i].probes = append(passes[i].probes, limit.TroubleKey(name))
			case passes[i].wait == nil || now.Next.After(passes[i].wait.Next):
				passes[i].wait = now
			}
		}
	}
	return passes
}

// untroubled returns the flights whose checks may start. It puts off the others.
func (fs *flights) untroubled(ctx context.Context, claimed []*flight) []*flight {
	if !fs.troubles.active.Load() {
		return claimed
	}
	all := make([]sharer, len(claimed))
	for i, f := range claimed {
		if f.record.fault == "" {
			all[i] = f.record
		}
	}
	admitted := claimed[:0:len(claimed)]
	for i, pass := range fs.troubles.passes(ctx, all) {
		f := claimed[i]
		f.probes = pass.probes
		if pass.wait != nil {
			f.turnAway(accounts.RuleDown, f.afterTrouble(pass.wait))
			continue
		}
		admitted = append(admitted, f)
	}
	return admitted
}

// ailing returns what of the things that a call shares is in trouble, and whether a probe of each
// may be asked for.
func (t *troubles) ailing(by sharer) (names []string, ask bool) {
	ask = true
	for _, name := range [sharedMost]string{by.leaves(), by.shared(), by.reaches()} {
		if name == "" {
			continue
		}
		of, may := t.waiting(limit.TroubleKey(name))
		if of == nil {
			continue
		}
		names, ask = append(names, name), ask && may
	}
	return names, ask
}

// until returns how long a call that waits at a trouble waits: until shortly after the next probe, the
// longest waiting first, or while a probe is under way a moment. Calls come back spread over a time.
func (t *troubles) until(of *limit.Trouble, waited bool, spread time.Duration) time.Duration {
	t.mu.Lock()
	wait := of.Next.Sub(t.now())
	t.mu.Unlock()
	switch {
	case wait <= 0:
		return upTo(spread)
	case waited:
		return wait + rand.N(spread/2)
	}
	return wait + upTo(spread)
}

// afterTrouble returns when an account that waits at a trouble comes back.
func (f *flight) afterTrouble(of *limit.Trouble) time.Time {
	fs := f.flights
	waited := f.claim.Rule == fs.codes.Rule(accounts.RuleDown)
	wait := fs.troubles.until(of, waited, min(troubleSpread, f.record.cadence.FirstPause(f.memory.Cadence)))
	return f.now().Add(max(wait, min(troubleWait, f.record.cadence.Current(f.memory.Cadence)/troubleShare)))
}
