package poller

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// A Retainer is a Checker whose third party forgets messages after a while, as WeCom does after
// three days. An account that is unchecked for that long loses messages. The monitor warns well
// before that.
type Retainer interface {
	// Retention returns how long the third party retains the messages of an account with
	// this config; 0 means unknown. It should be at least an hour: the warning leaves out
	// accounts that were checked within the last hour.
	Retention(config json.RawMessage) time.Duration
}

// Retaining returns the kinds whose checkers are Retainers, in alphabetical order.
func (c Checkers) Retaining() []string {
	var kinds []string
	for kind, checker := range c {
		if _, ok := checker.(Retainer); ok {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// Retention returns how long the third party retains the messages of an account, as the kind's
// Retainer says. It is 0 without a Retainer, or if the Retainer panics.
func (c Checkers) Retention(kind string, config json.RawMessage) time.Duration {
	retainer, ok := c[kind].(Retainer)
	if !ok {
		return 0
	}
	return max(0, answer("Retention", retainer.Retention, config, nil))
}

// A Once is a Checker whose third party gives each message only once, whatever the cursor. If its
// page is lost, the messages are lost. So the pool writes such a page even when Redis has little
// room, and goes on trying where it would drop another page and let the next check find it again.
// It drops the page only if the claim was lost, or if Redis does not take it while the replica
// shuts down.
type Once interface {
	// GivenOnce reports whether the third party gives each message once.
	GivenOnce() bool
}

// A Confirmer is a Checker whose calls make the third party forget what earlier calls found:
// everything older than the cursor. The pool makes such a call only once everything up to the
// cursor is on Redis' disk, if Redis can tell; see circulate.Syncer. The same holds for a Once.
type Confirmer interface {
	// Confirms reports whether a call makes the third party forget what earlier calls found.
	Confirms() bool
}

func confirms(c Checker) bool {
	confirmer, ok := c.(Confirmer)
	return ok && confirmer.Confirms() || givenOnce(c)
}

func givenOnce(c Checker) bool {
	once, ok := c.(Once)
	return ok && once.GivenOnce()
}

// once returns the kinds whose third parties give each message once.
func (c Checkers) once() map[string]bool {
	kinds := make(map[string]bool)
	for kind, checker := range c {
		kinds[kind] = givenOnce(checker)
	}
	return kinds
}

const (
	syncTries = 3           // tries of a call that would confirm what may not be on Redis' disk yet
	syncRetry = time.Second // between two of them
)

// synced waits until everything up to the account's cursor is on Redis' disk and replicas, as far
// as the config says, if the next call confirms it to the third party.
func (f *flight) synced(ctx context.Context) error {
	fs := f.flights
	if !f.unsynced {
		return nil
	}
	for try := 1; ; try++ {
		_, err := fs.writer.syncer.Sync(ctx, f.claim.Shard)
		if err == nil {
			f.unsynced = false
			return nil
		}
		if ctx.Err() == nil {
			fs.metrics.redisErrors.WithLabelValues("sync").Inc()
		}
		if try == syncTries || !sleep(ctx, syncRetry) {
			return &CheckError{Kind: Transient, Scope: ScopeChecker, Code: "redis_not_synced", Err: err,
				Message: "Redis did not say that it has on its disk and replicas what the last check found, and another call would have the third party forget it"}
		}
	}
}
