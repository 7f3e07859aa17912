package poller

import (
	"bytes"
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	heldRate     = 3000             // calls a second that a replica begins after a claim or a cut connection
	heldBegins   = 256              // calls at once that have not reached their third party
	heldBeginsIn = 2 * time.Second  // after which a call counts as having reached it
	heldPause    = 10 * time.Second // the least wait after a call while accounts find no place
	heldCrowded  = time.Minute      // how long no account stays after one found no place
	holdingEvery = time.Second / 2  // between two calls of Options.Holding
	heldLook     = 3 * time.Second  // between two checks that held accounts are still this replica's
	secretPause  = 4 * time.Second  // longer than processes remember a secret's value
)

const (
	heldWave      = 64                    // held calls that end at once at shutdown
	heldChunk     = 32                    // of these, in the same shard
	heldStops     = 400                   // calls ended in a second, if the grace period allows that: the other replicas must connect as often
	heldStopShare = 0.7                   // the share of the grace period in which all calls end
	heldRecent    = 1024                  // the last released accounts, in whose shards a wave looks for waiting ones
	heldBacklog   = 64                    // of them may wait while the next wave ends
	heldWavePause = 50 * time.Millisecond // between two looks
	heldLinger    = 5 * time.Millisecond  // how long an ended call waits for others, to be released together

	// heldQueue is how many held calls may wait to begin before a replica claims further accounts only
	// a few at a time, at a pace. The accounts that it leaves in the queue show the stopping replica
	// how far the others are.
	heldQueue = 64
	heldClaim = 32                   // accounts of a claim
	heldEach  = 8 * time.Millisecond // after it, for each held one
)

// heldChecks are the held checks of a replica: the flights, and their places, which other checks
// cannot take.
type heldChecks struct {
	*replica
	ring    *circulate.Ring
	writer  *writer
	places  *places
	running *running
	gate    *gate
	begins  *places      // for calls that begin
	queued  atomic.Int64 // calls that wait for such a place
	turned  atomic.Int64 // when an account last found no place, unix ns
	turns   turns
}

func newHeldChecks(r *replica, ring *circulate.Ring, w *writer) *heldChecks {
	return &heldChecks{replica: r, ring: ring, writer: w, places: newPlaces(r.config.HeldChecks), running: newRunning(), gate: newGate(heldRate), begins: newPlaces(heldBegins)}
}

// crowded reports whether an account found no place a short while ago. Accounts then go back to the
// queue after each call, so that each has its turn.
func (h *heldChecks) crowded(now time.Time) bool {
	return now.UnixNano()-h.turned.Load() < int64(heldCrowded)
}

// placed returns the flights that are not held or may not be, and the held ones that get a place. It
// puts the others off for a while.
func (fs *flights) placed(claimed []*flight) []*flight {
	rest := claimed[:0:len(claimed)]
	for _, f := range claimed {
		if f.record.hold == 0 || f.record.fault != "" || f.record.unknown != "" {
			rest = append(rest, f)
			continue
		}
		if f.refused() {
			f.poll(f.whyRefused())
			rest = append(rest, f)
			continue
		}
		if fs.held.places.tryTake(1) == 0 {
			fs.held.turned.Store(time.Now().UnixNano())
			f.putOff("held_full", f.now().Add(fs.held.turns.pause(f.waited(), rand.Float64())))
			continue
		}
		if fs.held.crowded(time.Now()) {
			fs.held.turns.took(f.waited())
		}
		f.hold = newHold(fs.checks, f)
		rest = append(rest, f)
	}
	return rest
}

// behind reports whether many held calls wait to begin.
func (h *heldChecks) behind() bool { return h.queued.Load() > heldQueue }

// pace waits after a claim that brought held accounts, while other held calls still wait to begin.
func (h *heldChecks) pace(ctx context.Context, held int) {
	for end := time.Now().Add(time.Duration(min(held, 2*heldClaim)) * heldEach); h.behind() && time.Now().Before(end); {
		if !sleep(ctx, heldEach) {
			return
		}
	}
}

// waited returns how long ago a check of the account last succeeded.
func (f *flight) waited() time.Duration { return f.now().Sub(f.claim.Succeeded) }

// stopHeld ends all held calls and releases their accounts, next in line and in waves, so that the
// other replicas keep up. Until its wave comes, an account stays held here. A page that has arrived
// by then is written first, and an answer that has begun may end. A wave waits until the others
// have taken most accounts of the waves before it, but never so long that the grace period would
// not suffice. In a hurry it does not wait. The monitors requeue what it cannot release within the
// grace period.
func (fs *flights) stopHeld(hurry <-chan struct{}) {
	began := time.Now()
	all, until, next := spread(fs.held.running.all()), began.Add(fs.config.GracePeriod), began
	latest := time.Duration(heldStopShare * float64(fs.config.GracePeriod) / float64(max(1, len(all))))
	each := min(time.Second/heldStops, latest)
	releasing, endReleasing := context.WithCancel(fs.writer.writes)
	var releases sync.WaitGroup
	releases.Go(func() { fs.releaseEnded(releasing, until) })
	defer releases.Wait()
	defer endReleasing()
	for done := 0; done < len(all); {
		wave := all[done:min(done+heldWave, len(all))]
		for _, f := range wave {
			f.callOff(stops)
		}
		next = next.Add(time.Duration(len(wave)) * each)
		if done += len(wave); done == len(all) || !within(hurry, next) {
			continue
		}
		for end := began.Add(time.Duration(done) * latest); time.Now().Before(end) && fs.backlog(all[max(0, done-heldRecent):done]); {
			if !within(hurry, time.Now().Add(heldWavePause)) {
				break
			}
			next = time.Now()
		}
	}
	fs.held.running.drained(2*abandonAfter, hurry) // the rest have pages that Redis does not take now
}

