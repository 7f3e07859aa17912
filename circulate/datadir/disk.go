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

// The modes of the directory and its files: they contain credentials.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// disk is the part of a file system that the directory needs. Names are names of files in
// it.
type disk interface {
	Names() ([]string, error)
	Create(name string) (file, error) // a new file, in place of an existing one
	Open(name string) (io.ReadCloser, error)
	Rename(from, to string) error
	Remove(name string) error
	Truncate(name string, size int64) error
	Sync() error // syncs the directory, so that renamings last
}

// file is a file being written.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

// folder is a directory of the operating system.
type folder string

// Names implements disk.
func (f folder) Names() ([]string, error) {
	entries, err := os.ReadDir(string(f))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Create implements disk. It follows no link, and does not write to a file that another
// process has open.
func (f folder) Create(name string) (file, error) {
	path := filepath.Join(string(f), name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
}

// Open implements disk. It follows no link.
func (f folder) Open(name string) (io.ReadCloser, error) {
	path := filepath.Join(string(f), name)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file but %s: nothing else is read", name, info.Mode().Type())
	}
	return os.Open(path)
}

// Rename implements disk.
func (f folder) Rename(from, to string) error {
	return os.Rename(filepath.Join(string(f), from), filepath.Join(string(f), to))
}

// Remove implements disk.
func (f folder) Remove(name string) error { return os.Remove(filepath.Join(string(f), name)) }

// Truncate implements disk.
func (f folder) Truncate(name string, size int64) error {
	return os.Truncate(filepath.Join(string(f), name), size)
}

// Sync implements disk.
func (f folder) Sync() error {
	if runtime.GOOS == "windows" {
		return nil // this system syncs no directories; its journal has the renamings
	}
	d, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// prepare makes the directory if there is none. It refuses a directory that others own or
// may write, because their files would be believed.
func prepare(path string) error {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return fmt.Errorf("data directory %s: cannot be made: %w", path, reason(err))
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", path, reason(err))
	}
	if owner := foreign(info); owner != "" {
		return fmt.Errorf("data directory %s: it belongs to user %s and not to this process's user %d, so its owner could change what is in it: give it to this user (chown), or name another directory with --data", path, owner, os.Getuid())
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("data directory %s: others may write to it (mode %04o), and so change what is in it: chmod go-w %s, or name another directory with --data", path, info.Mode().Perm(), path)
	}
	return nil
}

// reason drops the path from an error that is reported together with the path.
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
