package monitor

import (
	"errors"
	"fmt"
	"time"
)

// Config is how a monitor works. Zero values have the defaults, but Retention,
// where zero keeps messages for ever.
type Config struct {
	LongTimeout   time.Duration // a claim older than this is stale; 5 min
	DeadAfter     time.Duration // a replica silent for this long is dead; 10 s
	SweepInterval time.Duration // 5 s
	CountInterval time.Duration // how often accounts are counted for the metrics; 30 s
	TrimInterval  time.Duration // 10 min
	Retention     time.Duration // how long messages are kept; 0 = for ever
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.LongTimeout, 5 * time.Minute}, {&c.DeadAfter, 10 * time.Second}, {&c.SweepInterval, 5 * time.Second},
		{&c.CountInterval, 30 * time.Second}, {&c.TrimInterval, 10 * time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"long timeout", c.LongTimeout}, {"dead after", c.DeadAfter}, {"sweep interval", c.SweepInterval},
		{"count interval", c.CountInterval}, {"trim interval", c.TrimInterval},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be more than 0, is %v", d.name, d.value))
		}
	}
	if c.Retention < 0 {
		errs = append(errs, fmt.Errorf("retention: must not be negative, is %v", c.Retention))
	}
	return errors.Join(errs...)
}
