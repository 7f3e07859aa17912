package concern

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/circulate"
)

// The thresholds of a concern, and of a bad one.
const (
	overdueFrom    = 2 * time.Minute
	overdueBad     = 10 * time.Minute
	laggingFrom    = 2 * time.Minute
	newlyLeast     = 3    // accounts that have begun to fail within an hour
	newlyShare     = 0.01 // of all
	newlyBad       = 0.2
	eventShown     = time.Hour      // how long a concern without an end is shown
	lostShown      = 24 * time.Hour // the same for entries of the trail
	storeFailsFrom = time.Minute    // that the store of files has failed
	unfetchedFrom  = time.Hour      // until a file may be forgotten
	unfetchedBad   = 10 * time.Minute
	memoryBad      = "95" // per cent of maxmemory
	denyingFrom    = 60   // denials a minute
	warningFrom    = 5    // checks with a warning a minute
	roleMonitor    = "monitor"
	roleDelivery   = "delivery"
	webhookGroup   = "webhook." // the prefix of an endpoint's consumer group
	startingWithin = 2 * time.Minute
)

func (f *facts) ofLaw() []Concern {
	l := &f.law
	switch l.State {
	case Violated:
		worst := Concern{Code: LawViolated, Level: Bad}
		for _, a := range []*AuditResult{l.Last, l.Running, l.Broken} {
			if a == nil {
				continue
			}
			if n := a.left(circulate.Lost, circulate.Doubled); n > worst.Accounts {
				worst.Accounts, worst.Since = n, a.At
				if i := slices.IndexFunc(a.Findings, func(f circulate.Finding) bool { return !f.Repaired }); i >= 0 {
					worst.Account = a.Findings[i].ID
				}
			}
		}
		return []Concern{worst}
	case Broken:
		return []Concern{{Code: AuditBroken, Level: Warn, Since: l.Broken.At, Value: l.Broken.Why}}
	case Old:
		return []Concern{{Code: AuditOld, Level: Warn, Since: l.Last.At, Seconds: l.Now.Sub(l.Last.At).Seconds()}}
	case Flawed:
		return []Concern{{Code: LawFlawed, Level: Warn, Since: l.Last.At, Count: l.Last.left()}}
	}
	return nil
}

func (f *facts) ofProcesses() (all []Concern) {
	there, since := f.has(roleMonitor)
	switch {
	case !there && f.returned():
	case !there:
		all = append(all, Concern{Code: NoMonitor, Level: Bad, Since: latest(f.told, f.lastHeard(roleMonitor))})
	case f.now.Sub(latest(f.told, f.stats.Outage.Till)) >= watchLasts && f.stats.Now.Sub(since) >= watchLasts:
		all = append(all, Concern{Code: WatchOld, Level: Warn, Since: f.told})
	}
	accounts.Compare(f.stats.Processes, func(p *accounts.Process) bool { return f.alive(p.Beat) })
	var versions []string
	differing := make(map[string]int)
	for i := range f.stats.Processes {
		p := &f.stats.Processes[i]
		if !f.alive(p.Beat) {
			continue
		}
		if v := p.Report.Version; v != "" && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
		for _, d := range p.Differs {
			differing[d.Setting]++
		}
		if at := p.Report.TrailLostAt; p.Report.TrailLost > 0 && f.stats.Now.Sub(at) < lostShown {
			all = append(all, Concern{Code: TrailLost, Level: Warn, Subject: p.Name, Count: p.Report.TrailLost, Since: at})
		}
		if p.Report.Files != nil {
			all = append(all, f.ofFiles(p.Name, p.Report.Files)...)
		}
	}
	all = append(all, f.ofSilent()...)
	for setting := range differing {
		all = append(all, Concern{Code: SettingsDiffer, Level: Warn, Subject: setting})
	}
	if len(versions) > 1 {
		slices.Sort(versions)
		all = append(all, Concern{Code: VersionsDiffer, Level: Note, Count: len(versions), Value: strings.Join(versions, ", ")})
	}
	return all
}

