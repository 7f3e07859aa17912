package monitor

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Never is a Config.Quarantine that puts no account in quarantine.
const Never = -1

// Config is a monitor's settings. Zero values mean the defaults, with these exceptions:
// zero Retention, Kept, DeadRetention and DeadKept drop nothing, and zero ProbeInterval
// tries no parked account again. No setting drops a message that a consumer group has not
// dealt with.
type Config struct {
	LongTimeout   time.Duration // a claim older than this is stale; 5 min
	DeadAfter     time.Duration // a replica silent for this long is dead; 10 s
	SweepInterval time.Duration // 5 s
	CountInterval time.Duration // how often accounts are counted for the metrics; 1 min
	TrimInterval  time.Duration // 10 min, or a tenth of Retention if that is less
	Retention     time.Duration // how long messages stay; 0 = for ever
	Kept          int           // about how many messages stay, over all streams; 0 = any number
	DeadRetention time.Duration // how long dead letters stay; 0 = for ever
	DeadKept      int           // about how many dead letters stay, over all shards; 0 = any number

	// KeptBytes is about how much memory all messages may take. Zero means half of Redis'
	// maxmemory, less if other data fills it, and no limit if Redis has no maxmemory or
	// does not report it. A negative value means no limit.
	KeptBytes int64
	// MemoryMark is the percentage of maxmemory from which messages are trimmed at once,
	// rather than at the next TrimInterval; 85. It should equal the pollers' mark.
	MemoryMark int

	// Quarantine is how many requeues without a returned check park an account; 5. See
	// Never.
	Quarantine int

	// ProbeInterval is how long accounts stay parked for a reason that may pass by itself
	// before they are tried again; 0 = until somebody resumes them.
	ProbeInterval time.Duration
	ProbeRate     float64 // the most accounts tried again in a second; 10

	ProblemsInterval time.Duration // the shortest time between two sums of failing and parked accounts; 45 s

	AuditInterval time.Duration // the shortest time between the beginnings of two audits; 10 min
	AuditRepair   bool          // whether the audit repairs its findings at once
}

func (c Config) withDefaults() Config {
	c.LongTimeout = cmp.Or(c.LongTimeout, 5*time.Minute)
	c.DeadAfter = cmp.Or(c.DeadAfter, 10*time.Second)
	c.SweepInterval = cmp.Or(c.SweepInterval, 5*time.Second)
	c.CountInterval = cmp.Or(c.CountInterval, time.Minute)
	c.TrimInterval = cmp.Or(c.TrimInterval, c.trimInterval())
	c.AuditInterval = cmp.Or(c.AuditInterval, 10*time.Minute)
	c.ProblemsInterval = cmp.Or(c.ProblemsInterval, problemsInterval)
	c.MemoryMark = cmp.Or(c.MemoryMark, 85)
	c.Quarantine = cmp.Or(c.Quarantine, 5)
	c.ProbeRate = cmp.Or(c.ProbeRate, 10)
	return c
}

func (c Config) trimInterval() time.Duration {
	if c.Retention <= 0 {
		return 10 * time.Minute
	}
	return min(10*time.Minute, max(time.Second, c.Retention/10))
}

func (c Config) validate() error {
	var errs []error
	must := func(ok bool, format string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, value))
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"long timeout", c.LongTimeout}, {"dead after", c.DeadAfter}, {"sweep interval", c.SweepInterval},
		{"count interval", c.CountInterval}, {"trim interval", c.TrimInterval},
		{"audit interval", c.AuditInterval}, {"problems interval", c.ProblemsInterval},
	} {
		must(d.value > 0, d.name+": must be more than 0, is %v", d.value)
	}
	must(c.Retention >= 0, "retention: must not be negative, is %v", c.Retention)
	must(c.Kept >= 0, "kept: must not be negative, is %d", c.Kept)
	must(c.MemoryMark >= 10 && c.MemoryMark <= 100, "memory mark: must be 10 to 100 per cent, is %d", c.MemoryMark)
	must(c.DeadRetention >= 0, "dead retention: must not be negative, is %v", c.DeadRetention)
	must(c.DeadKept >= 0, "dead kept: must not be negative, is %d", c.DeadKept)
	must(c.Quarantine >= Never, "quarantine: must be more than 0, or Never, is %d", c.Quarantine)
	must(c.ProbeInterval >= 0, "probe interval: must not be negative, is %v", c.ProbeInterval)
	must(c.ProbeRate > 0 && c.ProbeRate <= 1000, "probe rate: must be more than 0 and at most 1000, is %v", c.ProbeRate)
	return errors.Join(errs...)
}
