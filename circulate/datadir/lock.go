package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const (
	lockName   = "lock"
	holderName = "lock.json"
)

// Holder is the process that uses a directory.
type Holder struct {
	PID   int       `json:"pid"`
	What  string    `json:"what"` // such as rounds serve
	Since time.Time `json:"since"`
}

// InUseError reports a directory that another process uses.
type InUseError struct {
	Path   string
	Holder Holder // zero: it is not known
}

// Error says which process, and what to do.
func (e *InUseError) Error() string {
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
		used := &InUseError{Path: path}
		if text, err := os.ReadFile(filepath.Join(path, holderName)); err == nil {
			_ = json.Unmarshal(text, &used.Holder) // what cannot be read is not known
		}
		return nil, used
	}
	text, err := json.Marshal(Holder{PID: os.Getpid(), What: what, Since: time.Now()})
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
