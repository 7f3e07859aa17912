package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	leaseLasts = 15 * time.Second
	lookEvery  = 2 * time.Second // how often a process looks for jobs
	saveEvery  = time.Second     // how often progress without changes is stored
	longRest   = time.Second     // the longest rest after a step
	restless   = 5 * time.Second // how long a process works on a job without a rest: people wait for short ones
	mostAtOnce = 4               // jobs under way, in all processes

	// only is the name of a note that is replaced by the next one.
	only = "only"
)

var errLost = errors.New("job: another process has the job")

// Run works on jobs until ctx is done. Any number of processes may do so.
func (s *Jobs) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	for ctx.Err() == nil {
		if err := s.turn(ctx, &work); err != nil && ctx.Err() == nil {
			s.options.Log.DebugContext(ctx, "jobs cannot be read", "error", err)
		}
		timer := time.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
		case <-s.ordered:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// turn takes the jobs on which nobody works, and removes old ones.
func (s *Jobs) turn(ctx context.Context, work *sync.WaitGroup) error {
	all, now, err := s.all(ctx)
	if err != nil {
		return err
	}
	busy, states := 0, make(map[State]int)
	for i := range all {
		states[all[i].State]++
		if all[i].active() && now.Before(all[i].Until) {
			busy++
		}
	}
	s.options.Looked(states)
	for i := len(all) - 1; i >= 0; i-- { // the oldest first
		j := all[i]
		switch {
		case j.active() && !now.Before(j.Until) && busy < mostAtOnce:
			busy++
			r := &runner{jobs: s, job: j}
			if taken, err := r.take(ctx, now); err != nil || !taken {
				continue
			}
			work.Go(func() { r.run(ctx) })
		case !j.active() && now.After(j.kept()) && !underWay(all, j.Undone):
			_ = s.store.Remove(ctx, j.document()) // the next turn tries again
		}
	}
	return nil
}

func underWay(all []stored, id string) bool {
	for i := range all {
		if all[i].ID == id && id != "" {
			return all[i].active()
		}
	}
	return false
}

// runner works on one job.
type runner struct {
	jobs   *Jobs
	job    stored
	walk   *accounts.StepWalk
	source *Job // the job that this one takes back
	step   accounts.Step
	fresh  bool // step was planned here, and nothing of it is done
	saved  time.Time
	unsent *document.JobChange // a note that is not known to be stored
}

// take takes the job's lease. It reports false if this version cannot do the job, or another
// process has it.
func (r *runner) take(ctx context.Context, now time.Time) (bool, error) {
	j := &r.job
	bulk, err := j.bulk()
	if err != nil {
		return false, err // of a later version, which does it
	}
	registry := r.jobs.registry.Bound(j.Labels)
	if r.walk, err = registry.StepWalk(bulk); j.Undoes != "" {
		r.walk, err = registry.UndoWalk(bulk)
	}
	if err != nil {
		return false, err
	}
	if j.Undoes == "" && j.Layout != r.walk.Layout() {
		if j.Layout != "" {
			j.Restarts++
		}
		j.Layout, j.Shards, j.Shard, j.Behind = r.walk.Layout(), r.walk.Shards(), 0, ""
	}
	if j.Began.IsZero() {
		j.Began = now
	}
	j.Runner, j.Until = r.jobs.who, now.Add(leaseLasts)
	switch err := r.put(ctx, document.JobChange{Life: stoppedFor}); {
	case errors.Is(err, document.ErrChanged):
		return false, nil
	case err != nil:
		return false, err
	}
	r.saved = time.Now()
	return true, nil
}

// run works on the job until it ends, or another process has it, or ctx is done.
func (r *runner) run(ctx context.Context) {
	log := r.jobs.options.Log.With("job", r.job.ID)
	taken := time.Now()
	for failing := false; ; {
		began := time.Now()
		ended, err := r.turn(ctx)
		switch {
		case ended:
			r.jobs.options.Ended(ctx, r.job.Job)
			return
		case errors.Is(err, errLost):
			return
		case ctx.Err() != nil, errors.Is(err, circulate.ErrResharding):
			r.giveUp(ctx)
			return
		case err != nil && !failing:
			failing = true
			log.WarnContext(ctx, "a job waits until Redis works again", "error", err)
		case err == nil:
			failing = false
		}
		pause := min(time.Since(began), longRest)
		switch {
		case err != nil:
			r.jobs.options.Failed()
			pause = longRest
		case time.Since(taken) < restless:
			pause = 0
		}
		rest(ctx, pause)
	}
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// giveUp gives the lease back, so that another process goes on at once.
func (r *runner) giveUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	r.job.Until = time.Time{}
	_ = r.put(ctx, document.JobChange{Life: stoppedFor}) // otherwise the lease ends by itself
}

// turn does the noted step, and notes the next one. It reports whether the job has ended.
func (r *runner) turn(ctx context.Context) (ended bool, err error) {
	j := &r.job
	if r.unsent != nil {
		if err := r.save(ctx, *r.unsent); err != nil {
			return false, err
		}
		r.unsent = nil
	}
	if j.Pending > 0 {
		if err := r.settle(ctx); err != nil {
			return false, err
		}
	}
	if j.State == Stopping {
		return r.end(ctx, Stopped)
	}
	if j.Shard >= j.Shards {
		return r.end(ctx, Ended)
	}
	planned, err := r.plan(ctx)
	if err != nil {
		return false, err
	}
	r.step, r.fresh = planned.Step, true
	if len(planned.Changes) > 0 {
		return false, r.note(ctx)
	}
	if time.Since(r.saved) >= saveEvery {
		return false, r.save(ctx, document.JobChange{Life: stoppedFor})
	}
	return false, nil
}

// plan plans the next step, and moves the job's place behind it.
func (r *runner) plan(ctx context.Context) (accounts.Planned, error) {
	j := &r.job
	shard, behind := j.Shard, ""
	var p accounts.Planned
	var err error
	if j.Undoes == "" {
		if p, behind, err = r.walk.Next(ctx, j.Shard, j.Behind); err != nil {
			return p, err
		}
		p.First = j.Changed - j.Base
	} else {
		until, err := r.until(ctx)
		if err != nil {
			return p, err
		}
		text, err := r.jobs.store.Chunk(ctx, j.Undoes, strconv.Itoa(j.Shard))
		var s accounts.Step
		switch {
		case errors.Is(err, document.ErrNone):
		case err != nil:
			return p, err
		case json.Unmarshal(text, &s) != nil:
			return p, fmt.Errorf("note %d of job %s cannot be read", j.Shard, j.Undoes)
		default:
			if p, err = r.walk.Undo(ctx, s, until); err != nil {
				return p, err
			}
		}
	}
	if behind == "" {
		shard++
	}
	j.Shard, j.Behind = shard, behind
	j.Seen, j.Matched = j.Seen+p.Seen, j.Matched+p.Matched
	j.Unchanged = j.Unchanged.Plus(p.Reasons)
	return p, nil
}

// until returns when the job ended that this one takes back. The first time, it has that job's
// notes live longer.
func (r *runner) until(ctx context.Context) (time.Time, error) {
	if r.source == nil {
		source, err := r.jobs.change(ctx, access.Principal{}, r.job.Undoes, func(*Job, time.Time) (time.Duration, error) { return stoppedFor, nil })
		if err != nil && !errors.Is(err, ErrNotFound) { // then its notes are gone too
			return time.Time{}, err
		}
		r.source = &source
	}
	return r.source.Ended, nil
}

// keeps reports whether the job's notes are kept, so that it can be taken back.
func (j *Job) keeps() bool { return j.Action.Undoes() && j.Undoes == "" && !j.NoUndo }

// note stores the planned step with the job.
func (r *runner) note(ctx context.Context) error {
	j := &r.job
	text, err := json.Marshal(&r.step)
	if err != nil {
		return err
	}
	if j.keeps() {
		full, err := r.full(ctx, len(text))
		if err != nil {
			return err
		}
		if full {
			// Nothing is pending, so no note is missed.
			j.NoUndo, j.Kept, j.KeptBytes = true, 0, 0
			if err := r.save(ctx, document.JobChange{}); err != nil {
				return err
			}
		}
	}
	name := only
	if j.keeps() {
		name = strconv.Itoa(j.Notes)
		j.Notes, j.Kept, j.KeptBytes = j.Notes+1, j.Kept+len(r.step.Changes), j.KeptBytes+len(text)
	}
	j.Pending = len(r.step.Changes)
	r.unsent = &document.JobChange{Chunk: name, Text: text, Life: stoppedFor}
	return nil
}

// full reports whether there is no room for another note of so many bytes.
func (r *runner) full(ctx context.Context, bytes int) (bool, error) {
	j := &r.job
	if j.Kept+len(r.step.Changes) > r.jobs.mostUndo || j.KeptBytes+bytes > MostUndoBytes {
		return true, nil
	}
	if j.Notes%100 != 0 { // the others' notes grow slowly
		return false, nil
	}
	all, now, err := r.jobs.all(ctx)
	if err != nil {
		return false, err
	}
	sum := bytes + j.KeptBytes
	for i := range all {
		if all[i].ID != j.ID && (all[i].active() || underWay(all, all[i].Undone) || now.Before(all[i].Ended.Add(UndoFor))) {
			sum += all[i].KeptBytes
		}
	}
	return sum > mostUndoInAll, nil
}

// settle does the noted step, and counts it.
func (r *runner) settle(ctx context.Context) error {
	j := &r.job
	do := r.walk.Redo
	if r.fresh {
		do = r.walk.Do
	} else {
		name := only
		if j.keeps() {
			name = strconv.Itoa(j.Notes - 1)
		}
		text, err := r.jobs.store.Chunk(ctx, j.ID, name)
		switch {
		case errors.Is(err, document.ErrNone), err == nil && json.Unmarshal(text, &r.step) != nil:
			j.Unknown, j.Pending = j.Unknown+j.Pending, 0
			return nil
		case err != nil:
			return err
		}
	}
	r.fresh = false // with an error nobody knows how much of it is done
	now, err := r.walk.Now(ctx)
	if err != nil {
		return err
	}
	done, err := do(ctx, r.step, now.Sub(j.Began))
	if err != nil {
		return err
	}
	j.Changed += done.Changed
	j.Unchanged = j.Unchanged.Plus(done.Reasons)
	j.Pending = 0
	return nil
}

// end ends the job, or stops it.
func (r *runner) end(ctx context.Context, as State) (bool, error) {
	j := &r.job
	now, err := r.walk.Now(ctx)
	if err != nil {
		return false, err
	}
	j.State, j.Ended, j.Until = as, now, time.Time{}
	life := time.Duration(0)
	if j.keeps() {
		life = UndoFor
	}
	if err := r.save(ctx, document.JobChange{Life: life}); err != nil {
		return false, err
	}
	return !j.active(), nil
}

// save stores the job and renews its lease. If somebody stopped or resumed it meanwhile, the job
// goes on as Stopping or Running. It returns errLost if another process has the job.
func (r *runner) save(ctx context.Context, with document.JobChange) error {
	j := &r.job
	for range changeTries {
		if j.active() {
			now, err := r.walk.Now(ctx)
			if err != nil {
				return err
			}
			j.Until = now.Add(leaseLasts)
		}
		err := r.put(ctx, with)
		if !errors.Is(err, document.ErrChanged) {
			if err == nil {
				r.saved = time.Now()
			}
			return err
		}
		d, _, err := r.jobs.store.Get(ctx, j.ID)
		if errors.Is(err, document.ErrNone) {
			return errLost
		}
		if err != nil {
			return err
		}
		is, ok := read(d)
		if !ok || is.Runner != r.jobs.who || !is.active() {
			return errLost
		}
		j.version = is.version
		if j.active() || j.State == Stopped && is.State == Running { // somebody stopped or resumed it
			j.State, j.Ended = is.State, time.Time{}
		}
	}
	return errLost
}

func (r *runner) put(ctx context.Context, with document.JobChange) error {
	text, err := json.Marshal(&r.job.Job)
	if err != nil {
		return err
	}
	d := r.job.document()
	d.Text = text
	version, err := r.jobs.store.Put(ctx, d, with)
	if err == nil {
		r.job.version = version
	}
	return err
}
