package datadir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rounds-dev/rounds/circulate/image"
)

const (
	// Ample is up to how many bytes before they are packed the time within which changes are
	// saved holds. It is about what 50,000 accounts and as many messages have.
	Ample = 64 << 20
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
	taken, err := image.Take(d.server, before.Bytes)
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
	counts, took, err := d.write(taken, began)
	if err != nil {
		return d.failed(err)
	}
	d.marks, d.wrote = marks, began
	d.saved(taken, counts, took)
	return nil
}

// write writes an image beside the newest, and then has it take that one's place.
func (d *Dir) write(taken *image.Image, began time.Time) (image.Counts, time.Duration, error) {
	counts, took, err := d.writeNew(taken, began)
	if err != nil {
		_ = d.disk.Remove(writtenName) // what is saved is not harmed, and the room is free again
		return counts, took, err
	}
	if d.newest {
		if err := d.disk.Rename(newestName, previousName); err != nil {
			return counts, took, err
		}
		d.newest = false
	}
	if err := d.disk.Rename(writtenName, newestName); err != nil {
		return counts, took, err
	}
	d.newest = true
	return counts, took, d.disk.Sync()
}

func (d *Dir) writeNew(taken *image.Image, began time.Time) (counts image.Counts, took time.Duration, err error) {
	out, err := d.disk.Create(writtenName)
	if err != nil {
		return counts, 0, err
	}
	open := true
	defer func() {
		if open {
			_ = out.Close() // it failed already
		}
	}()
	packed, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return counts, 0, err
	}
	counts, err = taken.Write(packed, d.options.Program)
	if err := errors.Join(err, packed.Close()); err != nil {
		return counts, 0, err
	}
	took = time.Since(began)
	if err := out.Sync(); err != nil {
		return counts, took, err
	}
	open = false
	return counts, took, out.Close()
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
func (d *Dir) saved(taken *image.Image, counts image.Counts, took time.Duration) {
	d.mu.Lock()
	s := &d.state
	again := !s.Failing.IsZero()
	s.Saved, s.Failing, s.Why = taken.Time, time.Time{}, nil
	s.Saves++
	s.Keys, s.Bytes, s.Stood, s.Took = counts.Keys, taken.Bytes(), taken.Stood, took
	large := s.Large()
	d.mu.Unlock()
	if again {
		d.options.Log.Info("what changes is saved again", "path", d.options.Path)
	}
	if large && !d.told {
		d.told = true
		d.options.Log.Warn("so much is kept that saving it takes long: it is time for a Redis, to which rounds backup - | rounds restore - --to redis://HOST:PORT moves everything",
			"path", d.options.Path, "bytes", taken.Bytes(), "ample", Ample)
	}
}
