package circulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	auditScript  = wire.NewScript("audit", lua("bykind"), lua("audit"))
	repairScript = wire.NewScript("repair", lua("repair"))
)

// Violation is a way to break the conservation law.
type Violation string

// The violations.
const (
	Lost     Violation = "lost"      // registered or with a record, but in no place; repaired: due at once
	Doubled  Violation = "doubled"   // in several places under its current ticket; repaired: one place, a fresh ticket
	Orphan   Violation = "orphan"    // scheduled or parked, but neither registered nor with a record; repaired: set aside
	NoRecord Violation = "no_record" // registered without a record; repaired: parked, with a reason
	Garbage  Violation = "garbage"   // a malformed entry in a list; claims and sweeps set it aside
	Beyond   Violation = "beyond"    // scheduled later than its cadence allows; repaired: due at its next time
	Unowned  Violation = "unowned"   // remembers messages, but is not registered; repaired: forgets them
	// Misplaced is a send that is not where its state demands, or whose account is gone;
	// repaired: put there, or forgotten.
	Misplaced Violation = "misplaced"
)

// Violations returns all violations.
func Violations() []Violation {
	return []Violation{Lost, Doubled, Orphan, NoRecord, Garbage, Beyond, Unowned, Misplaced}
}

// Finding is one violation.
type Finding struct {
	Kind     Violation `json:"kind"`
	Shard    int       `json:"shard"`
	ID       string    `json:"id"` // of the account; of a send that is misplaced, the send's, or account and peer
	Repaired bool      `json:"repaired"`
}

// AuditOptions say how to audit.
type AuditOptions struct {
	Repair bool
	// Records reads every record. Without it, records are read only if there are more or
	// fewer of them than registered accounts. One missing record can then hide one record
	// too many.
	Records bool
	// Registration returns how to register an account again whose ticket is gone, by
	// Redis' clock. Nil: due at once, with normal priority. The ID and Record that it
	// returns are ignored.
	Registration func(id string, record []byte, now time.Time) Registration
	// Beyond judges an account due in more than AuditFar: it reports whether the account
	// is due later than it can be, and when it should be due instead, by Redis' clock.
	// Nil: no account is judged.
	Beyond func(f Far, now time.Time) (due time.Time, beyond bool)
	// Pause is called after each step, to pace the audit. Its error ends the audit. It is
	// not called after a step that led to repairs. Nil: no pause.
	Pause func(ctx context.Context) error
}

// Audited is the result of an audit.
type Audited struct {
	Accounts int       `json:"accounts"`
	Findings []Finding `json:"findings"`
	// Unjudged counts suspects in lists that changed too fast to be read. The next audit
	// looks at them again.
	Unjudged int `json:"unjudged"`
}

// With each of these, a step takes at most one or two milliseconds by Redis' own measure,
// with a million accounts in 64 shards.
const (
	auditTickets  = 300  // registered accounts in a step: each is looked up in two ZSETs
	auditPage     = 500  // scheduled or parked accounts in a step
	auditRecords  = 50   // records in a step; they may be large
	auditSuspects = 200  // suspects judged in a step
	auditShort    = 1000 // a shard's lists are read in that step if they have at most this many entries
)

// AuditSteps returns about how many steps an audit of this many accounts takes if it
// finds nothing and does not read the records.
func AuditSteps(accounts, shards int) int {
	return 5*shards + accounts/auditTickets + accounts/auditPage + accounts/(8*auditPage)
}

// AuditFar is how far ahead an account may be due before its record is read.
const AuditFar = time.Hour

// auditLogged is how many findings of a shard are logged one by one. In a flushed shard
// every account is a finding.
const auditLogged = 20

// noRecordReason is the start of the reason for which an audit parks an account.
const noRecordReason = "no record"

type suspect struct{ id, ticket string }

// AuditShard checks the conservation law for every account of a shard. It works in short
// steps, however many accounts there are.
//
// It trusts tickets only. An account that is in no ZSET while its ticket is T is in a
// list. As long as T is current, the only way out of that list is a requeue, from
// processing_list to message_queue. So an account is suspect if it still has T but was
// neither in a complete reading of processing_list nor in a later one of message_queue.
// An account seen in a list under T and in another place is suspect too. If the lists are
// short, one atomic step judges the suspects. Otherwise a second reading does, provided
// that the ticket is still the one from before the first reading. An account that moves
// under load has another ticket and is no suspect.
func (r *Ring) AuditShard(ctx context.Context, shard int, o AuditOptions) (Audited, error) {
	a := &audit{ring: r, shard: shard, o: o, keys: &r.keys[shard]}
	defer a.logRest()
	for _, step := range []func(context.Context) error{a.travellers, a.lists, a.judge, a.strangers, a.beyond, a.unowned, a.sends} {
		if err := step(ctx); err != nil {
			return a.found, fmt.Errorf("audit, shard %d: %w", shard, err)
		}
	}
	return a.found, nil
}

type audit struct {
	ring  *Ring
	shard int
	o     AuditOptions
	keys  *shardKeys
	found Audited

	repairs int // so far

	travelling map[suspect]bool
	suspects   map[suspect]bool
}

// ask does one step that looks at accounts.
func (a *audit) ask(ctx context.Context, args ...any) ([]any, error) {
	k := a.keys
	return redis.Values(a.ring.wire.Run(ctx, auditScript, a.shard,
		[]string{k.tickets, k.schedule, k.parked, k.accounts, k.byKind, k.processing, k.urgent, k.queue, k.low}, args...))
}

