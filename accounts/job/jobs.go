package job

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// Options are what Jobs needs besides the ring. The zero value will do.
type Options struct {
	Log *slog.Logger // nil: no log
	// Ended is called when this process has ended or stopped a job.
	Ended func(context.Context, Job)
	// Looked is called each time when this process has read all jobs to see which need it, with
	// the number of jobs in each state. Other states have none.
	Looked func(map[State]int)
	// Failed is called when a step of a job failed here. The job is not given up: the step is
	// tried again.
	Failed func()
}

// Jobs is the jobs of a ring's namespace. It is safe for concurrent use.
type Jobs struct {
	store    document.Jobs
	registry *accounts.Registry
	options  Options
	who      string
	ordered  chan struct{} // holds a token if a job was ordered here
	mostUndo int           // MostUndo, and less in tests
}

// New returns the jobs of a ring. It starts nothing: Run does the work.
func New(ring *circulate.Ring, registry *accounts.Registry, o Options) *Jobs {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Ended == nil {
		o.Ended = func(context.Context, Job) {}
	}
	if o.Looked == nil {
		o.Looked = func(map[State]int) {}
	}
	if o.Failed == nil {
		o.Failed = func() {}
	}
	return &Jobs{store: document.Of(ring).Jobs(), registry: registry, options: o, who: circulate.NewReplica(), ordered: make(chan struct{}, 1), mostUndo: MostUndo}
}

// Start adds a job. It returns accounts.Faults for an order that is not valid, and ErrFull.
// After an unknown outcome the job may exist: List shows it.
func (s *Jobs) Start(ctx context.Context, o Order) (Job, error) {
	if _, err := o.bulk(); err != nil {
		return Job{}, err
	}
	all, now, err := s.all(ctx)
	if err != nil {
		return Job{}, err
	}
	if err := s.makeRoom(ctx, all); err != nil {
		return Job{}, err
	}
	return s.add(ctx, Job{ID: strings.ToLower(rand.Text()[:12]), Order: o, State: Running, Created: now})
}

func (s *Jobs) add(ctx context.Context, j Job) (Job, error) {
	text, err := json.Marshal(&j)
	if err != nil {
		return Job{}, err
	}
	if len(text) > document.MaxJob {
		return Job{}, accounts.Faults{{Field: accounts.RecordField, Reason: fmt.Sprintf("must be shorter: the selection takes %d bytes, at most %d are allowed", len(text), document.MaxJob)}}
	}
	_, err = s.store.Put(ctx, document.Job{ID: j.ID, Text: text}, document.JobChange{Life: stoppedFor})
	if errors.Is(err, document.ErrFull) {
		return Job{}, ErrFull
	}
	if err != nil {
		return Job{}, err
	}
	select {
	case s.ordered <- struct{}{}:
	default:
	}
	return j, nil
}

// makeRoom removes the job that ended longest ago, if there are as many jobs as there may be.
func (s *Jobs) makeRoom(ctx context.Context, all []stored) error {
	if len(all) < document.MostJobs {
		return nil
	}
	oldest := -1
	for i := range all {
		if !all[i].active() && (oldest < 0 || all[i].Ended.Before(all[oldest].Ended)) {
			oldest = i
		}
	}
	if oldest < 0 {
		return ErrFull
	}
	if err := s.store.Remove(ctx, all[oldest].document()); err != nil && !errors.Is(err, document.ErrChanged) {
		return err
	}
	return nil
}

// stored is a job with the version of its document.
type stored struct {
	Job
	version int64
}

func (j *stored) document() document.Job { return document.Job{ID: j.ID, Version: j.version} }

func read(d document.Job) (stored, bool) {
	j := stored{version: d.Version}
	if json.Unmarshal(d.Text, &j.Job) != nil || j.ID != d.ID {
		return stored{}, false // a later version's
	}
	return j, true
}

