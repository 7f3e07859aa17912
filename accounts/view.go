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
	Tag      string // names this very record, for Match
	State    State
	Fault    string // why the record cannot be read; empty if it can

	// Changed names the fields that were changed, in order, where the view is what a change
	// of a record that was there has returned: such as "cadence", and what config and labels
	// hold each by itself, as "config.url".
	Changed []string
}

// State is where in its life an account is.
type State struct {
	Place    circulate.Place
	Due      time.Time // scheduled: when
	Since    time.Time // claimed or parked: since when
	Replica  string    // claimed: by whom
	Reason   string    // parked: why
	Failures int       // in a row
	Strikes  int       // times that it was taken from a replica since the last good return

	Succeeded      time.Time // when a check last succeeded completely; zero: never
	NeverSucceeded bool      // it was checked, but never with complete success
	Failing        bool      // its last check failed, whatever the cause
	Error          string    // what went wrong with the last check; empty: nothing
	ErrorAt        time.Time
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
	record, revision := SplitRevision(v.Record)
	view.Revision, view.Tag = revision, revision.tag(record)
	switch err := json.Unmarshal(record, &view.Account); {
	case err != nil:
		view.Account = Account{}
		view.Fault = "the record cannot be read: " + err.Error()
	case strict.Depth(view.Config) > strict.MaxDepth:
		// Inside a list it might be too deep for the encoder, and the whole list would fail.
		view.Config = nil
		view.Fault = "the record cannot be shown: config " + strict.Deep
	}
	view.ID = v.ID
	return view
}
