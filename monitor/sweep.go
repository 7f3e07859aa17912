package monitor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	sweepChunk = 128                  // entries looked at in one step
	deadSince  = 2 * time.Millisecond // after which a silent replica is surely beyond DeadAfter: Redis' time is whole milliseconds
	// offDuty is how much later a monitor that is not on duty sweeps for a replica that
	// has become silent. All monitors know the same moment. If two of them requeue the
	// same entries at once, accounts get two strikes for a round trip.
	offDuty = time.Second
)

// quarantineReason begins the reason of an account that was parked because it was taken
// from too many replicas. Only resuming the account, or changing its record, brings it
// back.
const quarantineReason = "quarantine"

// Swept is the result of a sweep.
type Swept struct {
	Inspected   int            // entries looked at
	Stale       int            // requeued because their claim is older than the long timeout
	Orphaned    int            // requeued because their replica is dead
	Compensated int            // returned while they were being requeued
	SetAside    int            // malformed entries
	Quarantined int            // parked because they were requeued too often
	Unknown     int            // requeues of unknown outcome; the next sweep looks again
	Dead        map[string]int // how many accounts were taken from each dead replica
	Expired     int            // sends that were still queued
	Doubtful    int            // attempts of sends that became unknown
}

// Sweep looks once at every shard. It returns the error of the first shard that failed,
// after it has swept the others. If only the node that knows the replicas is away, no
// replica counts as dead, and the shards are swept by the long timeout alone.
func (m *Monitor) Sweep(ctx context.Context) (Swept, error) {
	swept := Swept{Dead: make(map[string]int)}
	m.soon = m.config.SweepInterval
	dead, err := m.judge(ctx)
	var errs []error
	if err != nil {
		if m.allAway(0, err) {
			return swept, err
		}
		errs = append(errs, err)
		dead = func(string) bool { return false }
	}
	shards := m.ring.Shards()
	if nothing, err := m.ring.NothingClaimed(ctx); err == nil && nothing {
		shards = 0
	}
	for shard := range shards {
		if err := m.sweepShard(ctx, shard, dead, &swept); err != nil {
			errs = append(errs, err)
			if m.allAway(shard, err) {
				// Heartbeats seen before an outage prove nothing after it.
				m.beats = nil
				break
			}
		}
	}
	if m.beats != nil {
		if err := m.sweepSends(ctx, dead, &swept); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return swept, errs[0]
	}
	return swept, nil
}

// sweepOn sweeps until ctx is done: every interval, and once more as soon as a replica
// that has been silent for one interval counts as dead.
func (m *Monitor) sweepOn(ctx context.Context) {
	for {
		began := time.Now()
		turn(ctx, m.log, "sweep", func(ctx context.Context) error {
			swept, err := m.Sweep(ctx)
			m.report(swept, err)
			return err
		})
		if rest(ctx, min(m.soon, m.config.SweepInterval-time.Since(began))); ctx.Err() != nil {
			return
		}
	}
}

// allAway reports whether an error at one shard means that the others need not be tried:
// Redis is away, and one node serves them all.
func (m *Monitor) allAway(shard int, err error) bool {
	return circulate.Unavailable(err) && m.ring.Node(shard) == ""
}

// judge returns which replicas are dead. A replica is dead if it was silent for longer
// than DeadAfter and sent no heartbeat since the last sweep, and that sweep succeeded. So
// a replica that was silent only because Redis, or this monitor, was away does not count
// as dead.
func (m *Monitor) judge(ctx context.Context) (dead func(replica string) bool, err error) {
	replicas, now, err := m.ring.Replicas(ctx)
	if err != nil {
		m.beats = nil
		return nil, err
	}
	before, beats := m.beats, make(map[string]time.Time, len(replicas))
	for _, r := range replicas {
		beats[r.Name] = r.Beat
		if left := r.Beat.Add(m.config.DeadAfter).Sub(now); left >= 0 && r.Beat.Equal(before[r.Name]) {
			if !m.duty.held() {
				left += offDuty
			}
			m.soon = min(m.soon, left+deadSince)
		}
	}
	m.beats = beats
	return func(replica string) bool {
		if before == nil {
			return false
		}
		beat, remembered := beats[replica]
		if !beat.Equal(before[replica]) {
			return false
		}
		return !remembered || now.Sub(beat) > m.config.DeadAfter
	}, nil
}