// all returns all jobs, the latest first, and the time by Redis' clock.
func (s *Jobs) all(ctx context.Context) ([]stored, time.Time, error) {
	documents, now, err := s.store.All(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	var jobs []stored
	there := make(map[string]bool)
	for _, d := range documents {
		if j, ok := read(d); ok {
			jobs, there[j.ID] = append(jobs, j), true
		}
	}
	for i := range jobs {
		if undo := undoOf(jobs[i].ID); there[undo] {
			jobs[i].Undone = undo
		}
	}
	slices.SortFunc(jobs, func(a, b stored) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
	return jobs, now, nil
}

// sees reports whether a caller sees a job: one who is bound to labels sees only the jobs of
// callers with the same labels.
func sees(p access.Principal, j *Job) bool { return !p.Bound() || maps.Equal(p.Labels, j.Labels) }

// List returns the jobs that a caller sees, the latest first.
func (s *Jobs) List(ctx context.Context, p access.Principal) ([]Job, error) {
	all, _, err := s.all(ctx)
	jobs := make([]Job, 0, len(all))
	for i := range all {
		if sees(p, &all[i].Job) {
			jobs = append(jobs, all[i].Job)
		}
	}
	return jobs, err
}

// Get returns a job, or ErrNotFound.
func (s *Jobs) Get(ctx context.Context, p access.Principal, id string) (Job, error) {
	j, _, err := s.get(ctx, p, id)
	return j.Job, err
}

func (s *Jobs) get(ctx context.Context, p access.Principal, id string) (stored, time.Time, error) {
	if id == "" || len(id) > document.MaxName {
		return stored{}, time.Time{}, ErrNotFound
	}
	d, now, err := s.store.Get(ctx, id)
	if errors.Is(err, document.ErrNone) {
		return stored{}, now, ErrNotFound
	}
	if err != nil {
		return stored{}, now, err
	}
	j, ok := read(d)
	if !ok || !sees(p, &j.Job) {
		return stored{}, now, ErrNotFound
	}
	if _, _, err := s.store.Get(ctx, undoOf(id)); err == nil {
		j.Undone = undoOf(id)
	}
	return j, now, nil
}

// changeTries is how often a change of a job is tried while others change it.
const changeTries = 8

// change changes a job. It repeats the change if another process was faster.
func (s *Jobs) change(ctx context.Context, p access.Principal, id string, change func(j *Job, now time.Time) (life time.Duration, err error)) (Job, error) {
	for range changeTries {
		j, now, err := s.get(ctx, p, id)
		if err != nil {
			return Job{}, err
		}
		life, err := change(&j.Job, now)
		if err != nil {
			return j.Job, err
		}
		text, err := json.Marshal(&j.Job)
		if err != nil {
			return Job{}, err
		}
		d := j.document()
		d.Text = text
		_, err = s.store.Put(ctx, d, document.JobChange{Life: life})
		if !errors.Is(err, document.ErrChanged) {
			return j.Job, err
		}
	}
	return Job{}, ErrBusy
}

// Stop stops a job after its current step. A stopped job stays as it is. Stop returns
// ErrNotFound and ErrEnded.
func (s *Jobs) Stop(ctx context.Context, p access.Principal, id string) (Job, error) {
	return s.change(ctx, p, id, func(j *Job, now time.Time) (time.Duration, error) {
		switch {
		case j.State == Ended:
			return 0, ErrEnded
		case j.State == Stopped:
			return UndoFor, nil
		case j.Pending == 0 && now.After(j.Until): // nobody works on it
			j.State, j.Ended = Stopped, now
			return UndoFor, nil
		}
		j.State = Stopping
		return stoppedFor, nil
	})
}

// Resume goes on with a stopped job where it is. A running job stays as it is. Resume returns
// ErrNotFound, ErrEnded and ErrUndone.
func (s *Jobs) Resume(ctx context.Context, p access.Principal, id string) (Job, error) {
	j, err := s.change(ctx, p, id, func(j *Job, now time.Time) (time.Duration, error) {
		switch {
		case j.State == Ended:
			return 0, ErrEnded
		case j.Undone != "":
			return 0, ErrUndone
		case j.State == Stopped && j.Kept > 0 && now.After(j.Ended.Add(UndoFor)):
			j.NoUndo = true // the notes of the first part are gone
		}
		if j.State == Stopped {
			j.Began, j.Base = time.Time{}, j.Changed
		}
		j.State, j.Ended = Running, time.Time{}
		return stoppedFor, nil
	})
	if err == nil {
		select {
		case s.ordered <- struct{}{}:
		default:
		}
	}
	return j, err
}

// Undo takes a job back by another job, which it returns. It leaves out accounts that
// somebody changed since. It returns ErrNotFound, ErrFull, ErrUnderWay, ErrUndone, ErrNoUndo,
// ErrTooMany and ErrTooLate.
func (s *Jobs) Undo(ctx context.Context, p access.Principal, id string) (Job, error) {
	j, now, err := s.get(ctx, p, id)
	if err != nil {
		return Job{}, err
	}
	switch {
	case j.active():
		return Job{}, ErrUnderWay
	case j.Undone != "":
		return Job{}, ErrUndone
	case j.NoUndo && j.Kept > 0, !j.Undoable().IsZero() && now.After(j.Undoable()):
		return Job{}, ErrTooLate
	case j.NoUndo:
		return Job{}, ErrTooMany
	case j.Undoable().IsZero():
		return Job{}, ErrNoUndo
	}
	all, _, err := s.all(ctx)
	if err != nil {
		return Job{}, err
	}
	if others := slices.DeleteFunc(all, func(other stored) bool { return other.ID == id }); len(others) >= document.MostJobs-1 {
		if err := s.makeRoom(ctx, others); err != nil {
			return Job{}, err
		}
	}
	o := j.Order
	o.Undoes, o.By, o.Via = j.ID, p.Name, p.Via
	undo, err := s.add(ctx, Job{ID: undoOf(j.ID), Order: o, State: Running, Created: now, Shards: j.Notes})
	if errors.Is(err, document.ErrChanged) {
		return Job{}, ErrUndone
	}
	return undo, err
}
