package api

import (
	"context"
	"math"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/history"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/limit"
)

// Schedule says where an account is, when it is checked next, and why at that time.
type Schedule struct {
	ID    string    `json:"id"`
	Kind  string    `json:"kind,omitempty"`
	Shard int       `json:"shard"`
	Now   time.Time `json:"now" doc:"The time by Redis' clock, like all times here."`
	Fault string    `json:"fault,omitempty" doc:"Why the record, or its cadence, cannot be read. Its fields are then unknown."`

	Place    circulate.Place `json:"place" enum:"scheduled,waiting,claimed,parked" doc:"scheduled: due later; waiting: due and next in line; claimed: being checked; parked: out of circulation."`
	Due      time.Time       `json:"due,omitzero" doc:"When it is checked next, if scheduled."`
	Since    time.Time       `json:"since,omitzero" doc:"Since when it waits, is claimed or is parked."`
	Replica  string          `json:"replica,omitempty" doc:"The replica that checks it, if claimed."`
	Reason   string          `json:"reason,omitempty" doc:"Why it is parked: \"paused\", or what went wrong."`
	Priority string          `json:"priority" enum:"urgent,normal,low" doc:"The lane that it waits in when it is due. A nudged account waits in the urgent lane."`
	Lanes    *Lanes          `json:"lanes,omitempty" doc:"What is ahead of it, if it waits."`

	Rule    string `json:"rule" doc:"What decides when it is checked next. Scheduled: what decided when it is due (cadence, adaptive, cron, at, more, poll-after, retry-after, backoff, limit, outage, down, isolation, redis-memory, share, crowd, registered, resumed, nudge, probe). Waiting: priority. Claimed: claimed. Parked: paused, retry-budget, auth, gone, config, finished, isolation or parked."`
	Why     string `json:"why" doc:"The same as a sentence."`
	DueRule string `json:"due_rule" doc:"The rule that decided when it became due, wherever it is now: one of the words for scheduled accounts, or the rule that parked it."`

	Cadence string      `json:"cadence,omitempty"`
	Slots   []time.Time `json:"slots" nullable:"false" doc:"The next slots of its cadence from when it is due, at most three, provided that checks succeed. A parked account has none, nor does \"every 0\"."`
	Nudged  time.Time   `json:"nudged_to,omitzero" doc:"When a nudged check is due, if the nudge came while the account waited or was checked. It takes effect when the account is returned."`

	Failures  int       `json:"failures" doc:"Failed checks in a row."`
	Left      *int      `json:"failures_left,omitempty" doc:"How many more failures like the last one park it; see parks. Left out if the account does not fail, or is parked."`
	Parks     *Parks    `json:"parks,omitempty" doc:"What parks it if its checks go on failing like the last one. Left out with failures_left."`
	Strikes   int       `json:"strikes" doc:"How often it was taken from a replica that did not return it, since the last good return."`
	Succeeded time.Time `json:"last_success,omitzero" doc:"When a check last succeeded completely; left out if none ever did."`
	Begun     time.Time `json:"registered,omitzero" doc:"If no check ever succeeded completely: when it was registered."`
	Staleness *float64  `json:"staleness_seconds,omitempty" doc:"The time since last_success, or else since registered."`
	Checks    []string  `json:"checks" nullable:"false" doc:"How the last checks went, the newest first, at most eight: ok, more (there is more), blameless (failed, without counting against the account), transient, rate_limited, auth, gone, config, cursor_invalid, protocol, hung, panic, maintenance (failed in a maintenance window)."`
	Error     string    `json:"last_error,omitempty" doc:"What went wrong with the last check, if it did."`
	ErrorAt   time.Time `json:"last_error_at,omitzero"`
	Warning   string    `json:"warning,omitempty" doc:"What was wrong at the last check although it succeeded. malformed: the feed is not well-formed XML, and was read as far as possible; moved: it has another address for good; cursor_stuck: messages were found and the cursor has not moved; field_name: a field is probably misspelt."`

	Retention *float64  `json:"retention_seconds,omitempty" doc:"How long the third party retains messages; left out if unknown."`
	Hold      float64   `json:"hold_seconds,omitempty" doc:"How long the third party holds a call until something comes, as the kind knows it; left out if not at all. While such an account is claimed, one call follows another, and since is when its claim was last written."`
	Headroom  *float64  `json:"headroom_seconds,omitempty" doc:"The time until the third party forgets unfetched messages; negative if it already has."`
	Skip      time.Time `json:"passing_over_before,omitzero" doc:"It was resumed from now: messages from before this time are dropped until it has caught up."`

	NeverSucceeded bool `json:"never_succeeded,omitempty" doc:"No check is known to have ever succeeded completely."`

	Maintenance []MaintenanceWindow `json:"maintenance,omitempty" doc:"The maintenance windows under way that it is in: its failures count nowhere."`

	Push *Push `json:"push,omitempty" doc:"The hub that announces what is new, if the account subscribes at one."`

	Answers *Answers `json:"answers,omitempty" doc:"How its answers stand. Left out if it cannot send."`

	Way string `json:"way,omitempty" doc:"The way of ROUNDS_EGRESS by which all its calls go, as this process has that setting; left out if by none. If its label egress names a way that there is not, its calls go nowhere, and last_error says so."`

	WayDown *Down `json:"way_down,omitempty" doc:"While the way is down or pauses, as GET /v1/limits has it: the account's checks and sends wait for a probe."`
}