// ofFiles returns the concerns from what keeps a process from fetching files.
func (f *facts) ofFiles(process string, r *accounts.FilesReport) (all []Concern) {
	if !r.StoreSince.IsZero() && f.stats.Now.Sub(r.StoreSince) >= storeFailsFrom {
		all = append(all, Concern{Code: FilesStoreFails, Level: Bad, Subject: process, Value: r.StoreWhy, Since: r.StoreSince})
	}
	if !r.FullSince.IsZero() {
		all = append(all, Concern{Code: FilesFull, Level: Warn, Subject: process, Since: r.FullSince})
	}
	if left := r.Soonest.Sub(f.stats.Now); r.Waiting > 0 && left < unfetchedFrom {
		level := Warn
		if left < unfetchedBad {
			level = Bad
		}
		all = append(all, Concern{Code: FilesUnfetched, Level: level, Messages: r.Waiting, Seconds: left.Seconds(), Account: r.Account})
	}
	return all
}

func (f *facts) ofReplicas() (all []Concern) {
	kinds, living := f.kinds(), f.replicas()
	for _, r := range living {
		if r.Report.Outage {
			all = append(all, Concern{Code: Outage, Level: Bad, Subject: r.Name, Value: r.Report.Host})
		}
		if r.Report.MemoryShort {
			all = append(all, Concern{Code: MemoryShort, Level: Bad, Subject: r.Name, Value: r.Report.Host})
		}
	}
	if len(living) == 0 && f.returned() {
		return all
	}
	if len(living) == 0 {
		return append(all, Concern{Code: NoReplica, Level: Bad})
	}
	all = append(all, f.ofRecent()...)
	missing := make(map[string]int)
	if f.stats.Failing != nil {
		for _, k := range f.stats.Failing.Kinds {
			if k.Behind > 0 && k.Kind != "" {
				missing[k.Kind] = k.Behind
			}
		}
	}
	if f.watched.Counted != nil {
		for _, kind := range f.watched.Counted.Missing {
			missing[kind] = max(missing[kind], 0)
		}
	}
	for kind, behind := range missing {
		if !kinds[kind] && len(kinds) > 0 {
			all = append(all, Concern{Code: KindUnchecked, Level: Bad, Subject: kind, Accounts: behind})
		}
	}
	return all
}

// kinds returns the kinds that living replicas check.
func (f *facts) kinds() map[string]bool {
	kinds := make(map[string]bool)
	for _, r := range f.replicas() {
		for _, kind := range r.Report.Kinds {
			kinds[kind] = true
		}
	}
	return kinds
}

// replicas returns the living replicas.
func (f *facts) replicas() (living []*accounts.Replica) {
	for i := range f.stats.Replicas {
		if r := &f.stats.Replicas[i]; f.alive(r.Beat) {
			living = append(living, r)
		}
	}
	return living
}

// warned is what warnings that are counted together have in common.
type warned struct{ kind, code string }

// ofRecent returns the concerns from what replicas report about the last minute, all
// together.
// ofBudget returns what keeps adaptive accounts from their budget.
func (f *facts) ofBudget() []Concern {
	s := &f.budget
	if s.Budget <= 0 {
		return nil
	}
	c := Concern{Value: budget.Text(s.Budget), Share: s.Spent / s.Budget}
	switch s.Verdict() {
	case budget.TooSmall:
		c.Code, c.Level = BudgetTooSmall, Warn
	case budget.Unused:
		c.Code, c.Level = BudgetUnused, Note
	default:
		return nil
	}
	return []Concern{c}
}

func (f *facts) ofRecent() (all []Concern) {
	denials, warnings := make(map[string]int), make(map[warned]accounts.Recent)
	for _, r := range f.replicas() {
		for _, d := range r.Report.Denials {
			denials[d.Name] += d.PerMinute
		}
		for _, w := range r.Report.Warnings {
			of := warned{w.Name, w.Code}
			warnings[of] = accounts.Recent{PerMinute: warnings[of].PerMinute + w.PerMinute, Account: cmp.Or(warnings[of].Account, w.Account)}
		}
	}
	for name, n := range denials {
		if n >= denyingFrom {
			all = append(all, Concern{Code: LimitDenying, Level: Note, Subject: name, PerMinute: n})
		}
	}
	for _, p := range f.paused {
		left := max(time.Minute, p.Until.Sub(f.now)+time.Minute-1).Truncate(time.Minute)
		c := Concern{Code: OwnerPaused, Level: Warn, Subject: ownerName(p.Owner), Seconds: left.Seconds(), Value: p.Reason}
		if f.pausedMore > 0 {
			c.Count = f.pausedMore + 1
		}
		all = append(all, c)
	}
	for of, w := range warnings {
		if w.PerMinute < warningFrom {
			continue
		}
		all = append(all, Concern{Code: ChecksWarn, Level: Note, Subject: of.kind, Value: of.code, PerMinute: w.PerMinute, Account: w.Account})
	}
	return all
}

