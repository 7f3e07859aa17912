package api

import (
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// maxShownDepth is how deep a message's data is shown as what it is, and not as a
// text: within a list it might be too deep for the encoder.
const maxShownDepth = 1000

// Record is an account as it is registered.
type Record struct {
	_        struct{}          `additionalProperties:"false"`
	ID       string            `json:"id" minLength:"1" maxLength:"256" example:"acme-news" doc:"UTF-8 without control characters, at most 256 bytes. With PUT it may be left out."`
	Kind     string            `json:"kind" example:"feed" doc:"Which checker checks it."`
	Config   json.RawMessage   `json:"config,omitempty" doc:"What the checker of that kind wants: an object of at most 64 KiB. Secrets are named, {\"secret\": \"NAME\"}, and never in it."`
	Cadence  string            `json:"cadence,omitempty" example:"every 1m" default:"every 1m" doc:"When: \"every 1m\" (\"every 0\" is again at once), \"cron 0 9 * * MON-FRI Asia/Shanghai\", \"at 2030-12-01T09:00:00+08:00\" (once) or \"adaptive 10s..15m\"."`
	Priority string            `json:"priority,omitempty" enum:"urgent,normal,low" default:"normal" doc:"Of the accounts of its shard that are due, urgent ones are checked first and low ones last; no one is left out: of sixteen turns at least one is of a low account and three are of normal ones."`
	Budget   int               `json:"retry_budget,omitempty" minimum:"1" maximum:"1000" doc:"How many failures in a row park it; 16 if left out."`
	Labels   map[string]string `json:"labels,omitempty" doc:"At most 64, each name and value at most 256 bytes."`
}

// RecordPatch is what is to change of a record, as a JSON merge patch; null removes.
type RecordPatch struct {
	_        struct{}           `additionalProperties:"false"`
	ID       string             `json:"id,omitempty" doc:"May only be what it is."`
	Kind     string             `json:"kind,omitempty" doc:"Another kind begins without a cursor."`
	Config   json.RawMessage    `json:"config,omitempty" doc:"An object is merged into the config, member by member."`
	Cadence  *string            `json:"cadence,omitempty" nullable:"true" example:"every 5s"`
	Priority *string            `json:"priority,omitempty" nullable:"true" enum:"urgent,normal,low"`
	Budget   *int               `json:"retry_budget,omitempty" nullable:"true" minimum:"1" maximum:"1000"`
	Labels   map[string]*string `json:"labels,omitempty" doc:"Those that are named are set, or removed by null."`
}

// Account is an account and where it is.
type Account struct {
	ID       string            `json:"id"`
	Kind     string            `json:"kind"`
	Config   json.RawMessage   `json:"config,omitempty"`
	Cadence  string            `json:"cadence,omitempty"`
	Priority string            `json:"priority,omitempty" enum:"urgent,normal,low" doc:"Left out if it is normal."`
	Budget   int               `json:"retry_budget,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Revision int               `json:"revision" doc:"1 for the record that it was registered with, one more for each change of it."`
	Created  time.Time         `json:"created,omitzero" doc:"When it was registered; left out where a version did it that kept no such time."`
	Updated  time.Time         `json:"updated,omitzero" doc:"When its record last changed."`
	State    State             `json:"state"`
	Fault    string            `json:"fault,omitempty" doc:"Why the record cannot be read; then only id and state are known."`
}

// State is where in its life an account is.
type State struct {
	Place    circulate.Place `json:"place" enum:"scheduled,waiting,claimed,parked" doc:"scheduled: due later; waiting: due and next in line; claimed: being checked; parked: out of circulation."`
	Due      time.Time       `json:"due,omitzero" doc:"When it is checked next, if scheduled."`
	Since    time.Time       `json:"since,omitzero" doc:"Since when it is claimed or parked."`
	Replica  string          `json:"replica,omitempty" doc:"Who checks it, if claimed."`
	Reason   string          `json:"reason,omitempty" doc:"Why it is parked: \"paused\", or what went wrong."`
	Failures int             `json:"failures,omitempty" doc:"Failed checks in a row."`
	Strikes  int             `json:"strikes,omitempty" doc:"Times it was taken from a replica that did not return it, since the last good return."`

	LastSuccess    time.Time `json:"last_success,omitzero" doc:"When a check last succeeded completely; left out where none ever did."`
	NeverSucceeded bool      `json:"never_succeeded,omitempty" doc:"It was checked, and no check ever succeeded completely."`
	LastError      string    `json:"last_error,omitempty" doc:"What went wrong with the last check, if it did: a code and a sentence."`
	LastErrorAt    time.Time `json:"last_error_at,omitzero"`
}

// AccountList is a page of accounts.
type AccountList struct {
	Accounts []Account `json:"accounts" nullable:"false"`
	Next     string    `json:"next,omitempty" doc:"The cursor of the next page; left out on the last one. A page with a filter may be short, even empty, and not be the last."`
}

// NudgeRequest asks for a check before an account is due.
type NudgeRequest struct {
	_      struct{}        `additionalProperties:"false"`
	Within string          `json:"within,omitempty" example:"10s" default:"0s" doc:"Check at the latest after this long; it never makes a check later."`
	Hint   json.RawMessage `json:"hint,omitempty" doc:"For the checker, once: any JSON value of at most 16 KiB. The newest hint wins."`
	Lives  string          `json:"lives,omitempty" example:"10m" default:"10m" doc:"How long the hint may be used, at most 24h."`
}

// BadLine is a line of an import that was left out, or one that repeats an id.
type BadLine struct {
	Line    int             `json:"line" doc:"From 1."`
	ID      string          `json:"id,omitempty" doc:"Where the line has one."`
	Errors  accounts.Faults `json:"errors,omitempty" doc:"Why it was left out; left out of one that was taken."`
	Repeats int             `json:"repeats,omitempty" doc:"The line before that has the same id. This line was taken, and counts."`
}

// ImportEnd is the last line of an import's reply.
type ImportEnd struct {
	Error   string        `json:"error,omitempty" doc:"Why the import stopped before its end. To import the same again is safe."`
	Summary ImportSummary `json:"summary"`
}

// ImportSummary is what an import came to.
type ImportSummary struct {
	Lines     int `json:"lines" doc:"Lines that were read and not blank."`
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed" doc:"Bad lines."`
	Repeated  int `json:"repeated,omitempty" doc:"Of the lines that were taken, those with the id of a line before."`
}

// Message is one thing that a check found.
type Message struct {
	Account  string          `json:"account"`
	Kind     string          `json:"kind"`
	ID       string          `json:"id" doc:"The third party's own, unique in its account."`
	Type     string          `json:"type,omitempty"`
	Time     time.Time       `json:"time,omitzero" doc:"When it came to be, by the third party's clock."`
	Data     json.RawMessage `json:"data,omitempty"`
	Shard    int             `json:"shard"`
	Position string          `json:"position" doc:"In the shard's stream."`
}

// MessageList is a page of messages.
type MessageList struct {
	Messages []Message `json:"messages" nullable:"false"`
	Next     string    `json:"next" doc:"Where the page ends, always given: the after of the next request."`
	More     bool      `json:"more,omitempty" doc:"There may be more at once, even if the page is short or empty: for a key that is bound to labels, others' messages were passed over."`
}

// Stats is how a ring is doing.
type Stats struct {
	Now      time.Time         `json:"now" doc:"By Redis' clock."`
	Shards   int               `json:"shards"`
	Accounts Places            `json:"accounts"`
	Labels   map[string]string `json:"labels,omitempty" doc:"The caller's key is bound to these, and what is told is of accounts with them alone; left out: of all accounts."`

	Messages       int       `json:"messages" doc:"That are kept; 0 for a key that is bound to labels, which is told of accounts alone."`
	OverdueSeconds float64   `json:"overdue_seconds" doc:"0 for such a key; otherwise how long the longest overdue account has waited to be claimed."`
	Replicas       []Replica `json:"replicas" nullable:"false" doc:"What pollers do; those that are dead are told for ten minutes."`
	Processes      []Process `json:"processes" nullable:"false" doc:"Processes of all roles; those that went silent without leaving are told for ten minutes, at most 1000."`

	Data *Data `json:"data,omitempty" doc:"Where accounts and messages are kept."`

	Staleness *accounts.Staleness `json:"staleness,omitempty" doc:"How long ago accounts were last checked with complete success, as a monitor's last scan found it; left out until there was one."`
	Failing   *accounts.Failing   `json:"failing,omitempty" doc:"How many accounts are checked in vain, as the same scan found it; left out until there was one."`
	ClockStep *accounts.ClockStep `json:"redis_clock_step,omitempty" doc:"How Redis' clock went ahead or back; left out where it never did."`
}

// Data says where accounts and messages are kept, and what could lose them.
type Data struct {
	Store    string    `json:"store" doc:"The Redis, without its password."`
	Forgets  bool      `json:"forgets,omitempty" doc:"It is in the memory of a process of the service, and gone when that ends."`
	Concerns []Concern `json:"concerns,omitempty" doc:"Settings and states of Redis that could lose what it has acknowledged."`
}

// Concern is one of them.
type Concern struct {
	Node    string `json:"node" doc:"Which Redis."`
	Concern string `json:"concern" enum:"appendonly,append_fails,eviction,min_replicas,memory,unasked"`
	Text    string `json:"text" doc:"What it leads to, and what to do."`
}

// Places says how many accounts are where.
type Places struct {
	Registered int `json:"registered"`
	Scheduled  int `json:"scheduled"`
	Waiting    int `json:"waiting" doc:"In all lanes."`
	Claimed    int `json:"claimed"`
	Parked     int `json:"parked"`

	WaitingByLane WaitingByLane `json:"waiting_by_lane"`
}

// WaitingByLane says how many accounts wait in which lane.
type WaitingByLane struct {
	Urgent int `json:"urgent"`
	Normal int `json:"normal"`
	Low    int `json:"low"`
	ByKind int `json:"by_kind,omitempty" doc:"for a replica that checks their kind, as others do not"`
}

// Replica is one running poller process and what it said of itself last.
type Replica struct {
	Name          string    `json:"name"`
	LastHeartbeat time.Time `json:"last_heartbeat"`
	Alive         bool      `json:"alive"`
	accounts.Report
}

// Process is a process of the service, of any role, and what it said of itself last.
type Process struct {
	Name          string    `json:"name"`
	Roles         []string  `json:"roles" nullable:"false"`
	Version       string    `json:"version,omitempty" doc:"Left out by processes of versions that do not tell."`
	Host          string    `json:"host,omitempty"`
	Since         time.Time `json:"since,omitzero" doc:"When it started, by its own clock."`
	LastHeartbeat time.Time `json:"last_heartbeat"`
	Alive         bool      `json:"alive"`

	Differs []accounts.Difference `json:"differs,omitempty" doc:"Settings that other processes of its roles have another value of; only of those that are alive."`
}

func accountOf(v *accounts.View) Account {
	s := v.State
	return Account{
		ID: v.ID, Kind: v.Kind, Config: v.Config, Cadence: v.Cadence, Priority: v.Priority, Budget: v.RetryBudget, Labels: v.Labels, Fault: v.Fault,
		Revision: v.Revision.Number, Created: inUTC(v.Revision.Created), Updated: inUTC(v.Revision.Updated),
		State: State{
			Place: s.Place, Due: inUTC(s.Due), Since: inUTC(s.Since), Replica: s.Replica, Reason: s.Reason,
			Failures: s.Failures, Strikes: s.Strikes,
			LastSuccess: inUTC(s.Succeeded), NeverSucceeded: s.NeverSucceeded, LastError: s.Error, LastErrorAt: inUTC(s.ErrorAt),
		},
	}
}

// inUTC is the time as every reply returns it, whatever zone the server is in.
func inUTC(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

func messageOf(f *circulate.Found) Message {
	m := f.Message
	if m.Data != nil && (!json.Valid(m.Data) || strict.Depth(m.Data) > maxShownDepth) {
		m.Data, _ = json.Marshal(string(m.Data)) // a string always can
	}
	return Message{
		Account: f.Account, Kind: f.Kind, ID: m.ID, Type: m.Type, Time: inUTC(m.Time), Data: m.Data,
		Shard: f.Shard, Position: f.Position,
	}
}
