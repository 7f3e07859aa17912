// Package concern says what is wrong with the service now: each concern as a code with
// parameters, so that any language can express it, and as an English sentence. It reads
// what replicas, processes and the monitor on duty store in Redis anyway. It never scans.
//
// A concern ends when its cause has ended. What nobody watches any more is no concern:
// that nobody watches is one.
package concern

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"time"
)

// Level is how bad a concern is.
type Level string

// The levels.
const (
	Bad  Level = "bad"  // accounts are not checked, messages do not arrive, or data may be lost
	Warn Level = "warn" // it may become bad, or something does not do what it should
	Note Level = "note" // worth knowing
)

var levels = []Level{Bad, Warn, Note}

// Code says what a concern is about. It never changes its meaning.
type Code string

// The codes. The table has their sentences and pages.
const (
	LawViolated      Code = "law_violated"     // accounts are lost or doubled
	NoReplica        Code = "no_replica"       // no replica is alive
	NoMonitor        Code = "no_monitor"       // no monitor is alive
	WatchOld         Code = "watch_old"        // a monitor is alive, but has not reported what it watches
	Outage           Code = "outage_suspected" // the network of replicas seems to be down
	MemoryShort      Code = "memory_short"     // replicas take no messages, because Redis' memory is used up to the mark
	RedisEviction    Code = "redis_eviction"   // Redis drops keys when its memory is full
	RedisAppendFails Code = "redis_append_fails"
	RedisSnapshot    Code = "redis_snapshot_fails"
	RedisUnsaved     Code = "redis_unsaved" // a process with an embedded Redis cannot save its data
	RedisMemory      Code = "redis_memory"
	RedisAppendOnly  Code = "redis_appendonly"
	RedisNoSync      Code = "redis_no_fsync"
	RedisReplicas    Code = "redis_min_replicas"
	RedisDamaged     Code = "redis_damaged"    // its saved data was damaged
	RedisLarge       Code = "redis_large"      // it has so much data that saving takes long
	KindUnchecked    Code = "kind_unchecked"   // no living replica checks a kind
	Overdue          Code = "overdue"          // accounts wait to be claimed
	FailingJumped    Code = "failing_jumped"   // many accounts have begun to fail
	HeadroomLow      Code = "headroom_low"     // third parties will forget messages that no check has fetched
	WebhookDisabled  Code = "webhook_disabled" // an endpoint gets no messages until it is enabled
	WebhookRefused   Code = "webhook_refused"  // an endpoint does not take its messages
	WebhookKind      Code = "webhook_kind"     // an endpoint is for a kind that no living replica checks
	NoDelivery       Code = "no_delivery"      // no process delivers to an endpoint
	NoDeliveryRole   Code = "no_delivery_role" // endpoints are named, and no process delivers to any
	GroupLagging     Code = "group_lagging"    // a consumer group falls behind
	MessagesDropped  Code = "messages_dropped" // messages were dropped before they were past their retention
	DeadLetters      Code = "dead_letters"
	FilesStoreFails  Code = "files_store_fails" // the store of files cannot be written
	FilesFull        Code = "files_full"        // a quota refuses files
	FilesUnfetched   Code = "files_unfetched"   // third parties will forget files that are put off
	SendsUnknown     Code = "sends_unknown"     // nobody knows how attempts of sends went
	Quarantined      Code = "quarantined"       // accounts were parked because their checks hang or kill replicas
	ClockStepped     Code = "clock_stepped"
	ProcessSilent    Code = "process_silent" // a process went silent without leaving
	SettingsDiffer   Code = "settings_differ"
	TrailLost        Code = "trail_lost"
	AuditBroken      Code = "audit_broken"
	AuditOld         Code = "audit_old"
	LawFlawed        Code = "law_flawed"   // an audit found something besides lost and doubled accounts
	OwnerPaused      Code = "owner_paused" // a third party asked to leave an owner of accounts alone
	LimitDenying     Code = "limit_denying"
	BudgetTooSmall   Code = "budget_too_small" // adaptive accounts spend more than their budget at their longest intervals
	BudgetUnused     Code = "budget_unused"    // they spend less at their shortest
	ChecksWarn       Code = "checks_warn"      // checks succeed though something is wrong with the answers
	VersionsDiffer   Code = "versions_differ"
	RedisUnasked     Code = "redis_unasked"
	BackupOld        Code = "backup_old" // backups were taken, and the last one is long ago
)