// look does a step and pauses after it.
func (a *audit) look(ctx context.Context, args ...any) ([]any, error) {
	reply, err := a.ask(ctx, args...)
	if err == nil {
		err = a.pause(ctx)
	}
	return reply, err
}

func (a *audit) pause(ctx context.Context) error {
	if a.o.Pause == nil {
		return nil
	}
	return a.o.Pause(ctx)
}

// travellers looks at all registered accounts.
func (a *audit) travellers(ctx context.Context) error {
	a.travelling, a.suspects = make(map[suspect]bool), make(map[suspect]bool)
	bare := make(map[string]bool)
	records := "" // not counted yet
	for cursor := ScanDone; ; {
		reply, err := a.look(ctx, "tickets", cursor, auditTickets, records)
		if err != nil {
			return err
		}
		var n int
		var columns [3][]string
		if _, err := redis.Scan(reply, &cursor, &n, &columns[0], &columns[1], &columns[2], &records); err != nil {
			return errors.Join(wire.ErrReply, err)
		}
		a.found.Accounts += n
		for i, into := range []map[suspect]bool{a.travelling, a.suspects} {
			for j := 0; j+1 < len(columns[i]); j += 2 {
				into[suspect{columns[i][j], columns[i][j+1]}] = true
			}
		}
		for _, id := range columns[2] {
			bare[id] = true
		}
		if cursor == ScanDone {
			break
		}
	}
	for id := range bare {
		if err := a.noRecord(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (a *audit) noRecord(ctx context.Context, id string) error {
	views, err := a.ring.Look(ctx, a.shard, []string{id})
	if err != nil || len(views) == 0 || len(views[0].Record) > 0 {
		return err // it has been deregistered, or has its record
	}
	if views[0].Place == Parked && strings.HasPrefix(views[0].Reason, noRecordReason) {
		return nil // no more can be repaired; operators see it among the parked accounts
	}
	repaired := false
	if a.o.Repair {
		n, err := a.ring.Park(ctx, a.shard, noRecordReason+": an audit found the account without one", []string{id})
		if err != nil {
			return err
		}
		repaired = n == 1
	}
	a.report(NoRecord, id, repaired)
	return nil
}

func (a *audit) report(kind Violation, id string, repaired bool) {
	a.found.Findings = append(a.found.Findings, Finding{kind, a.shard, id, repaired})
	if repaired {
		a.repairs++
	}
	if len(a.found.Findings) <= auditLogged {
		fault := "the conservation law does not hold"
		switch kind {
		case Beyond:
			fault = "an account is due later than it can be"
		case Unowned:
			fault = "an account remembers messages and is not registered"
		case Misplaced:
			fault = "a send is not where its state demands"
		}
		of := "account"
		if kind == Misplaced {
			of = "send"
		}
		a.ring.log.Error(fault, "kind", string(kind), of, id, "shard", a.shard, "repaired", repaired)
	}
}

// logRest logs how many findings were not logged one by one.
func (a *audit) logRest() {
	if n := len(a.found.Findings); n > auditLogged {
		a.ring.log.Error("the conservation law does not hold for more accounts", "shard", a.shard, "more", n-auditLogged, "repaired", a.repairs)
	}
}

// repair repairs one account if the options ask for repairs.
func (a *audit) repair(ctx context.Context, kind Violation, args ...any) error {
	repaired := false
	if a.o.Repair {
		k := a.keys
		var err error
		repaired, err = redis.Bool(a.ring.wire.Run(ctx, repairScript, a.shard,
			[]string{k.tickets, k.schedule, k.parked, k.accounts, k.ticketSeq, k.setAside, k.ticketMark},
			append(a.ring.wakeArgs(a.shard), args...)...))
		if err != nil {
			return err
		}
	}
	a.report(kind, args[1].(string), repaired)
	return nil
}

// Audit is AuditShard for every shard, one after the other. The first error ends it, and
// the findings up to then are returned with the error.
func (r *Ring) Audit(ctx context.Context, o AuditOptions) (Audited, error) {
	var all Audited
	for shard := range r.Shards() {
		one, err := r.AuditShard(ctx, shard, o)
		all.Accounts += one.Accounts
		all.Unjudged += one.Unjudged
		all.Findings = append(all.Findings, one.Findings...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// Count returns how many findings of a kind there are, and how many were repaired.
func (a *Audited) Count(kind Violation) (found, repaired int) {
	for _, f := range a.Findings {
		if f.Kind == kind {
			found++
			if f.Repaired {
				repaired++
			}
		}
	}
	return found, repaired
}

// beyond searches the schedule for accounts that are due later than they can be, because
// Redis' clock was wrong and no monitor saw it go back.
func (a *audit) beyond(ctx context.Context) error {
	if a.o.Beyond == nil {
		return nil
	}
	pages := 0
	for cursor := ""; cursor != ScanDone; {
		far, now, next, err := a.ring.Clocks().FarScheduled(ctx, a.shard, cursor, auditPage, AuditFar)
		if err != nil {
			return err
		}
		cursor = next
		for _, f := range far {
			due, beyond := a.o.Beyond(f, now)
			if !beyond {
				continue
			}
			moved := 0
			if a.o.Repair {
				if moved, err = a.ring.Clocks().MoveDue(ctx, a.shard, []Move{{Far: f, To: due}}); err != nil {
					return err
				}
			}
			a.report(Beyond, f.ID, moved == 1)
		}
		// A page without any finding costs next to nothing.
		if pages++; len(far) > 0 || pages%8 == 0 {
			if err := a.pause(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
