package api

import (
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/circulate"
)

// maxShownDepth is the depth up to which a message's data is shown as JSON. Deeper data
// is shown as a text, because within a list it might be too deep for the encoder.
const maxShownDepth = 1000

// Record is an account in the form in which it is registered.
type Record struct {
	_        struct{}          `additionalProperties:"false"`
	ID       string            `json:"id" minLength:"1" maxLength:"256" example:"acme-news" doc:"UTF-8 without control characters, at most 256 bytes. With PUT it may be left out."`
	Kind     string            `json:"kind" example:"feed" doc:"Its kind, which decides which checker checks it."`
	Config   json.RawMessage   `json:"config,omitempty" doc:"The config for the checker of that kind: an object of at most 64 KiB. It refers to secrets as {\"secret\": \"NAME\"}, and never has their values."`
	Cadence  string            `json:"cadence,omitempty" example:"every 1m" default:"every 1m" doc:"When it is checked: \"every 1m\" (\"every 0\": again at once), \"cron 0 9 * * MON-FRI Asia/Shanghai\", \"at 2030-12-01T09:00:00+08:00\" (once) or \"adaptive 10s..15m\"."`
	Priority string            `json:"priority,omitempty" enum:"urgent,normal,low" default:"normal" doc:"Of a shard's due accounts, urgent ones are checked first and low ones last. No account is left out: of sixteen claims, at least one is of a low account and three are of normal ones."`
	Budget   int               `json:"retry_budget,omitempty" minimum:"1" maximum:"1000" doc:"The number of failures in a row that parks it; 16 if left out."`
	Unknown  string            `json:"on_unknown,omitempty" enum:"hold,retry" default:"hold" doc:"What becomes of a send whose end nobody knows. hold: it waits until somebody resolves it. retry: it is sent again, and may arrive twice."`
	Labels   map[string]string `json:"labels,omitempty" doc:"At most 64, each name and value at most 256 bytes."`
}

// RecordPatch is a JSON merge patch of a record; null removes a field.
type RecordPatch struct {
	_        struct{}           `additionalProperties:"false"`
	ID       string             `json:"id,omitempty" doc:"May only repeat the id."`
	Kind     string             `json:"kind,omitempty" doc:"Another kind begins without a cursor."`
	Config   json.RawMessage    `json:"config,omitempty" doc:"An object is merged into the config, member by member."`
	Cadence  *string            `json:"cadence,omitempty" nullable:"true" example:"every 5s"`
	Priority *string            `json:"priority,omitempty" nullable:"true" enum:"urgent,normal,low"`
	Budget   *int               `json:"retry_budget,omitempty" nullable:"true" minimum:"1" maximum:"1000"`
	Unknown  *string            `json:"on_unknown,omitempty" nullable:"true" enum:"hold,retry"`
	Labels   map[string]*string `json:"labels,omitempty" doc:"Named labels are set; null removes a label."`
}

// Account is an account and its place.
type Account struct {
	ID       string            `json:"id"`
	Kind     string            `json:"kind"`
	Config   json.RawMessage   `json:"config,omitempty"`
	Cadence  string            `json:"cadence,omitempty"`
	Priority string            `json:"priority,omitempty" enum:"urgent,normal,low" doc:"Left out if normal."`
	Budget   int               `json:"retry_budget,omitempty"`
	Unknown  string            `json:"on_unknown,omitempty" enum:"hold,retry" doc:"Left out if hold."`
	Labels   map[string]string `json:"labels,omitempty"`
	Revision int               `json:"revision" doc:"1 for the registered record, and one more for each change."`
	Created  time.Time         `json:"created,omitzero" doc:"When it was registered; left out if an early version registered it, which did not store the time."`
	Updated  time.Time         `json:"updated,omitzero" doc:"When its record last changed."`
	State    State             `json:"state"`
	Fault    string            `json:"fault,omitempty" doc:"Why the record cannot be read. Only id and state are then known."`
}

