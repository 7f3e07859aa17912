package monitor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
)

// watch is what this monitor has watched while on duty, for others to read.
type watch struct {
	mu    sync.Mutex
	last  concern.Watched
	taken struct{ counted, groups, dead, trimmed, quarantined time.Time } // by our own clock
}

// note changes the watched values.
func (w *watch) note(change func(w *watch, now time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w, time.Now())
}

// now returns the watched values, each part with its age.
func (w *watch) now() concern.Watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.last
	age := func(taken time.Time) concern.Age { return concern.Age{Seconds: time.Since(taken).Seconds()} }
	if told.Counted != nil {
		part := *told.Counted
		part.Age, told.Counted = age(w.taken.counted), &part
	}
	if told.Groups != nil {
		part := *told.Groups
		part.Age, told.Groups = age(w.taken.groups), &part
	}
	if told.Dead != nil {
		part := *told.Dead
		part.Age, told.Dead = age(w.taken.dead), &part
	}
	if told.Trimmed != nil {
		part := *told.Trimmed
		part.Age, told.Trimmed = age(w.taken.trimmed), &part
	}
	if told.Quarantined != nil {
		part := *told.Quarantined
		part.Age, told.Quarantined = age(w.taken.quarantined), &part
	}
	return told
}

// counted notes the count of all accounts, and the kinds that no living replica checks.
func (w *watch) counted(registered, waiting int, overdue time.Duration, missing []string) {
	slices.Sort(missing)
	w.note(func(w *watch, now time.Time) {
		w.taken.counted = now
		w.last.Counted = &concern.Counted{Registered: registered, Waiting: waiting, Overdue: overdue.Seconds(), Missing: missing[:min(len(missing), concern.KindsWatched)]}
	})
}

// grouped notes how far all consumer groups have read.
func (w *watch) grouped(all []concern.Group) {
	slices.SortFunc(all, func(a, b concern.Group) int {
		return cmp.Or(cmp.Compare(b.Oldest, a.Oldest), cmp.Compare(a.Name, b.Name))
	})
	w.note(func(w *watch, now time.Time) {
		w.taken.groups = now
		w.last.Groups = &concern.Groups{All: all[:min(len(all), concern.GroupsWatched)]}
	})
}

// letters notes how many dead letters there are.
func (w *watch) letters(n int, oldest time.Duration) {
	w.note(func(w *watch, now time.Time) {
		w.taken.dead = now
		w.last.Dead = &concern.Dead{Letters: n, Oldest: oldest.Seconds()}
	})
}

// dropped notes that messages were dropped early.
func (w *watch) dropped(messages int) {
	w.note(func(w *watch, now time.Time) {
		w.taken.trimmed = now
		w.last.Trimmed = &concern.Trimmed{Early: messages}
	})
}

// quarantined notes how many accounts are in quarantine.
func (w *watch) quarantined(n int) {
	w.note(func(w *watch, now time.Time) {
		w.taken.quarantined = now
		w.last.Quarantined = &concern.InQuarantine{Accounts: n}
	})
}

// forget clears the watched values: another monitor watches now.
func (w *watch) forget() {
	w.note(func(w *watch, _ time.Time) { w.last = concern.Watched{} })
}

// tell posts what this monitor watches. Before its first count is done, another monitor's
// last post stays.
func (m *Monitor) tell(ctx context.Context) error {
	told := m.watch.now()
	if told.Counted == nil || !m.duty.held() {
		return nil
	}
	return told.Tell(ctx, m.ring)
}
