package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// The modes of what the directory holds: credentials are in it.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// disk is what the directory needs of a file system. Names are of files in it.
type disk interface {
	Create(name string) (file, error) // empty, also if it was there
	Open(name string) (io.ReadCloser, error)
	Rename(from, to string) error
	Remove(name string) error
	Sync() error // the directory: what was renamed stays so
}

// file is a file that is being written.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

// folder is a directory of the operating system.
type folder string

// Create implements disk.
func (f folder) Create(name string) (file, error) {
	return os.OpenFile(filepath.Join(string(f), name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
}

// Open implements disk.
func (f folder) Open(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(f), name))
}

// Rename implements disk.
func (f folder) Rename(from, to string) error {
	return os.Rename(filepath.Join(string(f), from), filepath.Join(string(f), to))
}

// Remove implements disk.
func (f folder) Remove(name string) error { return os.Remove(filepath.Join(string(f), name)) }

// Sync implements disk.
func (f folder) Sync() error {
	if runtime.GOOS == "windows" {
		return nil // it syncs no directory; what was renamed is in its journal
	}
	d, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// prepare makes the directory if there is none.
func prepare(path string) error {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return fmt.Errorf("data directory %s: cannot be made: %w", path, reason(err))
	}
	return nil
}

// reason drops the path from an error that is told with it.
func reason(err error) error {
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &at):
		return at.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
