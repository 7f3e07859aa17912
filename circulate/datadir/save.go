package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// ample is how many bytes of accounts and their data are saved as often as the log asks for,
	// whatever the share of the time. About 20,000 accounts have as much.
	ample = 16 << 20
	// amplePacked is the same for the bytes of a file. Two million messages have as much.
	amplePacked = 32 << 20
	// share limits the saving of a larger directory to a part of the time: a twentieth.
	share = 20
	// passingWithin is the time within which passing changes are written. See Options.Passing.
	passingWithin = 5 * time.Minute
	// syncEvery is how often the log is synced, if something was written to it.
	syncEvery = 500 * time.Millisecond
	// retryEvery is how often a directory that cannot be written is tried again.
	retryEvery = 2 * time.Second
	// longLog is the length from which on the log is replaced at once, if it is also
	// twice as long as the image. It bounds how much the next process has to repeat.
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
		_ = d.log.sync(false) // State and the log report it
		if d.due() {
			_ = d.Save() // State and the log report it
		}
	}
}

// due reports whether it is time for an image: the log is long, or the directory could not be
// written. Saving a large directory may take only its share of the time.
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

// Save saves an image now if something has changed since the last one, or if the last
// save failed.
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
	replaced := d.hasNewest
	size, err := d.write(taken, began)
	if err != nil {
		return d.failed(err)
	}
	if replaced {
		d.previous = d.after
	}
	d.after, d.stale = next.number, false
	d.log.covered(at)
	d.saved(taken, size)
	d.tidy()
	return nil
}

// tidy removes segments that follow neither of the two images.
func (d *Dir) tidy() {
	numbers, err := segments(d.disk)
	if err != nil {
		return // the next save tries again
	}
	for _, n := range numbers {
		if n < min(d.previous, d.after) {
			_ = d.disk.Remove(segmentName(n)) // the next save tries again
		}
	}
}

// fileSize is the size of an image that was written, and how long that took.
type fileSize struct {
	keys   int
	packed int64 // bytes
	took   time.Duration
}

// write writes an image beside the newest one, which then becomes the previous one.
func (d *Dir) write(taken *Image, began time.Time) (fileSize, error) {
	size, err := d.writeNew(taken, began)
	if err != nil {
		_ = d.disk.Remove(writtenName) // saved data is unharmed, and the space is free again
		return size, err
	}
	if d.hasNewest {
		if err := d.disk.Rename(newestName, previousName); err != nil {
			return size, err
		}
		d.hasNewest = false
	}
	if err := d.disk.Rename(writtenName, newestName); err != nil {
		return size, err
	}
	d.hasNewest = true
	return size, d.disk.Sync()
}

// writeNew writes and syncs an image beside the current one. The caller renames it.
func (d *Dir) writeNew(taken *Image, began time.Time) (size fileSize, err error) {
	out, err := d.disk.Create(writtenName)
	if err != nil {
		return size, err
	}
	open := true
	defer func() {
		if open {
			_ = out.Close() // it has failed already
		}
	}()
	counted := &counter{out: out}
	counts, err := taken.Write(counted, d.options.Program)
	if err != nil {
		return size, err
	}
	size = fileSize{counts.Keys, counted.n, time.Since(began)}
	if err := out.Sync(); err != nil {
		return size, err
	}
	open = false
	return size, out.Close()
}

// counter counts the written bytes.
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

// failed notes that a save failed.
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
func (d *Dir) saved(taken *Image, size fileSize) {
	refuses := d.log.Refuses() != nil // the log has failed meanwhile
	d.mu.Lock()
	s := &d.state
	again := !s.Failing.IsZero() && !refuses
	if s.Saved = taken.Time; !refuses {
		s.Failing, s.Why = time.Time{}, nil
	}
	s.Written += size.packed
	s.Saves++
	s.Keys, s.Bytes, s.Packed, s.Stood, s.Took = size.keys, taken.Bytes(), size.packed, taken.Stood, size.took
	large := s.Large()
	d.mu.Unlock()
	if again {
		d.options.Log.Info("the data directory is written again", "path", d.options.Path)
	}
	if large && !d.told {
		d.told = true
		d.options.Log.Warn("there is so much data that saving it takes long: it is time for a Redis, to which rounds backup - | rounds restore - --to redis://HOST:PORT moves everything",
			"path", d.options.Path, "bytes", taken.Bytes(), "file", size.packed, "took", size.took)
	}
}

// synced notes that the log was synced.
func (d *Dir) synced(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state.Saved = at
}
