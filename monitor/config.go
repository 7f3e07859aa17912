package monitor

import (
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
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.LongTimeout, 5 * time.Minute}, {&c.DeadAfter, 10 * time.Second}, {&c.SweepInterval, 5 * time.Second},
		{&c.CountInterval, time.Minute}, {&c.TrimInterval, c.trimInterval()}, {&c.AuditInterval, 10 * time.Minute}, {&c.ProblemsInterval, problemsInterval},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.MemoryMark == 0 {
		c.MemoryMark = 85
	}
	if c.Quarantine == 0 {
		c.Quarantine = 5
	}
	if c.ProbeRate == 0 {
		c.ProbeRate = 10
	}
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
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"long timeout", c.LongTimeout}, {"dead after", c.DeadAfter}, {"sweep interval", c.SweepInterval},
		{"count interval", c.CountInterval}, {"trim interval", c.TrimInterval},
		{"audit interval", c.AuditInterval}, {"problems interval", c.ProblemsInterval},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be more than 0, is %v", d.name, d.value))
		}
	}
	if c.Retention < 0 {
		errs = append(errs, fmt.Errorf("retention: must not be negative, is %v", c.Retention))
	}
	if c.Kept < 0 {
		errs = append(errs, fmt.Errorf("kept: must not be negative, is %d", c.Kept))
	}
	if c.MemoryMark < 10 || c.MemoryMark > 100 {
		errs = append(errs, fmt.Errorf("memory mark: must be 10 to 100 per cent, is %d", c.MemoryMark))
	}
	if c.DeadRetention < 0 {
		errs = append(errs, fmt.Errorf("dead retention: must not be negative, is %v", c.DeadRetention))
	}
	if c.DeadKept < 0 {
		errs = append(errs, fmt.Errorf("dead kept: must not be negative, is %d", c.DeadKept))
	}
	if c.Quarantine < Never {
		errs = append(errs, fmt.Errorf("quarantine: must be more than 0, or Never, is %d", c.Quarantine))
	}
	if c.ProbeInterval < 0 {
		errs = append(errs, fmt.Errorf("probe interval: must not be negative, is %v", c.ProbeInterval))
	}
	if !(c.ProbeRate > 0 && c.ProbeRate <= 1000) {
		errs = append(errs, fmt.Errorf("probe rate: must be more than 0 and at most 1000, is %v", c.ProbeRate))
	}
	return errors.Join(errs...)
}
