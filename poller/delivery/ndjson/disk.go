package ndjson

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const (
	dirMode  = 0o750
	fileMode = 0o640
)

// disk is a directory. Tests replace it by one that fails.
type disk interface {
	// Make makes the directory if it is missing.
	Make() error
	// Create creates a file that must not exist, for writing.
	Create(name string) (file, error)
	// Open opens a file for reading and cutting.
	Open(name string) (file, error)
	Rename(from, to string) error
	Remove(name string) error
	// Sync makes created, renamed and removed names lasting.
	Sync() error
	// List returns the files of the directory with the time of their last change.
	List() (map[string]time.Time, error)
	// Lock locks a file, which it creates if it is missing. It returns a nil function if another
	// process has the lock.
	Lock(name string) (unlock func(), err error)
}

type file interface {
	io.Reader
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
}

type directory string

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) Make() error { return os.MkdirAll(string(d), dirMode) }

func (d directory) Create(name string) (file, error) {
	return os.OpenFile(d.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
}

func (d directory) Open(name string) (file, error) { return os.OpenFile(d.path(name), os.O_RDWR, 0) }

func (d directory) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d directory) Remove(name string) error {
	if err := os.Remove(d.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d directory) Sync() error {
	open, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(open.Sync(), open.Close())
}

func (d directory) List() (map[string]time.Time, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	files := make(map[string]time.Time)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() { // else it was removed meanwhile, or is no file
			files[e.Name()] = info.ModTime()
		}
	}
	return files, nil
}

func (d directory) Lock(name string) (func(), error) {
	l := flock.New(d.path(name), flock.SetPermissions(fileMode))
	ok, err := l.TryLock()
	if err != nil || !ok {
		return nil, err
	}
	return func() { _ = l.Unlock() }, nil // closing it unlocks, whatever the error
}
