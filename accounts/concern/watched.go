package concern

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	watchName = "watch"

	// WatchEvery is how often the monitor on duty reports what it watches.
	WatchEvery = 10 * time.Second
	// watchLasts is how long that counts as current.
	watchLasts = 5 * time.Minute
	// groupsLast is the same for consumer groups, which may read everything within a
	// second.
	groupsLast = 2 * time.Minute
	// trimLasts is the same for trimming, which is done less often.
	trimLasts = time.Hour

	// GroupsWatched is the most consumer groups that are reported; the longest waits come
	// first.
	GroupsWatched = 100
	// KindsWatched is the most kinds that are reported.
	KindsWatched = 20
)

// Watched is what the monitor on duty watches. Each part has its age at the time of the
// report. A part that is nil was not looked at.
type Watched struct {
	Counted *Counted `json:"counted,omitempty"`
	Groups  *Groups  `json:"groups,omitempty"`
	Dead    *Dead    `json:"dead,omitempty"`
	Trimmed *Trimmed `json:"trimmed,omitempty"`
	Doubts  *Doubts  `json:"doubts,omitempty"`

	Quarantined *InQuarantine `json:"quarantined,omitempty"`
	Failing     *Failing      `json:"failing,omitempty"`

	CatchUp *accounts.CatchUp `json:"catch_up,omitempty"`
}

// Age is how old a part is, in seconds, and when it was found by Redis' clock. A monitor of an
// earlier version tells the seconds alone.
type Age struct {
	Seconds float64   `json:"age_seconds"`
	At      time.Time `json:"at,omitzero"`
}

// Counted is what the last count of all accounts found.
type Counted struct {
	Age
	Registered int      `json:"registered"`
	Waiting    int      `json:"waiting"`
	Overdue    float64  `json:"overdue_seconds"` // how long the longest overdue account has waited
	Missing    []string `json:"missing_kinds,omitempty"`

	Since time.Time `json:"overdue_since,omitzero"` // since when it has been a concern without a break
}

// LastCatchUp returns when accounts that are late are in time again, as the monitor on duty
// estimated it lately; nil: none is late, or it is not known.
func LastCatchUp(ctx context.Context, ring *circulate.Ring) (*accounts.CatchUp, error) {
	w, _, now, err := lastPosted(ctx, ring)
	if err != nil || w.CatchUp == nil || now.Sub(w.CatchUp.At) > accounts.CatchUpShown {
		return nil, err
	}
	return w.CatchUp, nil
}

// Follow notes since when accounts have been overdue, if they are a concern. The count before
// may be nil.
func (c *Counted) Follow(before *Counted) {
	if before == nil {
		before = new(Counted)
	}
	if late := seconds(c.Overdue); late >= overdueFrom {
		c.Since = began(before.Since, before.At, c.At.Add(overdueFrom-late))
	}
}

// Groups are the consumer groups.
type Groups struct {
	Age
	All []Group `json:"all,omitempty"`
}

// Group is how far a consumer group has read.
type Group struct {
	Name     string  `json:"name"`
	Messages int     `json:"messages"`             // messages that it has not read, or not acknowledged
	Oldest   float64 `json:"oldest_seconds"`       // the age of the oldest of them
	Near     bool    `json:"near_limit,omitempty"` // soon they are past their retention, or too many
	Alone    bool    `json:"alone,omitempty"`      // it lags, and none of its consumers is alive
	Deferred string  `json:"deferred,omitempty"`   // why messages wait: the last error of a consumer's handler; of a group that lags

	Arrived time.Time `json:"oldest_at,omitzero"` // when the oldest message came

	Since time.Time `json:"lags_since,omitzero"` // since when it has lagged without a break
	Seen  time.Time `json:"seen,omitzero"`       // when it was not there yet; zero: as far as monitors know, it always was

	current bool // it is as Redis has it now
}

// Follow notes since when groups lag, and since when there are any. The look before may be nil.
func (g *Groups) Follow(before *Groups) {
	if before == nil {
		before = new(Groups)
	}
	known := make(map[string]*Group, len(before.All))
	for i := range before.All {
		known[before.All[i].Name] = &before.All[i]
	}
	for i := range g.All {
		one, was := &g.All[i], known[g.All[i].Name]
		if was == nil {
			was = &Group{Seen: before.At}
			if len(before.All) >= GroupsWatched { // the report before may have left it out
				was.Seen = time.Time{}
			}
		}
		one.Seen = was.Seen
		one.lagsSince(was, before.At)
	}
}

// lagsSince notes since when a group lags. Was is how it was found before.
func (g *Group) lagsSince(was *Group, before time.Time) {
	known := was.Since
	if known.IsZero() && was.Lags() { // a monitor of an earlier version told it
		known = was.Arrived.Add(laggingFrom)
	}
	if g.Since = (time.Time{}); g.Lags() {
		g.Since = began(known, before, g.Arrived.Add(laggingFrom))
	}
}

