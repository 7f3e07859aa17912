package ndjson

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

// The defaults and limits of an endpoint's settings.
const (
	defaultMaxBytes = 128 << 20
	minMaxBytes     = 64 << 10
	maxMaxBytes     = 64 << 30
	defaultMaxAge   = time.Hour
	minMaxAge       = time.Second
	maxMaxAge       = 31 * 24 * time.Hour

	// lineMost is the most bytes of a line: far more than a message has.
	lineMost = 4 << 20

	wait = 5 * time.Second // before messages are tried again after the disk failed
)

// The endings of files, beside that of a finished one, which is the form's.
const (
	begun  = ".part"
	locked = ".lock"
	making = ".tmp" // a finished file of another form that is being written
)

// Form is the form of finished files. A file that is being written always has lines.
type Form interface {
	// Ending ends the names of finished files, with a full stop before it.
	Ending() string
	// Line returns the line of a message, without its end, or an error if its data is not JSON.
	Line(d delivery.Delivery) ([]byte, error)
	// Valid reports whether a line is whole.
	Valid(line []byte) bool
	// Convert reads whole lines and writes a finished file. A nil function: the lines are the file.
	Convert() func(lines io.Reader, to io.Writer) error
}

// lines is the form of NDJSON.
type lines struct{ sink.Encoding }

func (lines) Ending() string                                     { return ".ndjson" }
func (l lines) Line(d delivery.Delivery) ([]byte, error)         { return l.Encode(d, nil) }
func (lines) Valid(line []byte) bool                             { return json.Valid(line) }
func (lines) Convert() func(lines io.Reader, to io.Writer) error { return nil }

// Settings are an endpoint's own settings.
type Settings struct {
	Directory string        // an absolute path; it is created if it is missing
	MaxBytes  int64         // a file is finished once it has them; 0: 128 MiB
	MaxAge    time.Duration // a file is finished when it is so old; 0: 1 h
}

func (s Settings) withDefaults() Settings {
	s.MaxBytes = cmp.Or(s.MaxBytes, defaultMaxBytes)
	s.MaxAge = cmp.Or(s.MaxAge, defaultMaxAge)
	return s
}

// Sink writes messages into files. It is safe for concurrent use.
type Sink struct {
	name     string
	settings Settings
	form     Form
	convert  func(io.Reader, io.Writer) error // of the form
	log      *slog.Logger
	disk     disk
	// finished, begun and locked end the names of files.
	finished, begun, locked, making string

	// syncing is held while a file is synced, cut or finished, and is taken before mu.
	syncing sync.Mutex
	mu      sync.Mutex
	part    *part     // nil: no file is being written
	named   time.Time // in the name of the last file
	closed  bool

	finishing sync.WaitGroup // files that are converted
}

// part is a file that is being written.
type part struct {
	name   string // without its ending
	file   file
	unlock func()
	age    *time.Timer

	size   int64 // written; under mu
	broken error // nothing more is written; under mu
	synced int64 // certainly on the disk; under syncing
	ended  bool  // finished or left; under syncing
}

var _ delivery.Sink = (*Sink)(nil)

// New returns the sink of an endpoint. The settings must be valid; see Type.
func New(name string, s Settings, e sink.Encoding, log *slog.Logger) *Sink {
	return NewOf(lines{e}, name, s, log)
}

// NewOf returns the sink of an endpoint whose finished files have another form.
func NewOf(form Form, name string, s Settings, log *slog.Logger) *Sink {
	ending := form.Ending()
	return &Sink{name: name, settings: s.withDefaults(), form: form, convert: form.Convert(), disk: directory(s.Directory),
		finished: ending, begun: ending + begun, locked: ending + locked, making: ending + making,
		log: cmp.Or(log, slog.New(slog.DiscardHandler)).With("endpoint", name)}
}

// Prepare makes the directory, and finishes the files of processes that were killed. Its error is
// always a Later: somebody may mount the directory, or change its owner.
func (s *Sink) Prepare(context.Context) error {
	if err := s.disk.Make(); err != nil {
		return s.away("make the directory", err)
	}
	if err := s.recover(); err != nil {
		return s.away("finish what was left", err)
	}
	return nil
}

// Handle appends the messages and returns once they are on the disk.
func (s *Sink) Handle(_ context.Context, batch []delivery.Delivery) []error {
	errs := make([]error, len(batch))
	var lines bytes.Buffer
	for i, d := range batch {
		line, err := s.form.Line(d)
		switch {
		case err != nil:
			errs[i] = &delivery.Dead{Err: errors.New("file: the message is not JSON")}
		case len(line) > lineMost:
			errs[i] = &delivery.Dead{Err: fmt.Errorf("file: the message has %d bytes as a line; at most %d are allowed", len(line), lineMost)}
		default:
			lines.Write(line)
			lines.WriteByte('\n')
		}
	}
	if lines.Len() == 0 {
		return errs
	}
	p, end, err := s.append(lines.Bytes())
	if err == nil {
		err = s.sync(p, end)
	}
	if err == nil {
		return errs
	}
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}

// append writes lines, and returns the file with the size that it then has.
func (s *Sink) append(lines []byte) (*part, int64, error) {
	p, end, err := s.write(lines)
	if err != nil && p != nil {
		s.syncing.Lock()
		s.end(p)
		s.syncing.Unlock()
	}
	return p, end, err
}

func (s *Sink) write(lines []byte) (*part, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, s.away("write", errors.New("the process ends"))
	}
	if s.part == nil {
		p, err := s.begin()
		if err != nil {
			return nil, 0, s.away("begin a file", err)
		}
		s.part = p
	}
	p := s.part
	if _, err := p.file.Write(lines); err != nil {
		p.broken, s.part = err, nil
		return p, 0, s.away("write", err)
	}
	p.size += int64(len(lines))
	return p, p.size, nil
}

