package monitor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
)

// watch is what this monitor has watched while on duty, for others to read.
type watch struct {
	mu     sync.Mutex
	last   concern.Watched
	before *concern.Watched                                                                 // what a monitor told before this one was on duty; nil: not read
	taken  struct{ counted, groups, dead, trimmed, doubts, quarantined, failing time.Time } // by our own clock
}

// note changes the watched values. Now is by our own clock.
func (w *watch) note(change func(w *watch, now time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w, time.Now())
}

// now returns the watched values, each part with its age. Now is by Redis' clock: a part that was
// found without asking Redis for the time is dated when it is told first.
func (w *watch) now(now time.Time) concern.Watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	age := func(a *concern.Age, taken time.Time) {
		since := time.Since(taken)
		if a.Seconds = since.Seconds(); a.At.IsZero() {
			a.At = now.Add(-since).UTC()
		}
	}
	told := &w.last
	if part := copied(&told.Counted); part != nil {
		age(&part.Age, w.taken.counted)
	}
	if part := copied(&told.Groups); part != nil {
		age(&part.Age, w.taken.groups)
	}
	if part := copied(&told.Dead); part != nil {
		age(&part.Age, w.taken.dead)
	}
	if part := copied(&told.Trimmed); part != nil {
		age(&part.Age, w.taken.trimmed)
	}
	if part := copied(&told.Doubts); part != nil {
		age(&part.Age, w.taken.doubts)
	}
	if part := copied(&told.Quarantined); part != nil {
		age(&part.Age, w.taken.quarantined)
	}
	if part := copied(&told.Failing); part != nil {
		age(&part.Age, w.taken.failing)
	}
	return *told
}

// copied replaces a part by a copy, because one that was told may still be read. Nil has none.
func copied[T any](part **T) *T {
	if *part != nil {
		*part = new(**part)
	}
	return *part
}

// recall reads once which concerns the monitor reported that was on duty before this one. A
// concern that has lasted since then did not begin now.
func (m *Monitor) recall(ctx context.Context) error {
	w := &m.watch
	w.mu.Lock()
	read := w.before != nil
	w.mu.Unlock()
	if read {
		return nil
	}
	told, err := concern.LastWatched(ctx, m.ring)
	if err != nil {
		return err
	}
	w.note(func(w *watch, _ time.Time) { w.before = &told })
	return nil
}

// beforeThis returns what was watched before the parts that there are now, which replace it.
// The caller holds mu.
func (w *watch) beforeThis() concern.Watched {
	was := w.last
	if w.before != nil {
		was.Counted, was.Groups, was.Failing = cmp.Or(was.Counted, w.before.Counted), cmp.Or(was.Groups, w.before.Groups), cmp.Or(was.Failing, w.before.Failing)
		was.Doubts = cmp.Or(was.Doubts, w.before.Doubts)
	}
	return was
}

// counted notes the count of all accounts, and the kinds that no living replica checks. At is
// by Redis' clock.
func (w *watch) counted(at time.Time, registered, waiting int, overdue time.Duration, missing []string) {
	slices.Sort(missing)
	w.note(func(w *watch, now time.Time) {
		w.taken.counted = now
		found := concern.Counted{Registered: registered, Waiting: waiting, Overdue: overdue.Seconds(), Missing: missing[:min(len(missing), concern.KindsWatched)]}
		found.At = at.UTC()
		found.Follow(w.beforeThis().Counted)
		w.last.Counted = &found
	})
}

// catchUp notes when late accounts are in time again; nil: none is late, or it is not known.
func (w *watch) catchUp(found *accounts.CatchUp) {
	w.note(func(w *watch, _ time.Time) { w.last.CatchUp = found })
}

// grouped notes how far all consumer groups have read. At is by Redis' clock.
func (w *watch) grouped(all []concern.Group, at time.Time) {
	slices.SortFunc(all, func(a, b concern.Group) int {
		return cmp.Or(cmp.Compare(b.Oldest, a.Oldest), cmp.Compare(a.Name, b.Name))
	})
	w.note(func(w *watch, now time.Time) {
		w.taken.groups = now
		found := concern.Groups{Age: concern.Age{At: at.UTC()}, All: all[:min(len(all), concern.GroupsWatched)]}
		found.Follow(w.beforeThis().Groups)
		w.last.Groups = &found
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

// doubts notes how many sends are unknown. At is by Redis' clock.
func (w *watch) doubts(at time.Time, c circulate.SendCount) {
	w.note(func(w *watch, now time.Time) {
		w.taken.doubts = now
		found := concern.Doubts{Age: concern.Age{At: at.UTC()}, Sends: c.Unknown, Oldest: c.Oldest}
		found.Follow(w.beforeThis().Doubts)
		w.last.Doubts = &found
	})
}

// quarantined notes how many accounts are in quarantine.
func (w *watch) quarantined(n int) {
	w.note(func(w *watch, now time.Time) {
		w.taken.quarantined = now
		w.last.Quarantined = &concern.InQuarantine{Accounts: n}
	})
}

// failing notes how many accounts have begun to fail, of those in circulation. At is by Redis'
// clock.
func (w *watch) failing(at time.Time, newly, of int) {
	w.note(func(w *watch, now time.Time) {
		w.taken.failing = now
		found := concern.Failing{Age: concern.Age{At: at.UTC()}, Newly: newly, Of: of}
		found.Follow(w.beforeThis().Failing)
		w.last.Failing = &found
	})
}

// forget clears the watched values: another monitor watches now.
func (w *watch) forget() {
	w.note(func(w *watch, _ time.Time) { w.last, w.before = concern.Watched{}, nil })
}

// tell posts what this monitor watches. Before its first count is done, another monitor's
// last post stays.
func (m *Monitor) tell(ctx context.Context) error {
	now, err := m.ring.Now(ctx, 0)
	if err != nil {
		return err
	}
	m.showSilenced(ctx)
	m.showBackup(ctx)
	told := m.watch.now(now)
	if told.Counted == nil || !m.duty.held() {
		return nil
	}
	return told.Tell(ctx, m.ring)
}

// showBackup shows the age of the last backup, if there is one and it is known now.
func (m *Monitor) showBackup(ctx context.Context) {
	known, err := concern.ReadBackups(ctx, m.ring)
	if err != nil {
		m.log.Debug("could not learn when the last backup was taken", "error", err)
	}
	m.metrics.backup.forget()
	if known.Last != nil && m.duty.held() {
		m.metrics.backup.set(max(0, known.Now.Sub(known.Last.Ended).Seconds()))
	}
}

// showSilenced shows which concerns are silent. If that is not known now, none is: an alert too many
// is better than one too few.
func (m *Monitor) showSilenced(ctx context.Context) {
	codes, err := concern.SilencesOf(m.ring).Silenced(ctx)
	if err != nil {
		m.log.Debug("could not learn which concerns are silent", "error", err)
	}
	m.metrics.silenced.Reset()
	for _, code := range codes {
		if m.duty.held() {
			m.metrics.silenced.WithLabelValues(string(code)).Set(1)
		}
	}
}