// State says where an account is, and how its checks go.
type State struct {
	Place    circulate.Place `json:"place" enum:"scheduled,waiting,claimed,parked" doc:"scheduled: due later; waiting: due and next in line; claimed: being checked; parked: out of circulation."`
	Due      time.Time       `json:"due,omitzero" doc:"When it is checked next, if scheduled."`
	Since    time.Time       `json:"since,omitzero" doc:"Since when it is claimed or parked."`
	Replica  string          `json:"replica,omitempty" doc:"The replica that checks it, if claimed."`
	Reason   string          `json:"reason,omitempty" doc:"Why it is parked: \"paused\", or what went wrong."`
	Failures int             `json:"failures,omitempty" doc:"Failed checks in a row."`
	Strikes  int             `json:"strikes,omitempty" doc:"How often it was taken from a replica that did not return it, since the last good return."`

	LastSuccess    time.Time `json:"last_success,omitzero" doc:"When a check last succeeded completely; left out if none ever did."`
	NeverSucceeded bool      `json:"never_succeeded,omitempty" doc:"It was checked, but never with complete success."`
	Failing        bool      `json:"failing,omitempty" doc:"Its last check failed, whatever the cause, even one that does not count against it."`
	LastError      string    `json:"last_error,omitempty" doc:"What went wrong with the last check, if it did: a code and a sentence."`
	LastErrorAt    time.Time `json:"last_error_at,omitzero"`
	Warning        string    `json:"warning,omitempty" doc:"What was wrong at the last check although it succeeded: codes and sentences."`
}

// AccountList is a page of accounts.
type AccountList struct {
	Accounts []Account `json:"accounts" nullable:"false"`
	Next     string    `json:"next,omitempty" doc:"The cursor of the next page; left out on the last one. A page with a filter may be short, even empty, and not be the last."`
	Looked   int       `json:"looked,omitempty" doc:"How many accounts the list has gone past for this page, whether they were selected or not. Left out for callers that are bound to labels."`
}

// AccountCount is the number of selected accounts.
type AccountCount struct {
	Count    int  `json:"count" doc:"Selected accounts; if not complete, there may be more."`
	Complete bool `json:"complete" doc:"All accounts were counted."`
	Estimate int  `json:"estimate,omitempty" doc:"About how many are selected, if not complete; left out if there is no estimate."`
}

// NudgeRequest asks for a check before an account is due.
type NudgeRequest struct {
	_      struct{}        `additionalProperties:"false"`
	Within string          `json:"within,omitempty" example:"10s" default:"0s" doc:"The longest time until the check. A nudge never delays a check."`
	Hint   json.RawMessage `json:"hint,omitempty" doc:"Any JSON value of at most 16 KiB for the checker, for one check. The newest hint wins."`
	Lives  string          `json:"lives,omitempty" example:"10m" default:"10m" doc:"How long the hint may be used, at most 24h."`
}

// BadLine is a line of an import that was left out, or that repeats an id.
type BadLine struct {
	Line    int             `json:"line" doc:"The line's number, from 1."`
	ID      string          `json:"id,omitempty" doc:"The account's id, if the line has a valid one."`
	Errors  accounts.Faults `json:"errors,omitempty" doc:"Why the line was left out; missing if it was imported."`
	Repeats int             `json:"repeats,omitempty" doc:"The earlier line with the same id. This line was imported, and counts."`
	Left    accounts.Faults `json:"left,omitempty" doc:"What another program's list says of the account and has no counterpart. The line was not left out because of it."`
}

// ImportEnd is the last line of an import's reply.
type ImportEnd struct {
	Error   string        `json:"error,omitempty" doc:"Why the import stopped before its end. Repeating the import is safe."`
	Format  string        `json:"format,omitempty" doc:"The format of another program's list; left out for records."`
	DryRun  bool          `json:"dry_run,omitempty" doc:"Nothing was written: the summary is what an import would do."`
	Summary ImportSummary `json:"summary"`
}

// ImportSummary is the result of an import.
type ImportSummary struct {
	Lines     int `json:"lines" doc:"Lines that were read and not blank."`
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed" doc:"Bad lines."`
	Repeated  int `json:"repeated,omitempty" doc:"Imported lines with the id of an earlier line."`
}

// Message is one thing that a check found.
type Message struct {
	Account  string          `json:"account"`
	Kind     string          `json:"kind"`
	ID       string          `json:"id" doc:"The third party's id, unique in its account."`
	Type     string          `json:"type,omitempty"`
	Time     time.Time       `json:"time,omitzero" doc:"The time of the message, by the third party's clock."`
	Data     json.RawMessage `json:"data,omitempty"`
	Shard    int             `json:"shard"`
	Position string          `json:"position" doc:"Its position in the shard's stream."`
	Files    []File          `json:"files,omitempty" doc:"The files that it carries, if the service keeps files."`
	Event    bool            `json:"event,omitempty" doc:"It is no message that was found, but says what became of a send, to a group that asks for events. The type is send.accepted, send.rejected, send.unknown, send.expired, send.failed or send.canceled; the data has the send's fields without its data; the time is by Redis' clock."`
	Trace    string          `json:"traceparent,omitempty" doc:"The traceparent of W3C Trace Context of what wrote it, if that is recorded."`
}

