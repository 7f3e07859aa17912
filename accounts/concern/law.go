package concern

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// The conservation law says that every account is in exactly one place. Any process can
// report at any time what audits have found out about it: the last complete audit, and
// the progress of the running one.

// The names under which documents are posted.
const (
	lastName = "law"           // the last complete audit
	runName  = "audit"         // the latest audit by a monitor, with its progress
	handName = "audit_by_hand" // audits by hand that go on with their next call
)

const (
	// examples is how many findings are stored one by one. All are counted.
	examples = 10
	// runAlive is how long a running audit may be silent. It reports every storeEvery, and
	// one of its steps takes much less.
	runAlive = time.Minute
	// slack is by how much an audit may be late.
	slack = 10 * time.Minute
	// usual is the interval of audits if no monitor has reported its own.
	usual = 10 * time.Minute
)

// State says in a word whether the law holds, as far as it is known.
type State string

// The states, and their meaning for people.
const (
	Kept     State = "kept"     // the last audit found every account in exactly one place
	Repaired State = "repaired" // the last audit found faults and repaired all of them
	Unjudged State = "unjudged" // the last audit could not judge some accounts, and found no fault in the others
	Flawed   State = "flawed"   // no account was lost or doubled, but something else was wrong
	Violated State = "violated" // accounts were lost or doubled, and not all were repaired
	Broken   State = "broken"   // the latest audit broke off
	Old      State = "old"      // the last audit is too long ago
	First    State = "first"    // the first audit is running
	Never    State = "never"    // there was no audit
)

// FindingCount is the number of findings of one kind.
type FindingCount struct {
	Kind     circulate.Violation `json:"kind" enum:"lost,doubled,orphan,no_record,garbage,beyond,unowned,misplaced"`
	Found    int                 `json:"found"`
	Repaired int                 `json:"repaired"`
}

// AuditResult is the result of an audit of the whole ring, or of the part done so far.
// Its times are by Redis' clock.
type AuditResult struct {
	By       string         `json:"by" enum:"monitor,hand" doc:"The auditor: the monitor on duty, or a person or program by GET /v1/audit or POST /v1/audit:repair."`
	Began    time.Time      `json:"began"`
	At       time.Time      `json:"at" doc:"When the audit ended, or was last heard of."`
	Accounts int            `json:"accounts" doc:"Registered accounts that were checked."`
	Unjudged int            `json:"unjudged" doc:"Accounts that could not be judged, because their shards' lists moved too fast to be read. The next audit looks at them again."`
	Kinds    []FindingCount `json:"kinds" nullable:"false" doc:"The numbers of findings, by kind. Kinds without findings are left out."`
	Audited  int            `json:"shards_audited" doc:"Shards done."`
	Shards   int            `json:"shards" doc:"The number of shards."`

	Findings []circulate.Finding `json:"findings" nullable:"false" doc:"The first 10 findings."`

	Why string `json:"why,omitempty" enum:"redis,failed,stopped" doc:"Why it broke off. redis: Redis could not be reached; failed: a step failed, see the monitor's log; stopped: nothing was heard of it for a minute, because its monitor stopped or could not reach Redis, and no monitor has gone on yet."`
}

// Law is what is known about the conservation law. Its times are by Redis' clock.
type Law struct {
	Now   time.Time `json:"now"`
	State State     `json:"state" enum:"kept,repaired,unjudged,flawed,violated,broken,old,first,never" doc:"kept: every account is in exactly one place; repaired: faults were found, and all repaired; unjudged: some accounts could not be judged; flawed: no account is lost or doubled, but there were other findings; violated: accounts are lost or doubled; broken: the latest audit broke off; old: the last audit is too long ago; first: the first audit is running; never: there was none."`
	Every float64   `json:"every_seconds" doc:"The shortest time between the beginnings of two audits by the monitor on duty."`

	Last    *AuditResult `json:"last,omitempty" doc:"The last complete audit."`
	Running *AuditResult `json:"running,omitempty" doc:"The audit that a monitor is doing."`
	Broken  *AuditResult `json:"broken,omitempty" doc:"An audit that began after the last complete one and broke off."`
}

