package monitor

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/history"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// samplePhase is when a sample is made within its ten seconds, so that two of them never
	// fall into one.
	samplePhase = time.Second
	// sampleScan is how often the result of the last scan is read again.
	sampleScan = time.Minute
	// scanCounts is how old a scan may be for samples to have its figures.
	scanCounts = time.Hour
)

// lastSeen is the last findings of the other tasks of the monitor on duty.
type lastSeen struct {
	mu       sync.Mutex
	count    circulate.Count
	counted  time.Time
	memory   circulate.Memory
	measured time.Time
}

func (l *lastSeen) noteCount(c circulate.Count, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count, l.counted = c, now
}

// overdue returns how long the longest overdue account had waited at the last count.
func (l *lastSeen) overdue() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count.Overdue
}

func (l *lastSeen) noteMemory(m circulate.Memory, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory, l.measured = m, now
}

// set sets recent findings. Older figures are missing.
func (l *lastSeen) set(s *history.Sample, now time.Time, countInterval time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.counted) <= 3*countInterval {
		s.Set(history.Overdue, l.count.Overdue.Seconds())
		for field, n := range map[history.Field]int{
			history.Registered: l.count.Registered, history.Scheduled: l.count.Scheduled, history.Claimed: l.count.Claimed, history.Parked: l.count.Parked,
			history.Waiting: l.count.Waiting, history.Urgent: l.count.Urgent, history.Low: l.count.Low,
		} {
			s.Set(field, float64(n))
		}
	}
	if now.Sub(l.measured) <= 3*memoryLook {
		s.Set(history.MemoryUsed, float64(l.memory.Used))
		if l.memory.Limit > 0 {
			s.Set(history.MemoryLimit, float64(l.memory.Limit))
		}
	}
}

// sampler stores a sample for charts every ten seconds. Each costs Redis two commands.
// Other tasks have found the other figures anyway.
type sampler struct {
	*Monitor
	keeper *history.Keeper
	rates  history.Rates

	scan     accounts.Scan
	scanRead time.Time // by this process' clock
}

func newSampler(m *Monitor) *sampler { return &sampler{Monitor: m, keeper: history.NewKeeper(m.ring)} }

// run samples whenever this monitor is on duty.
func (s *sampler) run(ctx context.Context) {
	for s.duty.await(ctx) {
		next, err := s.turn(ctx)
		if err != nil && ctx.Err() == nil && !circulate.Unavailable(err) && !circulate.Full(err) {
			s.log.Error("no sample was stored for the charts", "error", err)
		}
		rest(ctx, next)
	}
}

// turn stores one sample, and returns how long it is until the next.
func (s *sampler) turn(ctx context.Context) (next time.Duration, err error) {
	replicas, now, err := s.ring.Replicas(ctx)
	if err != nil {
		return history.Every, err
	}
	asked := time.Now()
	sample := history.NewSample(now)
	s.setReplicas(&sample, replicas)
	if err := s.setScan(ctx, &sample); err != nil {
		return history.Every, err
	}
	s.last.set(&sample, asked, s.config.CountInterval)
	if s.duty.held() {
		err = s.keeper.Add(ctx, sample)
	}
	slot := now.Truncate(history.Every).Add(history.Every + samplePhase)
	return max(dutyRest, slot.Sub(now)-time.Since(asked)), err
}

// setReplicas sets the figures that the live replicas report.
func (s *sampler) setReplicas(sample *history.Sample, replicas []circulate.Replica) {
	beats := make(map[string]history.Beat)
	for _, r := range replicas {
		if sample.At.Sub(r.Beat) > s.config.DeadAfter {
			continue
		}
		var report accounts.Report
		// A replica of another version may report something else. Its presence is what counts.
		_ = json.Unmarshal(r.Report, &report)
		beats[r.Name] = history.Beat{At: r.Beat, Totals: report.Totals,
			Checks: report.ChecksPerSecond, Failures: report.FailuresPerSecond, Messages: report.MessagesPerSecond}
	}
	sample.Set(history.Replicas, float64(len(beats)))
	s.rates.Set(sample, beats)
}

// setScan sets the figures of the last scan for staleness, whichever monitor made it.
func (s *sampler) setScan(ctx context.Context, sample *history.Sample) error {
	if s.scanRead.IsZero() || time.Since(s.scanRead) >= sampleScan {
		found, err := s.ring.LastStaleness(ctx)
		if err != nil {
			return err
		}
		s.scan, s.scanRead = accounts.Scan{}, time.Now()
		if json.Unmarshal(found, &s.scan) != nil {
			s.scan = accounts.Scan{} // there was none, or another version has left something else
		}
	}
	if s.scan.At.IsZero() || sample.At.Sub(s.scan.At) > scanCounts {
		return nil
	}
	sample.Set(history.StalenessP99, s.scan.P99)
	sample.Set(history.StalenessMax, s.scan.Max)
	if s.scan.Failing != nil {
		sample.Set(history.Failing, float64(s.scan.Failing.Accounts))
	}
	return nil
}