// MessageList is a page of messages.
type MessageList struct {
	Messages []Message `json:"messages" nullable:"false"`
	Next     string    `json:"next" doc:"The value of after, or of before, for the next request; always present."`
	End      string    `json:"end,omitempty" doc:"With before: the after with which a request begins right after this page, so that no message is missing and none comes twice."`
	More     bool      `json:"more,omitempty" doc:"There may be more now, even if the page is short or empty, because messages were left out by the filter or by the labels of the key. With before: there may be older ones."`
}

// Stats are the figures of a ring.
type Stats struct {
	Now      time.Time         `json:"now" doc:"By Redis' clock."`
	Shards   int               `json:"shards"`
	Accounts Places            `json:"accounts"`
	Labels   map[string]string `json:"labels,omitempty" doc:"The labels that the caller's key is bound to: the figures are only of accounts with them. Left out: the figures are of all accounts."`

	Messages       int               `json:"messages" doc:"Stored messages; 0 for a key that is bound to labels, which gets only figures of accounts."`
	OverdueSeconds float64           `json:"overdue_seconds" doc:"How long the longest overdue account has waited to be claimed; 0 for a key that is bound to labels."`
	CatchUp        *accounts.CatchUp `json:"catch_up,omitempty" doc:"When accounts that are late are checked in time again, as estimated. Left out if none is late by ten seconds, if it is not known, or for a key that is bound to labels."`

	Replicas  []Replica `json:"replicas" nullable:"false" doc:"The pollers. Dead ones are listed for ten minutes."`
	Processes []Process `json:"processes" nullable:"false" doc:"Processes of all roles, at most 1000. Silent ones are listed for ten minutes."`

	Data *Data `json:"data,omitempty" doc:"Where accounts and messages are stored."`

	Staleness *accounts.Staleness `json:"staleness,omitempty" doc:"The time since accounts were last checked with complete success, from a monitor's last scan; left out until there was one."`
	Failing   *accounts.Failing   `json:"failing,omitempty" doc:"The accounts that are checked in vain: how many fail, as GET /v1/problems has it, and how many are behind, from the scan. Left out until there was either."`
	ClockStep *accounts.ClockStep `json:"redis_clock_step,omitempty" doc:"Steps of Redis' clock; left out if there was none."`
	Budget    *budget.Standing    `json:"adaptive_budget,omitempty" doc:"The budget of checks that adaptive accounts share; left out without one, and for a key that is bound to labels."`
}

// Data says where accounts and messages are stored, and what could lose them.
type Data struct {
	Store    string         `json:"store" doc:"The Redis, without its password."`
	Dir      string         `json:"directory,omitempty" doc:"The directory in which the serving process stores everything itself."`
	Forgets  bool           `json:"forgets,omitempty" doc:"The data is in the memory of a process of the service, and lost when the process ends."`
	Concerns []RedisConcern `json:"concerns,omitempty" doc:"Settings and states of Redis that could lose what it has acknowledged."`
}

// RedisConcern is a setting or state of Redis that could lose data.
type RedisConcern struct {
	Node    string `json:"node" doc:"The Redis server."`
	Concern string `json:"concern" enum:"appendonly,append_fails,no_fsync,snapshot_fails,eviction,min_replicas,memory,unasked,unsaved,damaged,large"`
	Value   string `json:"value,omitempty" doc:"The eviction policy, the percentage of memory in use, or the command that Redis does not allow us."`
	Text    string `json:"text" doc:"What it may cause, and what to do."`
}

// Places counts accounts by place.
type Places struct {
	Registered int `json:"registered"`
	Scheduled  int `json:"scheduled"`
	Waiting    int `json:"waiting" doc:"Waiting accounts in all lanes."`
	Claimed    int `json:"claimed"`
	Parked     int `json:"parked"`

	WaitingByLane WaitingByLane `json:"waiting_by_lane"`
}

// WaitingByLane counts waiting accounts by lane.
type WaitingByLane struct {
	Urgent int `json:"urgent"`
	Normal int `json:"normal"`
	Low    int `json:"low"`
	ByKind int `json:"by_kind,omitempty" doc:"accounts that wait for a replica that checks their kind"`
}

