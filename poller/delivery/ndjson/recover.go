package ndjson

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"time"
)

// orphanAge is how old a lock without a file must be to be removed.
const orphanAge = time.Hour

// recover finishes the files that no living process writes.
func (s *Sink) recover() error {
	files, err := s.disk.List()
	if err != nil {
		return err
	}
	var errs []error
	for full, changed := range files {
		if name, ok := strings.CutSuffix(full, s.begun); ok {
			errs = append(errs, s.recoverFile(name))
			continue
		}
		name, ok := strings.CutSuffix(full, s.locked)
		if _, writes := files[name+s.begun]; !ok || writes || time.Since(changed) < orphanAge {
			continue
		}
		if unlock, err := s.disk.Lock(full); err == nil && unlock != nil { // its process was killed before it created the file
			errs = append(errs, s.disk.Remove(full))
			unlock()
		}
	}
	return errors.Join(errs...)
}

// recoverFile cuts the torn rest off a file and finishes it, unless a process has its lock.
func (s *Sink) recoverFile(name string) error {
	unlock, err := s.disk.Lock(name + s.locked)
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	if files, err := s.disk.List(); err != nil || files[name+s.begun].IsZero() {
		return err // another process has finished it meanwhile
	}
	f, err := s.disk.Open(name + s.begun)
	if err != nil {
		return err
	}
	whole, err := wholeLines(f, s.form.Valid)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = s.finish(name, whole)
	}
	if err == nil {
		s.log.Info("the file of a process that was killed is finished", "file", name+s.finished, "bytes", whole)
	}
	return err
}

// wholeLines returns how many bytes at the beginning of a file are whole lines. After a crash
// of the machine something later in the file may be whole again, but not acknowledged: what was, was
// synced with everything before it.
func wholeLines(from io.Reader, valid func([]byte) bool) (size int64, err error) {
	reader := bufio.NewReaderSize(from, 64<<10)
	var line []byte
	for {
		some, err := reader.ReadSlice('\n')
		line = append(line, some...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) <= lineMost:
			continue
		case errors.Is(err, bufio.ErrBufferFull), errors.Is(err, io.EOF):
			return size, nil
		case err != nil:
			return size, err
		case !valid(bytes.TrimSuffix(line, []byte("\n"))):
			return size, nil
		}
		size += int64(len(line))
		line = line[:0]
	}
}
