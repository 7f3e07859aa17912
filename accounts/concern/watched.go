package concern

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	watchName = "watch"

	// WatchEvery is how often the monitor on duty reports what it watches.
	WatchEvery = 30 * time.Second
	// watchLasts is how long that counts as current.
	watchLasts = 5 * time.Minute
	// groupsLast is the same for consumer groups, which may read everything within a
	// second. They are looked at every minute, and reported within WatchEvery after that.
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

	Quarantined *InQuarantine `json:"quarantined,omitempty"`
}

// Age is how old a part is, in seconds.
type Age struct {
	Seconds float64 `json:"age_seconds"`
}

// Counted is what the last count of all accounts found.
type Counted struct {
	Age
	Registered int      `json:"registered"`
	Waiting    int      `json:"waiting"`
	Overdue    float64  `json:"overdue_seconds"` // how long the longest overdue account has waited
	Missing    []string `json:"missing_kinds,omitempty"`
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
	Deferred string  `json:"deferred,omitempty"`   // it lags, and this is why: the last error of a consumer's handler
}

// Dead is the dead letters of all groups.
type Dead struct {
	Age
	Letters int     `json:"letters"`
	Oldest  float64 `json:"oldest_seconds"`
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
	found, now, err := document.Of(ring).Notices().Read(ctx, watchName)
	if err != nil {
		return w, told, now, fmt.Errorf("concerns: %w", err)
	}
	notice := found[watchName]
	if json.Unmarshal(notice.Text, &w) != nil {
		return Watched{}, time.Time{}, now, nil
	}
	silent := now.Sub(notice.Posted)
	young := func(age Age, lasts time.Duration) bool {
		return silent+time.Duration(age.Seconds*float64(time.Second)) < lasts
	}
	if w.Counted != nil && !young(w.Counted.Age, watchLasts) {
		w.Counted = nil
	}
	if w.Groups != nil && !young(w.Groups.Age, groupsLast) {
		w.Groups = nil
	}
	if w.Dead != nil && !young(w.Dead.Age, watchLasts) {
		w.Dead = nil
	}
	if w.Trimmed != nil && !young(w.Trimmed.Age, trimLasts) {
		w.Trimmed = nil
	}
	if w.Quarantined != nil && !young(w.Quarantined.Age, watchLasts) {
		w.Quarantined = nil
	}
	return w, notice.Posted, now, nil
}
