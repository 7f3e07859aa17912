//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
)

// socket is a listener at its own path. While it is open it holds a lock on a file beside the path.
// The system releases the lock when the process ends, in whatever way.
type socket struct {
	*net.UnixListener
	path string
	made os.FileInfo
	lock *os.File

	once sync.Once
	err  error
}

// openUnix creates the socket under another name and then renames it. So it never exists at
// its path with other permissions or without a listener.
func openUnix(path string, mode fs.FileMode) (net.Listener, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("%s: another process serves there", path)
	}
	s := &socket{path: path, lock: lock}
	if err := s.open(mode); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return s, nil
}

func (s *socket) open(mode fs.FileMode) error {
	if err := vacate(s.path); err != nil {
		return err
	}
	making := s.path + "~"
	if err := vacate(making); err != nil {
		return err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: making, Net: "unix"})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false)
	err = os.Chmod(making, mode)
	if err == nil {
		s.made, err = os.Lstat(making)
	}
	if err == nil {
		err = os.Rename(making, s.path)
	}
	if err != nil {
		return errors.Join(err, listener.Close(), os.Remove(making))
	}
	s.UnixListener = listener
	return nil
}

// vacate removes a socket at which no process listens. It leaves everything else.
func vacate(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s: exists, and is not a socket", path)
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("%s: another process serves there", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s: exists, and it is unknown which process listens on it: %w", path, err)
	}
	return os.Remove(path)
}

// Addr returns the socket's path.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close ends the listener and removes the socket, unless another one took its place.
func (s *socket) Close() error {
	s.once.Do(func() {
		if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.made) {
			s.err = os.Remove(s.path)
		}
		s.err = errors.Join(s.err, s.UnixListener.Close(), s.lock.Close())
	})
	return s.err
}