// begin creates a file under a new name, under its lock.
func (s *Sink) begin() (*part, error) {
	if err := s.recover(); err != nil { // whoever was killed since then
		return nil, err
	}
	var random [5]byte
	_, _ = rand.Read(random[:]) // never fails
	at := time.Now().UTC().Truncate(time.Microsecond)
	if !at.After(s.named) { // the clock was set back, or is coarse: names sort all the same
		at = s.named.Add(time.Microsecond)
	}
	s.named = at
	p := &part{name: s.name + "-" + at.Format("20060102T150405.000000Z") + "-" + hex.EncodeToString(random[:])}
	unlock, err := s.disk.Lock(p.name + s.locked)
	if err != nil {
		return nil, err
	}
	if unlock == nil {
		return nil, errors.New("another process has the lock of a new file")
	}
	p.unlock = unlock
	p.file, err = s.disk.Create(p.name + s.begun)
	if err == nil {
		err = s.disk.Sync()
	}
	if err != nil {
		if p.file != nil {
			_ = p.file.Close()
		}
		unlock() // the next recovery removes both files
		return nil, err
	}
	p.age = time.AfterFunc(s.settings.MaxAge, func() {
		s.syncing.Lock()
		defer s.syncing.Unlock()
		s.end(p)
	})
	return p, nil
}

// sync returns once the file is on the disk up to a size. One fsync serves all batches that were
// written before it.
func (s *Sink) sync(p *part, end int64) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if p.synced < end && !p.ended {
		s.flush(p)
	}
	s.mu.Lock()
	broken, full := p.broken, p.size >= s.settings.MaxBytes
	s.mu.Unlock()
	if full || broken != nil {
		s.end(p)
	}
	if p.synced < end {
		return s.away("write", broken)
	}
	return nil
}

// flush makes what was written lasting, and notes if that fails.
func (s *Sink) flush(p *part) {
	s.mu.Lock()
	size, broken := p.size, p.broken
	s.mu.Unlock()
	if broken != nil {
		return // something behind the last whole line is torn
	}
	if err := p.file.Sync(); err != nil {
		s.mu.Lock()
		p.broken = err
		s.mu.Unlock()
		return
	}
	p.synced = size
}

// end finishes a file. A broken one is cut behind what is certainly on the disk. If that fails, the
// file is left to the next recovery. The caller holds syncing.
func (s *Sink) end(p *part) {
	if p.ended {
		return
	}
	p.ended = true
	s.mu.Lock()
	if s.part == p {
		s.part = nil
	}
	s.mu.Unlock()
	p.age.Stop()
	s.flush(p)
	s.mu.Lock()
	broken := p.broken
	s.mu.Unlock()
	var err error
	if broken != nil {
		if err = p.file.Truncate(p.synced); err == nil {
			err = p.file.Sync()
		}
	}
	if closing := p.file.Close(); err == nil {
		err = closing
	}
	if err == nil && s.convert != nil {
		s.finishing.Go(func() { s.close(p, s.finish(p.name, p.synced)) }) // others write meanwhile
		return
	}
	if err == nil {
		err = s.finish(p.name, p.synced)
	}
	s.close(p, err)
}

// close gives up the lock of a file, and logs how it was finished.
func (s *Sink) close(p *part, err error) {
	p.unlock()
	switch {
	case err != nil:
		s.log.Warn("a file could not be finished; that is tried again before the next file begins", "file", p.name+s.begun, "error", reason(err))
	case p.synced > 0:
		s.log.Info("a file is finished", "file", p.name+s.finished, "bytes", p.synced)
	}
}

// finish gives a file its final name, or removes it if it is empty. The caller has its lock.
func (s *Sink) finish(name string, size int64) error {
	err := error(nil)
	switch {
	case size == 0:
		err = s.disk.Remove(name + s.begun)
	case s.convert != nil:
		err = s.converted(name)
	default:
		err = s.disk.Rename(name+s.begun, name+s.finished)
	}
	if err != nil {
		return err
	}
	if err := s.disk.Sync(); err != nil {
		return err
	}
	return s.disk.Remove(name + s.locked)
}

// converted writes the finished file beside the lines, and removes them then. A process that is
// killed in between leaves the lines, of which the next one makes the same file again.
func (s *Sink) converted(name string) error {
	if err := s.disk.Remove(name + s.making); err != nil {
		return err
	}
	from, err := s.disk.Open(name + s.begun)
	if err != nil {
		return err
	}
	to, err := s.disk.Create(name + s.making)
	if err == nil {
		if err = s.convert(from, to); err == nil {
			err = to.Sync()
		}
		if closing := to.Close(); err == nil {
			err = closing
		}
	}
	_ = from.Close() // it was only read
	if err == nil {
		err = s.disk.Rename(name+s.making, name+s.finished)
	}
	if err == nil {
		err = s.disk.Sync()
	}
	if err == nil {
		err = s.disk.Remove(name + s.begun)
	}
	return err
}

// Close finishes the file that is being written.
func (s *Sink) Close() error {
	s.syncing.Lock()
	s.mu.Lock()
	p := s.part
	s.closed = true
	s.mu.Unlock()
	if p != nil {
		s.end(p)
	}
	s.syncing.Unlock()
	s.finishing.Wait()
	return nil
}

// away returns the error of messages that wait for the disk.
func (s *Sink) away(step string, err error) error {
	return &delivery.Later{After: wait, Target: s.name, Err: fmt.Errorf("file: %s: %w", step, reason(err))}
}

// reason returns an error without its path, which tells nobody anything and is not for everybody.
func reason(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}

func validDirectory(path string) bool { return filepath.IsAbs(path) && filepath.Clean(path) == path }
