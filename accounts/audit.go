package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// MaxFindings is the most findings that one call lists. The call counts all of them.
	MaxFindings = 1000
	// auditBudget is the number of accounts after which a call starts no further shard.
	auditBudget = 20_000
	// auditPauseMax bounds the pause after a step. A pause is as long as the step before
	// it, so that an audit uses at most half of Redis' time.
	auditPauseMax = 50 * time.Millisecond
)

// AuditQuery says how to check the conservation law.
type AuditQuery struct {
	Repair bool   // repair the findings
	Cursor string // Next of the call before; empty: begin
}

// Audited is the result of one call of Audit.
type Audited struct {
	Accounts int // registered accounts that were checked
	Unjudged int // accounts in lists that moved too fast to be read; audit again

	Found    map[circulate.Violation]int
	Repaired map[circulate.Violation]int
	Findings []circulate.Finding // MaxFindings at most

	From    int    // the first shard of this call
	Audited int    // shards done so far, those of earlier calls included
	Shards  int    // the number of shards
	Next    string // the next call's Cursor; empty: the audit is complete
}

// Audit checks every record and the conservation law, shard by shard: every registered
// account is in exactly one place under its current ticket. A call ends after the shard
// that brings it to 20,000 accounts, or before a shard that fails, and returns where to
// go on. Repeating a call is safe, even after an error: a repaired account is no longer
// a finding. It returns ErrCursor for a cursor that this ring never returned.
func (r *Registry) Audit(ctx context.Context, q AuditQuery) (Audited, error) {
	return r.audit(ctx, q, auditBudget)
}

func (r *Registry) audit(ctx context.Context, q AuditQuery, budget int) (Audited, error) {
	shards := r.ring.Shards()
	shard, err := auditPlace(q.Cursor, shards)
	if err != nil {
		return Audited{}, err
	}
	done := Audited{
		From: shard, Shards: shards, Findings: []circulate.Finding{},
		Found: make(map[circulate.Violation]int), Repaired: make(map[circulate.Violation]int),
	}
	o := circulate.AuditOptions{Repair: q.Repair, Records: true, Registration: Restored, Pause: pacer(),
		Beyond: func(f circulate.Far, now time.Time) (time.Time, bool) { return Beyond(f, now, 0) }}
	for ; shard < shards && done.Accounts < budget; shard++ {
		one, err := r.ring.AuditShard(ctx, shard, o)
		if err != nil && done.Accounts+len(done.Findings) > 0 && ctx.Err() == nil {
			break // return what is done; the next call returns the error
		}
		if err != nil {
			return Audited{}, err
		}
		done.add(&one)
	}
	if done.Audited = shard; shard < shards {
		done.Next = SealCursor(CursorAudit, appendShard(nil, shards, shard))
	}
	return done, nil
}

func (a *Audited) add(one *circulate.Audited) {
	a.Accounts += one.Accounts
	a.Unjudged += one.Unjudged
	for _, f := range one.Findings {
		a.Found[f.Kind]++
		if f.Repaired {
			a.Repaired[f.Kind]++
		}
		if len(a.Findings) < MaxFindings {
			a.Findings = append(a.Findings, f)
		}
	}
}

// pacer returns a pause that takes as long as the work before it.
func pacer() func(context.Context) error {
	last := time.Now()
	return func(ctx context.Context) error {
		timer := time.NewTimer(min(time.Since(last), auditPauseMax))
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		last = time.Now()
		return context.Cause(ctx)
	}
}

// auditPlace returns the shard that a cursor names.
func auditPlace(text string, shards int) (int, error) {
	if text == "" {
		return 0, nil
	}
	content, err := UnsealCursor(CursorAudit, text)
	if err != nil {
		return 0, err
	}
	shard, rest, err := cutShard(content, shards)
	if err != nil || len(rest) > 0 {
		return 0, fmt.Errorf("%w: it is one of another ring", ErrCursor)
	}
	return shard, nil
}

// Restored returns how to register an account again if only its record is left. The
// account gets its lane and is due at its next slot, so that a rebuilt ring is not due
// all at once. It is due at once if its record cannot be read, or if its cadence has no
// slot left, because it is unknown whether its one check was done.
func Restored(id string, record []byte, now time.Time) circulate.Registration {
	item := circulate.Registration{ID: id, Record: record, Priority: circulate.Normal}
	var a Account
	if json.Unmarshal(record, &a) != nil {
		return item
	}
	item.Priority = a.lane()
	if c, err := cadence.Parse(a.Cadence); err == nil {
		item.Due, _ = c.After(id, now, cadence.State{})
	}
	return item
}