// Replica is a poller process and its last report.
type Replica struct {
	Name          string    `json:"name"`
	LastHeartbeat time.Time `json:"last_heartbeat"`
	Alive         bool      `json:"alive"`
	accounts.Report
}

// Process is a process of the service, of any role, and its last report.
type Process struct {
	Name          string    `json:"name"`
	Roles         []string  `json:"roles" nullable:"false"`
	Version       string    `json:"version,omitempty" doc:"Left out for versions that do not report it."`
	Host          string    `json:"host,omitempty"`
	Since         time.Time `json:"since,omitzero" doc:"When it started, by its own clock."`
	LastHeartbeat time.Time `json:"last_heartbeat"`
	Alive         bool      `json:"alive"`

	Differs []accounts.Difference `json:"differs,omitempty" doc:"Settings whose values differ from those of other processes with its roles; only for living processes."`
}

func accountOf(v *accounts.View) Account {
	s := v.State
	return Account{
		ID: v.ID, Kind: v.Kind, Config: v.Config, Cadence: v.Cadence, Priority: v.Priority, Budget: v.RetryBudget, Unknown: v.OnUnknown, Labels: v.Labels, Fault: v.Fault,
		Revision: v.Revision.Number, Created: inUTC(v.Revision.Created), Updated: inUTC(v.Revision.Updated),
		State: State{
			Place: s.Place, Due: inUTC(s.Due), Since: inUTC(s.Since), Replica: s.Replica, Reason: s.Reason,
			Failures: s.Failures, Strikes: s.Strikes,
			LastSuccess: inUTC(s.Succeeded), NeverSucceeded: s.NeverSucceeded, Failing: s.Failing, LastError: s.Error, LastErrorAt: inUTC(s.ErrorAt), Warning: s.Warning,
		},
	}
}

// inUTC returns a time in the form of every reply, whatever the server's zone.
func inUTC(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

// shown returns data in a form that can be encoded within a list.
func shown(data json.RawMessage) json.RawMessage {
	if data != nil && (!json.Valid(data) || strict.Depth(data) > maxShownDepth) {
		data, _ = json.Marshal(string(data)) // a string can always be encoded
	}
	return data
}

func messageOf(f *circulate.Found) Message {
	m := f.Message
	return Message{
		Account: f.Account, Kind: f.Kind, ID: m.ID, Type: m.Type, Time: inUTC(m.Time), Data: shown(m.Data),
		Shard: f.Shard, Position: f.Position, Event: f.Event, Trace: f.Trace,
	}
}

// Some types of replies belong to other packages. Under these names, readers of replies need no
// other package.

type (
	// Headroom is the time until a third party forgets messages that an account has not fetched.
	Headroom = accounts.Headroom
	// Law is what the audits say about the conservation law.
	Law = concern.Law
	// AuditResult is what one audit found.
	AuditResult = concern.AuditResult
	// Concerns are what is wrong with the service now.
	Concerns = concern.Concerns
	// Concern is one thing that is wrong.
	Concern = concern.Concern
	// ConcernStyle is how a sentence of a concern writes its parts.
	ConcernStyle = concern.Style
	// FailingGroup is the accounts that fail alike.
	FailingGroup = problem.FailingGroup
	// NextStep is what happens to failing accounts by itself.
	NextStep = problem.NextStep
	// Field describes a field of a config.
	Field = strict.Field
	// Words are a text in English and Chinese.
	Words = strict.Words
	// Trial is the report of a check by hand.
	Trial = trial.Report
	// Finding is what an audit found about one account.
	Finding = circulate.Finding
	// FindingCount is the number of findings of one kind.
	FindingCount = concern.FindingCount
	// Violation is a way in which the law is broken.
	Violation = circulate.Violation
	// Backups are what is known about backups.
	Backups = concern.Backups
	// Backup is one backup that was taken.
	Backup = concern.Backup
	// Refusal is the reply to a failed request (RFC 9457).
	Refusal = huma.ErrorModel
	// Fault is one thing that is wrong with a request.
	Fault = huma.ErrorDetail
)

// ReasonText returns the reason in words for people; see accounts.ReasonText.
func (s *State) ReasonText() string { return accounts.ReasonText(s.Reason) }

// ReasonText returns the reason in words for people; see accounts.ReasonText.
func (s *Schedule) ReasonText() string { return accounts.ReasonText(s.Reason) }

// ReasonText returns the text of an event "parked" in words for people; see accounts.ReasonText.
func (e *TimelineEvent) ReasonText() string { return accounts.ReasonText(e.Text) }
