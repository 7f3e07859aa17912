package accounts

import (
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// View is an account and the place where it is.
type View struct {
	Account
	Revision Revision
	Tag      string // identifies this very record, for Match
	State    State
	Fault    string // why the record cannot be read; empty if it can

	// Changed names the changed fields, in order, if the view is the result of changing
	// an existing record: such as "cadence", or "config.url" for a member of config or
	// labels.
	Changed []string

	// Replaced is the record before that change.
	Replaced Replaced
}

// State is where in its life an account is.
type State struct {
	Place    circulate.Place
	Due      time.Time // scheduled: when it is due
	Since    time.Time // claimed or parked: since when
	Replica  string    // claimed: by which replica
	Reason   string    // parked: why
	Failures int       // in a row
	Strikes  int       // times taken from a replica since the last good return

	Succeeded      time.Time // when a check last succeeded completely; zero: never
	NeverSucceeded bool      // it was checked, but never with complete success
	Failing        bool      // its last check failed, whatever the cause
	Error          string    // why the last check failed; empty: it did not
	ErrorAt        time.Time
	Warning        string // what was wrong at the last check though it succeeded; empty: nothing
}

// viewOf reads a record leniently: an operator must see every account, even one whose
// record this version would not accept.
func viewOf(v *circulate.View) View {
	view := View{State: State{
		Place: v.Place, Due: v.Due, Since: v.Since, Replica: v.Replica, Reason: v.Reason,
		Failures: v.Failures, Strikes: v.Strikes,
		NeverSucceeded: v.History.NeverSucceeded(), Failing: LastFailed(v), Error: v.Error, ErrorAt: v.ErrorAt,
	}}
	if len(v.History.Marks) > 0 && !view.State.NeverSucceeded {
		view.State.Succeeded = v.History.Succeeded
	}
	memory, _ := ReadMemory(v.State) // the warning can be read even if the cadence's part cannot
	view.State.Warning = memory.Warning
	record, revision := SplitRevision(v.Record)
	view.Revision, view.Tag = revision, revision.tag(record)
	switch err := json.Unmarshal(record, &view.Account); {
	case err != nil:
		view.Account = Account{}
		view.Fault = "the record cannot be read: " + err.Error()
	case strict.Depth(view.Config) > strict.MaxDepth:
		// Inside a list a deeply nested config might fail the encoder, and with it the
		// whole list.
		view.Config = nil
		view.Fault = "the record cannot be shown: config " + strict.Deep
	}
	view.ID = v.ID
	return view
}
