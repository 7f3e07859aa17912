package accounts

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/accounts/cursor"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// MaxFindings is the most findings that one call lists; it counts all.
	MaxFindings = 1000
	// auditBudget is how many accounts a call audits before it ends with the shard
	// that it is in.
	auditBudget = 20_000
	// auditPauseMax bounds the pause after a step, which is otherwise as long as
	// the step took: one audit takes at most half of what Redis could do for it.
	auditPauseMax = 50 * time.Millisecond
)

// AuditQuery says how the conservation law is to be checked.
type AuditQuery struct {
	Repair bool   // put right what is found
	Cursor string // where the call before ended; empty for the first
}

// Audited is what a call came to.
type Audited struct {
	Accounts int // registered accounts that were looked at
	Unjudged int // in lists that moved too fast to be read: to be looked at again

	Found    map[circulate.Violation]int
	Repaired map[circulate.Violation]int
	Findings []circulate.Finding // MaxFindings at most

	Audited int    // shards that are done, with the calls before this one
	Shards  int    // all there are
	Next    string // where to go on; empty: this is the end
}

// Audit checks the conservation law, that every registered account is in exactly
// one place under its current ticket, shard by shard, and every record. A call
// ends with the first shard that brings it to 20,000 accounts, and tells where to
// go on; where a shard fails it ends before that. To repeat a call is safe,
// whatever came of it: what was repaired is then no finding. A cursor that this
// ring never gave is ErrCursor.
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
		Shards: shards, Findings: []circulate.Finding{},
		Found: make(map[circulate.Violation]int), Repaired: make(map[circulate.Violation]int),
	}
	o := circulate.AuditOptions{Repair: q.Repair, Records: true, Registration: Restored, Pause: pacer(),
		Beyond: func(f circulate.Far, now time.Time) (time.Time, bool) { return Beyond(f, now, 0) }}
	for ; shard < shards && done.Accounts < budget; shard++ {
		one, err := r.ring.AuditShard(ctx, shard, o)
		if err != nil && done.Accounts+len(done.Findings) > 0 && ctx.Err() == nil {
			break // what is done is told now; the next call tells of the error
		}
		if err != nil {
			return Audited{}, err
		}
		done.add(&one)
	}
	if done.Audited = shard; shard < shards {
		done.Next = cursor.Seal(cursor.Audit, binary.AppendUvarint(binary.AppendUvarint(nil, uint64(shards)), uint64(shard)))
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

// pacer makes a pause that is as long as what came before it.
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

// auditPlace is the shard that a cursor goes on with.
func auditPlace(text string, shards int) (int, error) {
	if text == "" {
		return 0, nil
	}
	content, err := cursor.Unseal(cursor.Audit, text)
	if err != nil {
		return 0, err
	}
	of, n := binary.Uvarint(content)
	shard, m := binary.Uvarint(content[max(0, n):])
	if n <= 0 || m <= 0 || n+m != len(content) || of != uint64(shards) || shard >= of {
		return 0, fmt.Errorf("%w: it is one of another ring", ErrCursor)
	}
	return int(shard), nil
}

// Restored says how an account is registered again of which only the record is
// left: in its lane, and due at its next slot, so that a ring that was rebuilt
// from its records is not due all at once. An account whose cadence has no slot,
// or whose record cannot be read, is due at once: whether its one check was done
// nobody knows any more.
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