func (f *facts) ofRedis() (all []Concern) {
	for _, fault := range f.redis {
		c := Concern{Code: Code("redis_" + fault.Code), Level: Warn, Subject: fault.Node, Value: fault.Value, Text: fault.Text}
		switch c.Code {
		case RedisEviction, RedisAppendFails, RedisSnapshot, RedisUnsaved:
			c.Level = Bad
		case RedisMemory:
			if len(fault.Value) > len(memoryBad) || fault.Value >= memoryBad {
				c.Level = Bad
			}
		case RedisUnasked:
			c.Level = Note
		}
		if entryOf(c.Code) == nil {
			continue // a fault that this version does not know has no words
		}
		all = append(all, c)
	}
	if step := f.stats.ClockStep; step != nil && f.stats.Now.Sub(step.At).Abs() < eventShown {
		all = append(all, Concern{Code: ClockStepped, Level: Warn, Since: step.At, Seconds: step.Seconds, Accounts: step.Moved})
	}
	return all
}

// ofFailing returns the concern about accounts that have begun to fail, from the summary of
// problems, which the monitor makes every minute. The last scan has such a figure too, but of
// another time and another whole.
func (f *facts) ofFailing() []Concern {
	now := f.watched.Failing
	if now == nil {
		return nil
	}
	share, jumps := jumped(now.Newly, now.Of)
	if !jumps {
		return nil
	}
	c := Concern{Code: FailingJumped, Level: Warn, Accounts: now.Newly, Of: now.Of, Share: share, Since: now.Since, AsOf: now.At}
	if share >= newlyBad {
		c.Level = Bad
	}
	return []Concern{c}
}

// ofScan returns the concerns from the last scan of all accounts, unless it is too long
// ago. A scan of a million accounts takes a quarter of an hour.
func (f *facts) ofScan() (all []Concern) {
	scan := f.stats.Staleness
	if scan == nil || f.stats.Now.Sub(scan.At) >= eventShown {
		return nil
	}
	for _, h := range scan.Headroom {
		if h.Low == 0 {
			continue
		}
		c := Concern{Code: HeadroomLow, Level: Warn, Subject: h.Kind, Accounts: h.Low, Seconds: h.Least, Account: h.Account, AsOf: scan.At}
		if h.Critical > 0 {
			c.Level = Bad
		}
		all = append(all, c)
	}
	return all
}

func (f *facts) ofWatched() (all []Concern) {
	if c := f.watched.Counted; c != nil && len(f.replicas()) > 0 && c.Overdue >= overdueFrom.Seconds() {
		level := Warn
		if c.Overdue >= overdueBad.Seconds() {
			level = Bad
		}
		since := c.Since
		if since.IsZero() { // a monitor of an earlier version counted
			since = c.At.Add(overdueFrom - seconds(c.Overdue))
		}
		all = append(all, Concern{Code: Overdue, Level: level, Seconds: c.Overdue, Accounts: c.Waiting, Since: since, AsOf: c.At})
	}
	if d := f.watched.Dead; d != nil && d.Letters > 0 {
		all = append(all, Concern{Code: DeadLetters, Level: Warn, Messages: d.Letters, Seconds: d.Oldest, AsOf: d.At})
	}
	if d := f.watched.Doubts; d != nil && d.Sends > 0 {
		c := Concern{Code: SendsUnknown, Level: Warn, Sends: d.Sends, Since: d.Since, AsOf: d.At}
		if !d.Oldest.IsZero() {
			c.Seconds = d.At.Sub(d.Oldest).Seconds()
		}
		all = append(all, c)
	}
	if q := f.watched.Quarantined; q != nil && q.Accounts > 0 {
		all = append(all, Concern{Code: Quarantined, Level: Warn, Accounts: q.Accounts, AsOf: q.At})
	}
	if t := f.watched.Trimmed; t != nil && t.Early > 0 {
		all = append(all, Concern{Code: MessagesDropped, Level: Warn, Messages: t.Early, Since: t.At})
	}
	return all
}

// ownerName returns the name in an owner of accounts, as kinds write it: KIND|NAME|URL.
func ownerName(owner string) string {
	if parts := strings.Split(owner, "|"); len(parts) == 3 {
		return parts[1]
	}
	return owner
}