// began returns since when something is a concern: what was known before or, if it was none
// then, the moment that follows from how long it has lasted, which is not before that.
func began(known, before, since time.Time) time.Time {
	if !known.IsZero() {
		return known
	}
	if since.Before(before) {
		return before
	}
	return since
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Dead is the dead letters of all groups.
type Dead struct {
	Age
	Letters int     `json:"letters"`
	Oldest  float64 `json:"oldest_seconds"`
}

// Doubts is the sends of which nobody knows how their attempts went.
type Doubts struct {
	Age
	Sends  int       `json:"sends"`
	Oldest time.Time `json:"oldest,omitzero"` // when the oldest of them was queued

	Since time.Time `json:"since,omitzero"` // since when there have been any without a break
}

// Follow notes since when there are any. The count before may be nil.
func (d *Doubts) Follow(before *Doubts) {
	if d.Sends == 0 {
		return
	}
	if d.Since = d.At; before != nil && !before.Since.IsZero() {
		d.Since = before.Since
	}
}

// Trimmed is what trimming did lately.
type Trimmed struct {
	Age
	Early int `json:"early"` // messages dropped before they were past their retention, the last time that there were any
}

// InQuarantine is the accounts that were parked because their checks hang or kill replicas.
type InQuarantine struct {
	Age
	Accounts int `json:"accounts"`
}

// Failing is the accounts that have begun to fail, as the last summary of problems has them.
type Failing struct {
	Age
	Newly int `json:"newly"` // within the hour before
	Of    int `json:"of"`    // accounts in circulation

	Since time.Time `json:"jumped_since,omitzero"` // since when they have been a concern without a break
}

// Follow notes since when accounts that have begun to fail are a concern. The summary before may
// be nil.
func (f *Failing) Follow(before *Failing) {
	if _, jumps := jumped(f.Newly, f.Of); !jumps {
		return
	}
	if f.Since = f.At; before != nil && !before.Since.IsZero() {
		f.Since = before.Since
	}
}

// jumped returns the share of accounts that have begun to fail, and whether it is a concern: so
// many of all, and at least some, or all of the few there are.
func jumped(newly, of int) (share float64, jumps bool) {
	if of <= 0 {
		return 0, false
	}
	share = float64(newly) / float64(of)
	return share, newly >= min(newlyLeast, of) && share >= newlyShare
}

// Tell posts what the monitor on duty watches, for everybody.
func (w *Watched) Tell(ctx context.Context, ring *circulate.Ring) error {
	text, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("tell what is watched: %w", err)
	}
	if _, err := document.Of(ring).Notices().Post(ctx, watchName, text); err != nil {
		return fmt.Errorf("tell what is watched: %w", err)
	}
	return nil
}

// readWatched returns what a monitor posted last, without outdated parts, and when it
// did. The zero time means that no monitor has posted anything.
func readWatched(ctx context.Context, ring *circulate.Ring) (w Watched, told, now time.Time, err error) {
	if w, told, now, err = lastPosted(ctx, ring); err != nil {
		return w, told, now, fmt.Errorf("concerns: %w", err)
	}
	w.Counted = young(w.Counted, now, watchLasts)
	w.Groups = young(w.Groups, now, groupsLast)
	w.Dead = young(w.Dead, now, watchLasts)
	w.Trimmed = young(w.Trimmed, now, trimLasts)
	w.Doubts = young(w.Doubts, now, watchLasts)
	w.Quarantined = young(w.Quarantined, now, watchLasts)
	w.Failing = young(w.Failing, now, watchLasts)
	return w, told, now, nil
}

// LastWatched returns what a monitor told last, however long ago. A monitor that goes on duty
// begins with it: what was a concern then and is one now began before.
func LastWatched(ctx context.Context, ring *circulate.Ring) (w Watched, err error) {
	if w, _, _, err = lastPosted(ctx, ring); err != nil {
		return w, fmt.Errorf("what was watched: %w", err)
	}
	return w, nil
}

// lastPosted returns what a monitor posted last, all of it, and when it did.
func lastPosted(ctx context.Context, ring *circulate.Ring) (w Watched, posted, now time.Time, err error) {
	found, now, err := document.Of(ring).Notices().Read(ctx, watchName)
	notice := found[watchName]
	if err != nil || json.Unmarshal(notice.Text, &w) != nil {
		return Watched{}, time.Time{}, now, err
	}
	w.date(notice.Posted)
	return w, notice.Posted, now, nil
}

// date fills in when each part was found, for reports of earlier versions, which have only its age.
func (w *Watched) date(told time.Time) {
	date(w.Counted, told)
	date(w.Groups, told)
	date(w.Dead, told)
	date(w.Trimmed, told)
	date(w.Doubts, told)
	date(w.Quarantined, told)
	date(w.Failing, told)
	if w.Groups != nil {
		for i := range w.Groups.All {
			if g := &w.Groups.All[i]; g.Arrived.IsZero() && g.Oldest > 0 {
				g.Arrived = w.Groups.At.Add(-seconds(g.Oldest))
			}
		}
	}
}

// part is a pointer to a section of a report that has an Age; nil means that there is none.
type part interface {
	comparable
	age() *Age
}

func (a *Age) age() *Age { return a }

// young returns a part, or nil if it is outdated.
func young[P part](p P, now time.Time, lasts time.Duration) P {
	var none P
	if p == none || now.Sub(p.age().At) >= lasts {
		return none
	}
	return p
}

func date[P part](p P, told time.Time) {
	var none P
	if p != none && p.age().At.IsZero() {
		p.age().At = told.Add(-seconds(p.age().Seconds))
	}
}