// Read returns what is known about the law of a ring's namespace. Documents that cannot be
// read, as of a later version, count as missing.
func Read(ctx context.Context, ring *circulate.Ring) (Law, error) {
	found, now, err := document.Of(ring).Notices().Read(ctx, lastName, runName)
	if err != nil {
		return Law{}, fmt.Errorf("law: %w", err)
	}
	l := Law{Now: now.UTC(), Every: usual.Seconds()}
	last, run := new(AuditResult), new(run)
	if json.Unmarshal(found[lastName].Text, last) == nil {
		l.Last = last
	}
	if json.Unmarshal(found[runName].Text, run) == nil {
		l.see(run, found[runName].Posted)
	}
	l.State = l.judge()
	return l, nil
}

// see takes over the latest audit by a monitor, unless that has ended properly.
func (l *Law) see(r *run, posted time.Time) {
	if r.Every > 0 {
		l.Every = r.Every
	}
	switch {
	case r.Ended && r.Why == "":
	case !r.Ended && r.Why == "" && l.Now.Sub(posted) < runAlive:
		l.Running = &r.AuditResult
	case l.Last == nil || r.Began.After(l.Last.Began):
		if !r.Ended && r.Why == "" {
			r.Why = "stopped"
		}
		l.Broken = &r.AuditResult
	}
}

// judge returns the state.
func (l *Law) judge() State {
	for _, a := range []*AuditResult{l.Last, l.Running, l.Broken} {
		if a != nil && a.left(circulate.Lost, circulate.Doubled) > 0 {
			return Violated
		}
	}
	switch {
	case l.Broken != nil:
		return Broken
	case l.Last == nil && l.Running != nil:
		return First
	case l.Last == nil:
		return Never
	case l.Now.Sub(l.Last.At) > l.allowed():
		return Old
	case l.Last.left() > 0:
		return Flawed
	case l.Last.Unjudged > 0:
		return Unjudged
	case len(l.Last.Kinds) > 0:
		return Repaired
	}
	return Kept
}

// allowed is how long ago the last audit may be: about twice the time from the end of one to
// the end of the next.
func (l *Law) allowed() time.Duration {
	every := time.Duration(l.Every * float64(time.Second))
	return 2*max(every, l.Last.Took()) + slack
}

// Took returns how long an audit took.
func (a *AuditResult) Took() time.Duration { return max(0, a.At.Sub(a.Began)) }

// Found returns how many findings of a kind there are, and how many of them were repaired.
func (a *AuditResult) Found(kind circulate.Violation) (found, repaired int) {
	for _, k := range a.Kinds {
		if k.Kind == kind {
			return k.Found, k.Repaired
		}
	}
	return 0, 0
}

// left returns how many findings of some kinds, or of all, were not repaired.
func (a *AuditResult) left(kinds ...circulate.Violation) (n int) {
	if len(kinds) == 0 {
		kinds = circulate.Violations()
	}
	for _, kind := range kinds {
		found, repaired := a.Found(kind)
		n += found - repaired
	}
	return n
}

// Add adds what was found in more shards.
func (a *AuditResult) Add(accounts, unjudged int, kinds []FindingCount, findings []circulate.Finding) {
	a.Accounts += accounts
	a.Unjudged += unjudged
	for _, more := range kinds {
		a.count(more)
	}
	findings = findings[:max(0, min(len(findings), examples-len(a.Findings)))]
	a.Findings = append(a.Findings, findings...)
}

func (a *AuditResult) count(more FindingCount) {
	for i := range a.Kinds {
		if a.Kinds[i].Kind == more.Kind {
			a.Kinds[i].Found += more.Found
			a.Kinds[i].Repaired += more.Repaired
			return
		}
	}
	a.Kinds = append(a.Kinds, more)
}

// CountsOf returns the numbers of findings by kind. Kinds without findings are left out.
func CountsOf(number func(kind circulate.Violation) (found, repaired int)) []FindingCount {
	counts := []FindingCount{}
	for _, kind := range circulate.Violations() {
		if found, repaired := number(kind); found > 0 {
			counts = append(counts, FindingCount{kind, found, repaired})
		}
	}
	return counts
}

// begin returns an audit of a ring with that many shards that begins now.
func begin(by string, now time.Time, shards int) AuditResult {
	return AuditResult{By: by, Began: now.UTC(), At: now.UTC(), Kinds: []FindingCount{}, Shards: shards, Findings: []circulate.Finding{}}
}
