package job

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
)

const (
	// MostUndo is the most accounts that a job may have changed to be taken back.
	MostUndo = 100_000
	// MostUndoBytes is the most bytes that a job's notes may have to be taken back.
	MostUndoBytes = 16 << 20
	// UndoFor is how long after its end a job can be taken back.
	UndoFor = time.Hour

	mostUndoInAll = 64 << 20
	endedFor      = 24 * time.Hour     // how long an ended job is kept
	stoppedFor    = 7 * 24 * time.Hour // how long a stopped job is kept, and the notes of a running one
)

var (
	// ErrNotFound reports an id that no job has, or none that the caller sees.
	ErrNotFound = errors.New("job: no such job")
	// ErrFull reports that there are too many jobs that have not ended.
	ErrFull = errors.New("job: there are too many jobs")

	// These report that a job's state does not allow what was asked for.

	// ErrEnded reports a job that has ended, and cannot be stopped or resumed.
	ErrEnded = errors.New("job: it has ended")
	// ErrUndone reports a job that was taken back.
	ErrUndone = errors.New("job: it was taken back")
	// ErrUnderWay reports a job that is under way, and cannot be taken back before it is
	// stopped.
	ErrUnderWay = errors.New("job: it is under way")
	// ErrNoUndo reports a job whose action cannot be taken back, or that changed nothing.
	ErrNoUndo = errors.New("job: it cannot be taken back")
	// ErrTooMany reports a job that changed too many accounts to be taken back.
	ErrTooMany = errors.New("job: it changed too many accounts")
	// ErrTooLate reports a job that ended too long ago to be taken back.
	ErrTooLate = errors.New("job: its hour has passed")
	// ErrBusy reports a job that others kept changing. Trying again may help.
	ErrBusy = errors.New("job: others keep changing it")
)

// State is how far a job is.
type State string

// The states.
const (
	Running  State = "running"  // a process works on it, or will within 20 seconds
	Stopping State = "stopping" // it is stopped after its current step
	Stopped  State = "stopped"  // somebody stopped it; it can be resumed for a week
	Ended    State = "ended"    // everything was done
)

// Order is what a job does, and on whose behalf.
type Order struct {
	Action accounts.Action     `json:"action"`
	Select map[string][]string `json:"select,omitempty"` // as accounts.ParseSelector takes it; none: all accounts
	Set    json.RawMessage     `json:"set,omitempty"`    // as in accounts.Bulk
	Rate   float64             `json:"rate,omitempty"`   // as in accounts.Bulk
	Undoes string              `json:"undoes,omitempty"` // the job that it takes back

	By     string        `json:"by,omitempty"`
	Via    access.Via    `json:"via,omitempty"`
	Labels access.Labels `json:"labels,omitempty"` // it concerns only accounts with these
}

// Selector returns the order's selection as words, such as "kind=feed state=failing"; "all" for
// all accounts.
func (o *Order) Selector() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(o.Select)) {
		for _, value := range o.Select[name] {
			pairs = append(pairs, name+"="+value)
		}
	}
	if len(pairs) == 0 {
		return "all"
	}
	return strings.Join(pairs, " ")
}

// bulk returns what the order asks of a registry. An order of a later version may select by what this
// one does not know: without it, more accounts would be selected, or all of them.
func (o *Order) bulk() (accounts.Bulk, error) {
	for name := range o.Select {
		if !slices.Contains(accounts.SelectorFields(), name) {
			return accounts.Bulk{}, accounts.Faults{{Field: name, Reason: "is no field that selects accounts"}}
		}
	}
	selector, err := accounts.ParseSelector(o.Select)
	b := accounts.Bulk{Action: o.Action, Selector: selector, All: selector.Empty(), Set: o.Set, Rate: o.Rate}
	return b, errors.Join(err, b.Validate())
}

// Job is an order and how far it is. It is stored as JSON. Fields may be added.
type Job struct {
	ID string `json:"id"`
	Order
	State   State     `json:"state"`
	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended,omitzero"` // when it ended or was stopped

	Seen      int              `json:"seen"`    // accounts that were looked at
	Matched   int              `json:"matched"` // accounts that are selected
	Changed   int              `json:"changed"`
	Unchanged accounts.Reasons `json:"unchanged,omitempty"` // why the others were not changed
	Unknown   int              `json:"unknown,omitempty"`   // of a step whose note was lost
	Restarts  int              `json:"restarts,omitempty"`  // how often it began anew, as the number of shards changed

	// Began is when it began or was resumed, and Base what it had changed until then: from
	// there its rate counts.
	Began time.Time `json:"began,omitzero"`
	Base  int       `json:"base,omitempty"`

	// Kept and KeptBytes are the notes that could take the job back. With NoUndo there are
	// none, as they would be too many or their hour has passed.
	Kept      int  `json:"kept,omitempty"`
	KeptBytes int  `json:"kept_bytes,omitempty"`
	NoUndo    bool `json:"no_undo,omitempty"`

	// Where the job is: the layout of the ring, the shard (of a job that takes another back,
	// its note), and the id behind which it goes on.
	Layout string `json:"layout,omitempty"`
	Shards int    `json:"shards,omitempty"`
	Shard  int    `json:"shard,omitempty"`
	Behind string `json:"behind,omitempty"`

	Notes   int `json:"notes,omitempty"`   // how many notes were written
	Pending int `json:"pending,omitempty"` // accounts of the latest note, if it is not counted yet

	Runner string    `json:"runner,omitempty"` // who holds the lease
	Until  time.Time `json:"until,omitzero"`   // when the lease ends

	// Undone is the id of the job that takes it back. It is not stored.
	Undone string `json:"-"`
}

// Share returns how much of the job is done, 0 to 1, as far as that is known.
func (j *Job) Share() float64 {
	switch {
	case j.State == Ended:
		return 1
	case j.Shards == 0:
		return 0
	}
	return min(1, float64(j.Shard)/float64(j.Shards))
}

// active reports whether a process works on the job, or should.
func (j *Job) active() bool { return j.State == Running || j.State == Stopping }

// kept returns until when the job is kept.
func (j *Job) kept() time.Time {
	if j.State == Stopped {
		return j.Ended.Add(stoppedFor)
	}
	return j.Ended.Add(endedFor)
}

// Undoable returns until when the job can be taken back, or the zero time if it cannot.
func (j *Job) Undoable() time.Time {
	if j.active() || !j.Action.Undoes() || j.NoUndo || j.Undoes != "" || j.Undone != "" || j.Kept == 0 {
		return time.Time{}
	}
	return j.Ended.Add(UndoFor)
}

// undoOf returns the id of the job that takes a job back.
func undoOf(id string) string { return id + "-undo" }