// Concern is something that is wrong now. Only the fields that its code needs are set.
//
// Since is when the concern began, by Redis' clock: the moment at which what it says became true,
// such as when a group's oldest message had waited for two minutes, and not the moment of a look.
// It stays the same for as long as the concern does, and is not before what the concern is about
// existed. It is left out where nobody knows it. How long something has waited is a figure of its
// own, Seconds. AsOf is when the figures were found, and is left out if that was just now.
type Concern struct {
	Code    Code   `json:"code" doc:"What is wrong. A code never changes its meaning; later versions may have more."`
	Level   Level  `json:"level" enum:"bad,warn,note" doc:"bad: accounts are not checked, messages do not arrive, or data may be lost; warn: it may become bad, or something does not do what it should; note: worth knowing."`
	Subject string `json:"subject,omitempty" doc:"What it is about, such as the name of an endpoint, group, kind, limit or Redis server. If there are several, it is the worst one."`
	Count   int    `json:"count,omitempty" doc:"How many subjects are alike, if there are several. The other fields are then about all of them together."`

	Names []string `json:"names,omitempty" doc:"Of several processes that went silent, their names, the earliest first, at most ten."`

	Since     time.Time `json:"since,omitzero" doc:"When it began, or when it was: a moment that stays the same while the concern lasts. For how long messages or accounts have waited is in seconds."`
	AsOf      time.Time `json:"as_of,omitzero" doc:"When the figures were found, if that was not just now."`
	Seconds   float64   `json:"seconds,omitempty" doc:"A duration: for how long accounts or messages wait, how much time is left, or how far a clock stepped."`
	Accounts  int       `json:"accounts,omitempty" doc:"How many accounts it affects."`
	Of        int       `json:"of,omitempty" doc:"How many accounts were looked at in all."`
	Messages  int       `json:"messages,omitempty" doc:"How many messages it affects."`
	Sends     int       `json:"sends,omitempty" doc:"How many sends it affects."`
	Share     float64   `json:"share,omitempty" doc:"A share, from 0 to 1."`
	PerMinute int       `json:"per_minute,omitempty" doc:"How often it happens."`
	Value     string    `json:"value,omitempty" doc:"A status, a setting's value or a code. several: webhooks that refuse messages do it for different causes."`
	Account   string    `json:"account,omitempty" doc:"The id of an account that it affects."`

	Seen     *Seen    `json:"seen,omitempty" doc:"Somebody has acknowledged it since it began."`
	Silenced *Silence `json:"silenced,omitempty" doc:"It is to trouble nobody for a while: it does not count for healthy, and the alerts that come with Rounds for the same reason do not fire if all concerns of its code are silent."`

	Link string `json:"link" doc:"The page of the dashboard that has more."`
	Text string `json:"text" doc:"The concern in an English sentence."`
}

// Concerns is everything that is wrong now.
type Concerns struct {
	Now      time.Time `json:"now" doc:"By Redis' clock."`
	Healthy  bool      `json:"healthy" doc:"There is no concern above the level note, except silenced ones."`
	Concerns []Concern `json:"concerns" nullable:"false" doc:"The worst first and silenced ones last, one for each code and level. Lagging groups have one for each cause, checks with warnings one for each code of a warning, and webhooks without a kind one for each kind."`

	Watched time.Time `json:"watched,omitzero" doc:"When the monitor on duty last reported what it watches; left out if no monitor ever did."`
}

// figuresYoung is the age up to which figures are shown without their time.
const figuresYoung = 10 * time.Second

// Old reports whether the figures of a concern are so old that they are shown with their time.
func (l *Concerns) Old(c *Concern) bool { return !c.AsOf.IsZero() && l.Now.Sub(c.AsOf) > figuresYoung }