// releaseEnded releases the accounts of held calls that have ended, in one step if they end
// together. It stops when ctx is done or at a given time.
func (fs *flights) releaseEnded(ctx context.Context, until time.Time) {
	for time.Now().Before(until) {
		select {
		case <-ctx.Done():
		case <-fs.held.running.stops:
			sleep(ctx, heldLinger)
		}
		fs.release(fs.held.running.takeEnded())
		if ctx.Err() != nil {
			return
		}
	}
}

// spread orders flights so that consecutive ones are in several shards, because each shard belongs
// to one replica.
func spread(all []*flight) []*flight {
	chunk, of := make(map[*flight]int, len(all)), make(map[int]int) // chunk: within its shard; of: how many flights each shard has so far
	for _, f := range all {
		chunk[f] = of[f.claim.Shard] / heldChunk
		of[f.claim.Shard]++
	}
	slices.SortFunc(all, func(f, g *flight) int {
		return cmp.Or(chunk[f]-chunk[g], f.claim.Shard-g.claim.Shard)
	})
	return all
}

// backlog reports whether too many accounts still wait in the shards of recently released flights.
// Without other replicas there is nobody to wait for.
func (fs *flights) backlog(released []*flight) bool {
	if fs.timetable.alone() {
		return false
	}
	ctx, cancel := context.WithTimeout(fs.writer.writes, time.Second)
	defer cancel()
	counts, err := fs.held.ring.CountAll(ctx)
	if err != nil {
		return true // nobody can take them while Redis is away
	}
	waiting := 0
	for _, f := range released {
		waiting += counts[f.claim.Shard].Waiting
		counts[f.claim.Shard].Waiting = 0 // counted
	}
	return waiting > heldBacklog
}

// within waits until a time. It reports false if hurry is closed first.
func within(hurry <-chan struct{}, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-hurry:
		return false
	case <-timer.C:
		return true
	}
}

// secretChanged ends the held calls of accounts that refer to a secret. Their next calls begin once
// all processes know its new value.
func (fs *flights) secretChanged(name string) {
	reference := []byte(`"secret":` + strconv.Quote(name))
	for _, f := range fs.held.running.all() {
		if bytes.Contains(f.record.account.Config, reference) {
			f.callOff(changes)
		}
	}
}

// watch checks every now and then that the accounts of held calls are still this replica's, until
// ctx is done. It ends the calls of accounts that are not: they were changed, paused or deleted, or
// another replica has them.
func (fs *flights) watch(ctx context.Context) {
	for sleep(ctx, heldLook) {
		byShard := make(map[int][]*flight)
		for _, f := range fs.held.running.all() {
			byShard[f.claim.Shard] = append(byShard[f.claim.Shard], f)
		}
		for shard, all := range byShard {
			for some := range slices.Chunk(all, circulate.MaxBatch) {
				if err := fs.watchSome(ctx, shard, some); err != nil {
					fs.log.Debug("could not learn whether held accounts are still ours", "shard", shard, "error", err)
					break
				}
			}
		}
	}
}

func (fs *flights) watchSome(ctx context.Context, shard int, some []*flight) error {
	ids, tickets := make([]string, len(some)), make([]*string, len(some))
	for i, f := range some {
		ids[i], tickets[i] = f.claim.ID, f.hold.ticket.Load()
	}
	current, err := fs.held.ring.Tickets(ctx, shard, ids)
	if err != nil {
		return err
	}
	var harmless []*flight
	for i, f := range some {
		if current[i] == *tickets[i] && f.hold.isHarmless(time.Now()) {
			harmless = append(harmless, f)
		}
		// A page that was written meanwhile has changed the ticket. A page that is being
		// written is about to change it, and the state then refuses this.
		if current[i] != *tickets[i] && f.hold.ticket.Load() == tickets[i] {
			f.callOff(misses)
		}
	}
	return fs.acquit(ctx, shard, harmless)
}

// acquit clears the strikes of accounts, which were claimed from replicas that died. Such an
// account may be held for long, and would be a suspect when the next replica dies.
func (fs *flights) acquit(ctx context.Context, shard int, harmless []*flight) error {
	if len(harmless) == 0 {
		return nil
	}
	ids := make([]string, len(harmless))
	for i, f := range harmless {
		ids[i] = f.claim.ID
	}
	if err := fs.held.ring.ClearStrikes(ctx, shard, ids); err != nil {
		return err
	}
	for _, f := range harmless {
		f.hold.acquitted = true
	}
	return nil
}
