package datadir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// defaultWithin is how long the log may grow before an image takes its place.
const defaultWithin = 5 * time.Minute

var errClosed = errors.New("the data directory is closed")

// Options are a directory's settings. Path is required.
type Options struct {
	Path    string
	Within  time.Duration // the time between two images, if much has changed; 0: defaultWithin
	Program string        // the program's version, for the images
	What    string        // the process' description, for others that want the directory
	// Passing reports whether a key changes with time alone, such as a key of heartbeats.
	// Its changes are written with others, or within five minutes. Nil: no key does.
	Passing func(key string) bool
	Log     *slog.Logger // nil: nothing is logged
}

// State is the state of the directory.
type State struct {
	Path  string
	Saved time.Time // changes up to then would survive a power failure; zero: there were none
	Saves int       // images, since Open

	Failing  time.Time // since when the directory cannot be written; zero: it can
	Why      error     // why it cannot be written
	Refusing bool      // the log cannot be written either: no change is possible
	Fails    int       // failed writes, since Open

	Log     int64 // bytes of the log after the newest image
	Written int64 // bytes written to the log and to images, since Open

	Keys   int           // of the newest image
	Bytes  int           // of the newest image, without messages packed earlier
	Packed int64         // bytes of the newest image's file
	Stood  time.Duration // how long the server stood still for the newest image
	Took   time.Duration // duration of the whole save, without syncing

	Damaged []Damaged // found by Open
}

// Large reports whether there is so much data that it should move from the embedded
// server to another one.
func (s State) Large() bool { return s.Bytes > ample || s.Packed > amplePacked }

// Damaged is a file that could not be read.
type Damaged struct {
	Name   string    // its name now
	Reason string    // what is wrong with it
	Used   time.Time // the time of the image that was used instead
}

// Dir is a directory in use. Any goroutine may call its methods at any time, except
// Close, which comes last.
type Dir struct {
	options Options
	disk    disk
	server  *connect.Embedded
	lock    *flock.Flock

	log     *wal
	release func() // lets the server's clock go on; nil: it is running

	saving    sync.Mutex // one save at a time; guards what follows
	taker     *Taker
	wrote     time.Time // when the last save began, or the directory was opened
	hasNewest bool      // data.zst is there
	after     int       // the segment of the log that follows the newest image
	previous  int       // the segment that follows the previous image
	stale     bool      // an image is needed, although nothing has changed
	told      bool      // the log line about too much data was written

	mu    sync.Mutex // guards state
	state State
}

// Open takes a directory and fills the server, which must have no keys, from its newest
// image. It makes the directory if it does not exist. The error is an *inUseError if
// another process has the directory, and a *lostError if no image can be read though
// there are some. After an error the server must not be used.
func Open(ctx context.Context, server *connect.Embedded, o Options) (*Dir, error) {
	return open(ctx, server, o, folder(o.Path))
}

func open(ctx context.Context, server *connect.Embedded, o Options, on disk) (*Dir, error) {
	if o.Within <= 0 {
		o.Within = defaultWithin
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := prepare(o.Path); err != nil {
		return nil, err
	}
	held, err := lock(o.Path, o.What)
	if err != nil {
		return nil, err
	}
	d := &Dir{options: o, disk: on, taker: NewTaker(server), server: server, lock: held, state: State{Path: o.Path}}
	d.log = &wal{disk: on, passing: o.Passing, failed: func(err error) { _ = d.failed(err) }, synced: d.synced}
	if err := d.start(ctx); err != nil {
		d.log.close()
		_ = held.Close()
		return nil, err
	}
	return d, nil
}

// start fills the server, and continues its log.
func (d *Dir) start(ctx context.Context) error {
	if err := d.load(ctx); err != nil {
		return err
	}
	d.log.start()
	if err := d.server.SetLog(d.log); err != nil {
		return fmt.Errorf("data directory %s: %w", d.options.Path, err)
	}
	if d.stale || d.log.Refuses() != nil {
		if d.Save() != nil {
			return nil // State and the log report it
		}
	}
	for i := range d.state.Damaged { // the new image has whatever could be read from them
		if f := &d.state.Damaged[i]; strings.HasPrefix(f.Name, logName) && f.Reason != missing {
			if err := d.setAside(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// State returns the state of the directory.
func (d *Dir) State() State {
	log, written, refuses := d.log.state()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.state
	s.Log, s.Refusing = log, refuses
	s.Written += written
	return s
}

// Close saves all changes and releases the directory. Its error says what was not saved.
// The server must still exist, and nobody should use it any more.
func (d *Dir) Close() error {
	err := d.Save()
	if err != nil && d.log.Sync() == nil {
		err = nil // the log has the changes
	}
	d.log.close()
	if closeErr := d.lock.Close(); err == nil {
		err = closeErr
	}
	return err
}

const (
	lockName   = "lock"
	holderName = "lock.json"
)

// holder is the process that uses a directory.
type holder struct {
	PID   int       `json:"pid"`
	What  string    `json:"what"` // such as rounds serve
	Since time.Time `json:"since"`
}

// inUseError reports that another process uses the directory.
type inUseError struct {
	Path   string
	Holder holder // zero: unknown
}

// Error names the process, and says what to do.
func (e *inUseError) Error() string {
	who := "another process"
	if e.Holder.PID != 0 {
		who = fmt.Sprintf("process %d (%s, since %s)", e.Holder.PID, e.Holder.What, e.Holder.Since.Format("2006-01-02 15:04:05"))
	}
	return fmt.Sprintf("data directory %s: %s uses it; end that one first, or name another directory with --data", e.Path, who)
}

// lock takes the lock of a directory, and writes there which process has it.
func lock(path, what string) (*flock.Flock, error) {
	if info, err := os.Lstat(filepath.Join(path, lockName)); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("data directory %s: %s is not a file but %s: remove it", path, lockName, info.Mode().Type())
	}
	l := flock.New(filepath.Join(path, lockName), flock.SetPermissions(fileMode))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("data directory %s: cannot be locked: %w", path, reason(err))
	}
	if !ok {
		used := &inUseError{Path: path}
		if text, err := os.ReadFile(filepath.Join(path, holderName)); err == nil {
			_ = json.Unmarshal(text, &used.Holder) // an unreadable holder is unknown
		}
		return nil, used
	}
	text, err := json.Marshal(holder{PID: os.Getpid(), What: what, Since: time.Now()})
	if err == nil {
		err = writeHolder(folder(path), append(text, '\n'))
	}
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("data directory %s: cannot be written: %w", path, reason(err))
	}
	return l, nil
}

func writeHolder(on folder, text []byte) error {
	out, err := on.Create(holderName)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return errors.Join(err, out.Close())
}
