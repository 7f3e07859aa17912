package concern

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// storeEvery is how often a running audit reports at most.
	storeEvery = 10 * time.Second
	// resumeWithin is how long another monitor may continue an audit that has stopped.
	resumeWithin = 10 * time.Minute
)

// run is the document of a monitor's audit.
type run struct {
	AuditResult
	Layout string  `json:"layout"` // the shards that it looks at, as circulate.Ring.Layout returns them
	Every  float64 `json:"every_seconds"`
	Ended  bool    `json:"ended,omitempty"` // with Why: it broke off; Why alone: it waits
}

// Run is an audit of the whole ring by the monitor on duty. It stores its progress, so
// that everybody can see it, and so that another monitor can continue.
type Run struct {
	run
	ring    *circulate.Ring
	stored  time.Time // by our own clock
	resumed bool      // no step was done since
}

// Resume returns the audit that a monitor of this ring has left unfinished within the last ten
// minutes, or begins one. Every is the shortest time between the beginnings of two audits.
func Resume(ctx context.Context, ring *circulate.Ring, every time.Duration) (*Run, error) {
	found, now, err := document.Of(ring).Notices().Read(ctx, runName)
	if err != nil {
		return nil, fmt.Errorf("begin an audit: %w", err)
	}
	r := &Run{ring: ring}
	left := found[runName]
	if err := json.Unmarshal(left.Text, &r.run); err == nil && r.resumable(ring, now.Sub(left.Posted)) {
		r.resumed = true
	} else {
		r.run = run{AuditResult: begin("monitor", now, ring.Shards()), Layout: ring.Layout()}
	}
	r.Every = every.Seconds()
	return r, r.Store(ctx)
}

// resumable reports whether an audit that has been silent for that long can be continued.
func (r *Run) resumable(ring *circulate.Ring, silent time.Duration) bool {
	return !r.Ended && r.Layout == ring.Layout() && r.Shards == ring.Shards() && r.Audited >= 0 && r.Audited < r.Shards && silent < resumeWithin
}

// Resumed reports, once, that an unfinished audit has gone on. It is called after a step
// of the audit.
func (r *Run) Resumed() bool {
	resumed := r.resumed
	if r.resumed = false; resumed {
		r.Why = ""
	}
	return resumed
}

// Wait records that the audit waits for Redis, if a part of Redis serves. The shard is
// audited again, so only its repairs are noted.
func (r *Run) Wait(ctx context.Context, one *circulate.Audited) error {
	var done circulate.Audited
	for _, f := range one.Findings {
		if f.Repaired {
			done.Findings = append(done.Findings, f)
		}
	}
	r.Partly(&done)
	r.Why = "redis"
	return r.Store(ctx)
}

// Shard notes the result of the next shard.
func (r *Run) Shard(one *circulate.Audited) {
	r.Partly(one)
	r.Audited++
}

// Partly notes the findings in a shard in which the audit broke off.
func (r *Run) Partly(one *circulate.Audited) {
	r.Add(one.Accounts, one.Unjudged, CountsOf(one.Count), one.Findings)
}

// Report stores the audit's progress, unless it did so just now.
func (r *Run) Report(ctx context.Context) error {
	if time.Since(r.stored) < storeEvery {
		return nil
	}
	return r.Store(ctx)
}

// Store stores the audit's progress.
func (r *Run) Store(ctx context.Context) error {
	r.stored = time.Now()
	now, err := document.Of(r.ring).Notices().Now(ctx)
	if err != nil {
		return fmt.Errorf("store an audit: %w", err)
	}
	r.At = now.UTC()
	return post(ctx, r.ring, runName, r.run)
}

// Complete stores the audit as the last complete one.
func (r *Run) Complete(ctx context.Context) error {
	r.Ended = true
	if err := r.Store(ctx); err != nil {
		return err
	}
	return post(ctx, r.ring, lastName, r.AuditResult)
}

// BreakOff records that the audit broke off with an error. If Redis is away, the audit
// shows as broken off after a minute of silence.
func (r *Run) BreakOff(ctx context.Context, because error) error {
	r.Ended, r.Why = true, "failed"
	if circulate.Unavailable(because) {
		r.Why = "redis"
	}
	return r.Store(ctx)
}

func post(ctx context.Context, ring *circulate.Ring, name string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("law: %w", err)
	}
	_, err = document.Of(ring).Notices().Post(ctx, name, text)
	return err
}