// sweepShard walks from the old end of processing_list up to the claims that are too
// young to be stale, and requeues stale and orphaned ones. If there were any, it wakes the replicas.
func (m *Monitor) sweepShard(ctx context.Context, shard int, dead func(string) bool, swept *Swept) error {
	young := min(m.config.DeadAfter, m.config.LongTimeout)
	passed, before := 0, swept.Stale+swept.Orphaned
	defer func() {
		if swept.Stale+swept.Orphaned == before {
			return
		}
		if err := m.ring.Wake(ctx, shard); err != nil {
			m.log.Debug("the replicas were not woken", "error", err)
		}
	}()
	for {
		entries, now, err := m.ring.Oldest(ctx, shard, passed, sweepChunk)
		if err != nil {
			return err
		}
		for _, h := range entries {
			swept.Inspected++
			age := now.Sub(h.Entry.Stamp)
			stale := m.stale(age)
			orphaned := age > m.config.DeadAfter && dead(h.Entry.Replica)
			if !h.Malformed() && !stale && !orphaned {
				passed++
				continue
			}
			if err := m.requeue(ctx, shard, h, stale, swept); err != nil {
				if circulate.Unavailable(err) {
					return err
				}
				passed++
			}
		}
		if len(entries) < sweepChunk {
			return nil
		}
		// A claim from the future need not be young: Redis' clock went back.
		if age := now.Sub(entries[len(entries)-1].Entry.Stamp); age >= 0 && age < young {
			return nil
		}
	}
}

// stale judges a claim's age. A claim from the future was made before Redis' clock went
// back, and its age is unknown.
func (m *Monitor) stale(age time.Duration) bool {
	return age > m.config.LongTimeout || age < -m.config.LongTimeout
}

func (m *Monitor) requeue(ctx context.Context, shard int, h circulate.ClaimedEntry, stale bool, swept *Swept) error {
	outcome, strikes, err := m.ring.Requeue(ctx, shard, h)
	switch {
	case err != nil:
		if circulate.Unknown(err) {
			swept.Unknown++
		}
		return err
	case outcome == circulate.Compensated:
		swept.Compensated++
	case outcome == circulate.SetAsideEntry:
		swept.SetAside++
	case stale:
		swept.Stale++
		m.log.Warn("a check outlasted the long timeout: its account was requeued",
			"account", h.Entry.ID, "holder", h.Entry.Replica, "shard", shard)
	default:
		swept.Orphaned++
		swept.Dead[h.Entry.Replica]++
	}
	if m.config.Quarantine != Never && strikes >= m.config.Quarantine {
		return m.quarantine(ctx, shard, h, strikes, swept)
	}
	return nil
}

// quarantine parks an account whose checks never come back. Otherwise it would hang or
// kill one replica after the other. If parking fails, the next strike tries again.
func (m *Monitor) quarantine(ctx context.Context, shard int, h circulate.ClaimedEntry, strikes int, swept *Swept) error {
	reason := fmt.Sprintf("%s: taken from a replica %d times in a row, last from %s: its checks hang or kill replicas",
		quarantineReason, strikes, h.Entry.Replica)
	parked, err := m.ring.Quarantine(ctx, shard, h, m.config.Quarantine, reason)
	if err != nil {
		return err
	}
	if parked {
		swept.Quarantined++
		m.log.Error("an account is in quarantine", "account", h.Entry.ID, "shard", shard, "reason", reason)
	}
	return nil
}

// count counts the accounts of all shards, for metrics, reports and the watch.
func (m *Monitor) count(ctx context.Context) error {
	var sum circulate.Count
	var byKind []int
	counts, err := m.ring.CountAll(ctx)
	if err != nil {
		return err
	}
	sends, err := m.countSends(ctx)
	if err != nil {
		return err
	}
	if !m.duty.held() {
		return nil
	}
	for shard, c := range counts {
		sum.Add(c)
		if c.ByKind > 0 {
			byKind = append(byKind, shard)
		}
	}
	m.metrics.set(sum)
	m.metrics.setSends(sends)
	m.registered.Store(int64(sum.Registered))
	m.last.noteCount(sum, time.Now())
	failed := m.kinds.look(ctx, m, byKind)
	if err := m.recall(ctx); err != nil {
		return err
	}
	now, err := m.ring.Now(ctx, 0)
	if err != nil {
		return err
	}
	m.watch.counted(now, sum.Registered, sum.Waiting, sum.Overdue, slices.Clone(m.kinds.long))
	m.watch.doubts(now, sends)
	return failed
}
