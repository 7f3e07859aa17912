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

// Options are what a directory needs. Path is required.
type Options struct {
	Path    string
	Within  time.Duration // an image is saved so long after the one before, if much has changed; 0: defaultWithin
	Program string        // the version that the images name
	What    string        // what the process is, for others that want the directory
	// Passing reports whether a key changes with time alone, such as one with heartbeats. Its
	// changes are written with others, or within five minutes. Nil: no key does.
	Passing func(key string) bool
	Log     *slog.Logger // nil: nothing is logged
}

// State is how the directory is.
type State struct {
	Path  string
	Saved time.Time // what came until then would survive a power failure; zero: there was nothing
	Saves int       // images, since Open

	Failing  time.Time // since when the directory cannot be written; zero: it can
	Why      error     // why it cannot
	Refusing bool      // the log cannot be written either: nothing may change
	Fails    int       // what failed to be written, since Open

	Log     int64 // bytes in the log that follow the newest image
	Written int64 // bytes that were written to the log and in images, since Open

	Keys   int           // of the newest image
	Bytes  int           // of the newest image, without the messages that were packed before
	Packed int64         // bytes of the newest image's file
	Stood  time.Duration // for how long the server stood still for it
	Took   time.Duration // the whole save, but for syncing

	Damaged []Damaged // what Open found
}

// Large reports whether so much is kept that another server than the embedded one should
// have it.
func (s State) Large() bool { return s.Bytes > ample || s.Packed > amplePacked }

// Damaged is a file that could not be read.
type Damaged struct {
	Name   string    // its name now
	Reason string    // what is wrong with it
	Used   time.Time // the moment of the image that was used instead
}

// Dir is a directory in use. Its methods may be called at any time by any goroutine, but for
// Close, which is the last.
type Dir struct {
	options Options
	disk    disk
	server  *connect.Embedded
	lock    *flock.Flock

	log     *wal
	release func() // has the server's clock go on; nil: it goes

	saving   sync.Mutex // one save at a time; guards what follows
	taker    *Taker
	wrote    time.Time // when an image was saved, or was tried to be
	newest   bool      // data.zst is there
	after    int       // the segment of the log that follows the newest image
	previous int       // the one that follows the image before it
	stale    bool      // an image is needed, although nothing has changed
	told     bool      // that there is too much

	mu    sync.Mutex // guards state
	state State
}

// Open takes a directory, makes it if there is none, and fills the server, which must have no
// keys, from the newest image in it. The error is an *inUseError if another process has the
// directory, and a *lostError if there are images and none can be read. After an error the
// server must not be used.
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

// start fills the server, and has its log go on.
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
			return nil // State and the log tell it
		}
	}
	for i := range d.state.Damaged { // what is in them is in the new image, as far as it is good
		if f := &d.state.Damaged[i]; strings.HasPrefix(f.Name, logName) && f.Reason != missing {
			if err := d.setAside(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// State returns how the directory is.
func (d *Dir) State() State {
	log, written, refuses := d.log.state()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.state
	s.Log, s.Refusing = log, refuses
	s.Written += written
	return s
}

// Close saves all that changed, and gives the directory free. Its error says what was not saved.
// The server must still be there, and nobody should use it any more.
func (d *Dir) Close() error {
	err := d.Save()
	if err != nil && d.log.Sync() == nil {
		err = nil // it is in the log
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

// inUseError reports a directory that another process uses.
type inUseError struct {
	Path   string
	Holder holder // zero: it is not known
}

// Error says which process, and what to do.
func (e *inUseError) Error() string {
	who := "another process"
	if e.Holder.PID != 0 {
		who = fmt.Sprintf("process %d (%s, since %s)", e.Holder.PID, e.Holder.What, e.Holder.Since.Format("2006-01-02 15:04:05"))
	}
	return fmt.Sprintf("data directory %s: %s uses it; end that one first, or name another directory with --data", e.Path, who)
}

// lock takes the lock of a directory, and says in it which process has it.
func lock(path, what string) (*flock.Flock, error) {
	if info, err := os.Lstat(filepath.Join(path, lockName)); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("data directory %s: %s is no file, but %s: remove it", path, lockName, info.Mode().Type())
	}
	l := flock.New(filepath.Join(path, lockName), flock.SetPermissions(fileMode))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("data directory %s: cannot be locked: %w", path, reason(err))
	}
	if !ok {
		used := &inUseError{Path: path}
		if text, err := os.ReadFile(filepath.Join(path, holderName)); err == nil {
			_ = json.Unmarshal(text, &used.Holder) // what cannot be read is not known
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
