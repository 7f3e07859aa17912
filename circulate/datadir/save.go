package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// ample is up to how many bytes in accounts and what belongs to them changes are saved in
	// time. It is what about 20,000 accounts have.
	ample = 16 << 20
	// amplePacked is the same for the bytes of a file. It is what two million messages have.
	amplePacked = 32 << 20
	// share is which part of the time saving may take, beyond Ample: a twentieth.
	share = 20
	// passingWithin is within which time what changes with time alone is written.
	passingWithin = 5 * time.Minute
	// syncEvery is how often the log is synced, if something was written to it.
	syncEvery = 500 * time.Millisecond
	// retryEvery is how often a directory is tried that cannot be written.
	retryEvery = 2 * time.Second
	// longLog is from which length on the log is replaced at once, if it is also twice as long
	// as the image. It bounds what the next process has to do again.
	longLog = 32 << 20
)

// Run syncs the log and saves images until ctx is done. It does not save then: Close does.
func (d *Dir) Run(ctx context.Context) {
	tick := time.NewTicker(min(syncEvery, d.options.Within))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_ = d.log.sync(false) // State and the log tell it
		if d.due() {
			_ = d.Save() // the same
		}
	}
}

// due reports whether it is time for an image: the log is long, or the directory could not be
// written.
func (d *Dir) due() bool {
	s := d.State()
	d.saving.Lock()
	ago := time.Since(d.wrote)
	d.saving.Unlock()
	switch {
	case s.Large() && ago < share*s.Took:
		return false
	case s.Why != nil:
		return ago >= min(retryEvery, d.options.Within)
	case s.Log > max(longLog, 2*s.Packed):
		return true
	}
	return s.Log > s.Packed/2 && ago >= d.options.Within
}

// Save saves an image now if something has changed since the last, or if the last could not
// be saved.
func (d *Dir) Save() error {
	d.saving.Lock()
	defer d.saving.Unlock()
	if d.log.since() == 0 && d.State().Why == nil && !d.stale {
		return nil
	}
	began := time.Now()
	d.wrote = began
	next, err := d.log.begin()
	if err != nil {
		return d.failed(err)
	}
	var at mark
	refused := errors.New("the server has not stopped")
	taken, err := d.taker.takeAnd(func() { at, refused = d.log.turn(next) })
	if refused != nil {
		d.log.drop(next)
		if err == nil {
			err = refused
		}
	}
	if err != nil {
		return d.failed(err)
	}
	taken.Log = next.number
	moves := d.newest
	done, err := d.write(taken, began)
	if err != nil {
		return d.failed(err)
	}
	if moves {
		d.previous = d.after
	}
	d.after, d.stale = next.number, false
	d.log.covered(at)
	d.saved(taken, done)
	d.tidy()
	return nil
}

// tidy removes the segments that follow neither of the two images.
func (d *Dir) tidy() {
	numbers, err := segments(d.disk)
	if err != nil {
		return // the next time
	}
	for _, n := range numbers {
		if n < min(d.previous, d.after) {
			_ = d.disk.Remove(segmentName(n)) // the same
		}
	}
}

// written is what was written of an image.
type written struct {
	keys   int
	packed int64 // bytes
	took   time.Duration
}

// write writes an image beside the newest, and then has it take that one's place.
func (d *Dir) write(taken *Image, began time.Time) (written, error) {
	done, err := d.writeNew(taken, began)
	if err != nil {
		_ = d.disk.Remove(writtenName) // what is saved is not harmed, and the room is free again
		return done, err
	}
	if d.newest {
		if err := d.disk.Rename(newestName, previousName); err != nil {
			return done, err
		}
		d.newest = false
	}
	if err := d.disk.Rename(writtenName, newestName); err != nil {
		return done, err
	}
	d.newest = true
	return done, d.disk.Sync()
}

func (d *Dir) writeNew(taken *Image, began time.Time) (done written, err error) {
	out, err := d.disk.Create(writtenName)
	if err != nil {
		return done, err
	}
	open := true
	defer func() {
		if open {
			_ = out.Close() // it failed already
		}
	}()
	counted := &counter{out: out}
	counts, err := taken.Write(counted, d.options.Program)
	if err != nil {
		return done, err
	}
	done = written{counts.Keys, counted.n, time.Since(began)}
	if err := out.Sync(); err != nil {
		return done, err
	}
	open = false
	return done, out.Close()
}

// counter counts what is written.
type counter struct {
	out io.Writer
	n   int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.n += int64(n)
	return n, err
}

// failed notes that something could not be saved.
func (d *Dir) failed(why error) error {
	err := fmt.Errorf("data directory %s: it cannot be written: %w", d.options.Path, why)
	d.mu.Lock()
	first := d.state.Failing.IsZero()
	if first {
		d.state.Failing = time.Now()
	}
	d.state.Fails++
	d.state.Why = err
	d.mu.Unlock()
	if first {
		d.options.Log.Error("the data directory cannot be written; trying again until it can", "path", d.options.Path, "error", why)
	}
	return err
}

// saved notes that an image was saved.
func (d *Dir) saved(taken *Image, done written) {
	refuses := d.log.Refuses() != nil // it failed meanwhile
	d.mu.Lock()
	s := &d.state
	again := !s.Failing.IsZero() && !refuses
	if s.Saved = taken.Time; !refuses {
		s.Failing, s.Why = time.Time{}, nil
	}
	s.Written += done.packed
	s.Saves++
	s.Keys, s.Bytes, s.Packed, s.Stood, s.Took = done.keys, taken.Bytes(), done.packed, taken.Stood, done.took
	large := s.Large()
	d.mu.Unlock()
	if again {
		d.options.Log.Info("the data directory is written again", "path", d.options.Path)
	}
	if large && !d.told {
		d.told = true
		d.options.Log.Warn("so much is kept that saving it takes long: it is time for a Redis, to which rounds backup - | rounds restore - --to redis://HOST:PORT moves everything",
			"path", d.options.Path, "bytes", taken.Bytes(), "file", done.packed, "took", done.took)
	}
}

// synced notes that the log was synced.
func (d *Dir) synced(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state.Saved = at
}
