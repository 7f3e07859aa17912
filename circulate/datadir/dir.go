package datadir

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/image"
)

// DefaultWithin is within which time after a change an image is saved.
const DefaultWithin = 5 * time.Second

// Options are what a directory needs. Path is required.
type Options struct {
	Path    string
	Within  time.Duration // a change is saved within this time; 0: DefaultWithin
	Program string        // the version that the images name
	What    string        // what the process is, for others that want the directory
	// Passing reports whether a key changes with time alone, such as one with heartbeats. Its
	// changes are saved with others, or within five minutes. Nil: no key does.
	Passing func(key string) bool
	Log     *slog.Logger // nil: nothing is logged
}

// State is how the directory is.
type State struct {
	Path  string
	Saved time.Time // the moment of the newest image that is saved; zero: there is none yet
	Saves int       // since Open

	Failing time.Time // since when what changes cannot be saved; zero: it can
	Why     error     // why it cannot
	Fails   int       // saves that failed, since Open

	Keys   int           // of the newest image
	Bytes  int           // of the newest image, without the messages that were packed before
	Packed int64         // bytes of the newest image's file
	Stood  time.Duration // for how long the server stood still for it
	Took   time.Duration // the whole save, but for syncing

	Damaged []Damaged // what Open found
}

// Large reports whether so much is kept that another server than the embedded one should
// have it.
func (s State) Large() bool { return s.Bytes > Ample || s.Packed > AmplePacked }

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

	saving sync.Mutex // one save at a time; guards what follows
	taker  *image.Taker
	marks  image.Marks
	wrote  time.Time // when an image was saved
	newest bool      // data.zst is there
	told   bool      // that there is too much

	mu    sync.Mutex // guards state
	state State
}

// Open takes a directory, makes it if there is none, and fills the server, which must have no
// keys, from the newest image in it. The error is an *InUseError if another process has the
// directory, and a *LostError if there are images and none can be read. After an error the
// server must not be used.
func Open(ctx context.Context, server *connect.Embedded, o Options) (*Dir, error) {
	return open(ctx, server, o, folder(o.Path))
}

func open(ctx context.Context, server *connect.Embedded, o Options, on disk) (*Dir, error) {
	if o.Within <= 0 {
		o.Within = DefaultWithin
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
	d := &Dir{options: o, disk: on, taker: image.NewTaker(server), server: server, lock: held, state: State{Path: o.Path}}
	if err := d.load(ctx); err != nil {
		_ = held.Close()
		return nil, err
	}
	return d, nil
}

// State returns how the directory is.
func (d *Dir) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}

// Close saves all that changed, and gives the directory free. Its error says what was not saved.
// The server must still be there, and nobody should use it any more.
func (d *Dir) Close() error {
	d.saving.Lock()
	d.wrote = time.Time{} // what changes with time alone is saved too
	d.saving.Unlock()
	err := d.Save()
	if closeErr := d.lock.Close(); err == nil {
		err = closeErr
	}
	return err
}