// Push says how a subscription at a hub stands.
type Push struct {
	Hub   string    `json:"hub" doc:"The host of the hub."`
	State string    `json:"state" enum:"asked,denied,live,trusted" doc:"asked: the hub has granted no lease yet; denied: it refused; live: its pushes ask for checks beside the cadence; trusted: they announce what is found, so that the account is checked every six hours besides."`
	Until time.Time `json:"until,omitzero" doc:"The end of the lease, which is renewed before."`
	Last  time.Time `json:"last,omitzero" doc:"The last check that a push asked for."`
}

// pushOf returns how an account's subscription stands; nil: it has none.
func (s *Server) pushOf(ctx context.Context, id string) (*Push, error) {
	if s.options.Hubs == nil {
		return nil, nil
	}
	has, now, err := s.options.Hubs.Of(ctx, id)
	if err != nil || has == nil {
		return nil, err
	}
	return &Push{Hub: has.Host(), State: has.State(now), Until: inUTC(has.Until), Last: inUTC(has.Pushed)}, nil
}

// Parks says what parks an account that goes on failing as it did last.
type Parks struct {
	Rule  string    `json:"rule" enum:"retry-budget,auth,gone,config" doc:"The rule that parks it."`
	After int       `json:"after" doc:"The number of failures in a row, or of refusals of its credential, that park it."`
	Over  float64   `json:"over_seconds,omitempty" doc:"The least time from the first refusal to the one that parks it."`
	From  time.Time `json:"from,omitzero" doc:"When it is parked at the earliest."`
}

// Lanes says how many accounts wait with a due one.
type Lanes struct {
	Lane   string `json:"lane,omitempty" doc:"The lane that it waits in; left out if it is too far behind to be found."`
	Kind   string `json:"kind,omitempty" doc:"The kind by which it waits for a replica that checks that kind; ahead then counts accounts of its kind."`
	Ahead  int    `json:"ahead" doc:"Accounts in its lane that are claimed before it."`
	Urgent int    `json:"urgent" doc:"Accounts that wait in each lane of its shard."`
	Normal int    `json:"normal"`
	Low    int    `json:"low"`

	Before  *int     `json:"before,omitempty" doc:"About how many accounts of its shard are claimed before it, including other lanes; left out if unknown."`
	Seconds *float64 `json:"estimate_seconds,omitempty" doc:"About how long that takes at the rate of the last minute; left out if the rate is unknown or zero."`
}

func (s *Server) getSchedule(ctx context.Context, r *AccountID) (Schedule, error) {
	e, err := s.registry(ctx).Explain(ctx, r.ID)
	if err != nil {
		return Schedule{}, err
	}
	way := ""
	if s.options.Way != nil {
		way = s.options.Way(&e.Account)
	}
	var troubles map[string]*limit.Trouble
	if e.DueRule == accounts.RuleDown || way != "" {
		if troubles, _, err = limit.TroublesOf(s.options.Ring).All(ctx); err != nil {
			return Schedule{}, err
		}
	}
	names := make([]string, 0, 3)
	if e.Shares != "" {
		names = append(names, e.Shares, limit.Via(e.Shares, way))
	}
	var down *Down
	if way != "" {
		names = append(names, targetWays+way)
		if t := troubles[limit.TroubleKey(targetWays+way)]; t != nil {
			d := downOf(t)
			down = &d
		}
	}
	if e.DueRule == accounts.RuleDown {
		waitsAt(&e, names, troubles)
	}
	schedule := scheduleOf(&e)
	schedule.Way, schedule.WayDown = way, down
	if lanes := schedule.Lanes; lanes != nil && lanes.Before != nil {
		if rate := s.rate(ctx); rate > 0 {
			seconds := float64(*lanes.Before) * float64(s.options.Ring.Shards()) / rate
			lanes.Seconds = &seconds
		}
	}
	if schedule.Maintenance, err = s.maintains(ctx, &e); err != nil {
		return schedule, err
	}
	if schedule.Push, err = s.pushOf(ctx, r.ID); err != nil {
		return schedule, err
	}
	schedule.Answers, err = s.answersOf(ctx, &e.View)
	return schedule, err
}

