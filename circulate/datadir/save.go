package datadir

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/rounds-dev/rounds/circulate/image"
)

const (
	// Ample is up to how many bytes in accounts and what belongs to them changes are saved in
	// time. It is what about 20,000 accounts have.
	Ample = 16 << 20
	// AmplePacked is the same for the bytes of a file. It is what two million messages have.
	AmplePacked = 32 << 20
	// share is which part of the time saving may take, beyond Ample: a twentieth.
	share = 20
	// passingWithin is within which time what changes with time alone is saved.
	passingWithin = 5 * time.Minute
)

// Run saves what changes until ctx is done. It does not save then: Close does.
func (d *Dir) Run(ctx context.Context) {
	// A change waits for at most a pause and a save.
	for pause := d.options.Within * 4 / 5; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		_ = d.Save() // State and the log tell it
		pause = d.options.Within * 4 / 5
		if s := d.State(); s.Large() {
			pause = max(pause, share*s.Took)
		}
	}
}

// Save saves an image now if something has changed since the last, or if the last could not
// be saved.
func (d *Dir) Save() error {
	d.saving.Lock()
	defer d.saving.Unlock()
	before := d.State()
	began := time.Now()
	taken, err := d.taker.Take()
	if err != nil {
		return d.failed(err)
	}
	changed, passed, marks := taken.Changed(d.marks, d.options.Passing)
	if passed && began.Sub(d.wrote) >= passingWithin {
		changed = true
	}
	if !changed && before.Failing.IsZero() {
		return nil
	}
	done, err := d.write(taken, began)
	if err != nil {
		return d.failed(err)
	}
	d.marks, d.wrote = marks, began
	d.saved(taken, done)
	return nil
}

// written is what was written of an image.
type written struct {
	keys   int
	packed int64 // bytes
	took   time.Duration
}

// write writes an image beside the newest, and then has it take that one's place.
func (d *Dir) write(taken *image.Image, began time.Time) (written, error) {
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

func (d *Dir) writeNew(taken *image.Image, began time.Time) (done written, err error) {
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
	err := fmt.Errorf("data directory %s: what changes cannot be saved: %w", d.options.Path, why)
	d.mu.Lock()
	first := d.state.Failing.IsZero()
	if first {
		d.state.Failing = time.Now()
	}
	d.state.Fails++
	d.state.Why = err
	d.mu.Unlock()
	if first {
		d.options.Log.Error("what changes cannot be saved; trying again until it can", "path", d.options.Path, "error", why)
	}
	return err
}

// saved notes that an image was saved.
func (d *Dir) saved(taken *image.Image, done written) {
	d.mu.Lock()
	s := &d.state
	again := !s.Failing.IsZero()
	s.Saved, s.Failing, s.Why = taken.Time, time.Time{}, nil
	s.Saves++
	s.Keys, s.Bytes, s.Packed, s.Stood, s.Took = done.keys, taken.Bytes(), done.packed, taken.Stood, done.took
	large := s.Large()
	d.mu.Unlock()
	if again {
		d.options.Log.Info("what changes is saved again", "path", d.options.Path)
	}
	if large && !d.told {
		d.told = true
		d.options.Log.Warn("so much is kept that saving it takes long: it is time for a Redis, to which rounds backup - | rounds restore - --to redis://HOST:PORT moves everything",
			"path", d.options.Path, "bytes", taken.Bytes(), "file", done.packed, "took", done.took)
	}
}