// several is the value of webhooks that refuse messages for different causes.
const several = "several"

// newList merges concerns that are alike, sorts them, and adds their links and sentences.
func newList(now time.Time, all []Concern) Concerns {
	l := Concerns{Now: now.UTC(), Healthy: true, Concerns: []Concern{}}
	for _, c := range mergeAlike(all) {
		c.Link = entryOf(c.Code).page
		if c.Code == ChecksWarn {
			c.Link += "?" + url.Values{"error": {c.Value}}.Encode()
		}
		if c.Text == "" || c.Count > 1 { // a concern about one Redis server has a better text: it names the setting to change
			c.Text = c.Sentence("en", plain())
		}
		l.Concerns = append(l.Concerns, *c)
		l.Healthy = l.Healthy && (c.Level == Note || c.Silenced != nil)
	}
	codes := Codes()
	slices.SortFunc(l.Concerns, func(a, b Concern) int {
		return cmp.Or(silent(&a)-silent(&b), slices.Index(levels, a.Level)-slices.Index(levels, b.Level), slices.Index(codes, a.Code)-slices.Index(codes, b.Code),
			cmp.Compare(b.weight(), a.weight()), cmp.Compare(a.Subject, b.Subject))
	})
	return l
}

// silent returns 1 for a silenced concern, which comes after the others.
func silent(c *Concern) int {
	if c.Silenced != nil {
		return 1
	}
	return 0
}

// mergeAlike makes one concern of all that have the same level and code and, where the value tells
// different causes apart, the same value. Silenced ones stay apart from the others.
func mergeAlike(all []Concern) []*Concern {
	type key struct {
		level Level
		code  Code
		value string
		quiet int
	}
	merged := make(map[key]*Concern)
	for _, c := range all {
		k := key{level: c.Level, code: c.Code, quiet: silent(&c)}
		if c.Code == GroupLagging || c.Code == WebhookKind || c.Code == ChecksWarn {
			k.value = c.Value
		}
		if merged[k] == nil {
			merged[k] = &c
			continue
		}
		merged[k].add(&c)
	}
	return slices.Collect(maps.Values(merged))
}

// add adds another concern that is alike. The one with the greater weight stays the subject.
func (c *Concern) add(other *Concern) {
	worse := *c
	if other.weight() > c.weight() {
		worse = *other
	}
	worse.Count = max(1, c.Count) + max(1, other.Count)
	worse.Accounts, worse.Messages, worse.PerMinute = c.Accounts+other.Accounts, c.Messages+other.Messages, c.PerMinute+other.PerMinute
	worse.Of, worse.Sends = c.Of+other.Of, c.Sends+other.Sends
	worse.Seconds = max(c.Seconds, other.Seconds)
	if c.Code.countsDown() {
		worse.Seconds = min(c.Seconds, other.Seconds)
	}
	worse.Share = max(c.Share, other.Share)
	if c.Code == WebhookRefused && c.Value != other.Value {
		worse.Value = several // their causes differ
	}
	if c.Since.IsZero() || !other.Since.IsZero() && other.Since.Before(c.Since) {
		worse.Since = other.Since
	} else {
		worse.Since = c.Since
	}
	if c.Seen == nil || other.Seen == nil {
		worse.Seen = nil // somebody may not have seen one of them
	}
	worse.AsOf = c.AsOf
	if c.AsOf.IsZero() || !other.AsOf.IsZero() && other.AsOf.Before(c.AsOf) {
		worse.AsOf = other.AsOf
	}
	*c = worse
}

// countsDown reports whether the concern is the worse, the fewer seconds are left.
func (c Code) countsDown() bool { return c == HeadroomLow || c == FilesUnfetched }

func (c *Concern) weight() float64 {
	if c.Code.countsDown() {
		return -c.Seconds
	}
	return float64(c.Accounts+c.Messages+c.Sends+c.PerMinute) + c.Seconds/1e6 + c.Share
}