// targetWays begins the names of ways out among limits; see ROUNDS_LIMITS.
const targetWays = "egress/"

// waitsAt has an explanation say what is known about what the account waits at, among the names of what
// it shares with others and of its way out. If several are in trouble, it is the one whose next
// probe is later.
func waitsAt(e *accounts.Explanation, names []string, troubles map[string]*limit.Trouble) {
	var at *limit.Trouble
	for _, name := range names {
		if t := troubles[limit.TroubleKey(name)]; t != nil && (at == nil || t.Next.After(at.Next)) {
			at = t
		}
	}
	if at != nil {
		e.WaitsAt(accounts.Trouble{Name: at.Name, Cause: at.Cause, Paused: at.Paused, Since: at.Since, Next: at.Next})
	}
}

// rate returns how many checks a second all replicas made in the last minute. It is 0 if
// that is unknown.
func (s *Server) rate(ctx context.Context) float64 {
	found, err := s.history.Look(ctx, history.Query{Before: time.Minute, Step: history.Every, Fields: []history.Field{history.ChecksPerSecond}})
	if err != nil || len(found.Curves) == 0 {
		return 0 // the explanation is useful even without an estimate
	}
	sum, known := 0.0, 0
	for _, rate := range found.Curves[0].Mean {
		if !math.IsNaN(rate) {
			sum, known = sum+rate, known+1
		}
	}
	if known == 0 {
		return 0
	}
	return sum / float64(known)
}

func scheduleOf(e *accounts.Explanation) Schedule {
	s := Schedule{
		ID: e.ID, Kind: e.Kind, Shard: e.Shard, Now: inUTC(e.Now), Fault: e.Fault,
		Place: e.State.Place, Due: inUTC(e.State.Due), Since: inUTC(e.State.Since), Replica: e.State.Replica, Reason: e.State.Reason,
		Priority: e.Lane, Rule: e.Rule, Why: e.Why, DueRule: e.DueRule,
		Cadence: e.Cadence, Slots: make([]time.Time, len(e.Slots)), Nudged: inUTC(e.Nudged),
		Failures: e.State.Failures, Strikes: e.State.Strikes,
		Hold:           e.Hold.Seconds(),
		NeverSucceeded: e.NeverSucceeded(),
		Checks:         append([]string{}, e.Marks...), Error: e.Error, ErrorAt: inUTC(e.ErrorAt), Warning: e.Warning, Skip: inUTC(e.Skip),
	}
	if at := inUTC(e.History.Succeeded); s.NeverSucceeded {
		s.Begun = at
	} else {
		s.Succeeded = at
	}
	for i, slot := range e.Slots {
		s.Slots[i] = inUTC(slot)
	}
	if stale, ok := e.Staleness(); ok {
		seconds := stale.Seconds()
		s.Staleness = &seconds
	}
	if parking, ok := e.Parking(); ok {
		s.Left = &parking.Left
		s.Parks = &Parks{Rule: parking.Rule, After: parking.After, Over: parking.Over.Seconds(), From: inUTC(parking.From)}
	}
	if left, ok := e.Headroom(); ok {
		keeps, seconds := e.Retention.Seconds(), left.Seconds()
		s.Retention, s.Headroom = &keeps, &seconds
	}
	if w := e.Waits; w != nil {
		s.Lanes = &Lanes{Lane: w.Lane, Kind: w.Kind, Ahead: w.Ahead, Urgent: w.Urgent, Normal: w.Normal, Low: w.Low}
		if before, ok := w.ClaimsBefore(); ok {
			s.Lanes.Before = &before
		}
	}
	return s
}
