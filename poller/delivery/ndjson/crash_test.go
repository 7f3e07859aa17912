package ndjson

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// The suite runs without the race detector, which sees batches at once in TestBatchesShareAFile.
func TestMain(m *testing.M) { goleak.VerifyTestMain(processes.Apart(m, "TestSuite", "TestParquet")) }

var errKilled = errors.New("the process is dead")

// crashing is a directory whose process may die, and whose disk may fail.
type crashing struct {
	directory
	mu     sync.Mutex
	steps  int // until it dies; less than 0: it does not
	dead   bool
	fails  error // of each step while it is not nil
	unlock []func()
}

// step counts a step. It reports whether it must not be done, and with which error it fails.
func (c *crashing) step() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dead:
		return errKilled
	case c.fails != nil:
		return c.fails
	case c.steps == 0:
		c.dead = true
		for _, unlock := range c.unlock {
			unlock()
		}
		return errKilled
	}
	c.steps--
	return nil
}

func (c *crashing) Make() error {
	if err := c.step(); err != nil {
		return err
	}
	return c.directory.Make()
}

func (c *crashing) Create(name string) (file, error) {
	if err := c.step(); err != nil {
		return nil, err
	}
	f, err := c.directory.Create(name)
	return &crashingFile{f, c, name}, err
}

func (c *crashing) Open(name string) (file, error) {
	if err := c.step(); err != nil {
		return nil, err
	}
	f, err := c.directory.Open(name)
	return &crashingFile{f, c, name}, err
}

func (c *crashing) Rename(from, to string) error {
	if err := c.step(); err != nil {
		return err
	}
	return c.directory.Rename(from, to)
}

func (c *crashing) Remove(name string) error {
	if err := c.step(); err != nil {
		return err
	}
	return c.directory.Remove(name)
}

func (c *crashing) Sync() error {
	if err := c.step(); err != nil {
		return err
	}
	return c.directory.Sync()
}

func (c *crashing) List() (map[string]time.Time, error) {
	if err := c.step(); err != nil {
		return nil, err
	}
	return c.directory.List()
}

func (c *crashing) Lock(name string) (func(), error) {
	if err := c.step(); err != nil {
		return nil, err
	}
	unlock, err := c.directory.Lock(name)
	if unlock != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		once := sync.OnceFunc(unlock)
		c.unlock = append(c.unlock, once)
		return once, nil
	}
	return unlock, err
}

type crashingFile struct {
	file
	of   *crashing
	name string
}

// Write writes the first half at the step at which the process dies, or the disk is full.
func (f *crashingFile) Write(p []byte) (int, error) {
	f.of.mu.Lock()
	was := f.of.dead
	f.of.mu.Unlock()
	if err := f.of.step(); err != nil {
		if was {
			return 0, err
		}
		n, _ := f.file.Write(p[:len(p)/2])
		return n, err
	}
	return f.file.Write(p)
}

func (f *crashingFile) Sync() error {
	if err := f.of.step(); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f *crashingFile) Truncate(size int64) error {
	if err := f.of.step(); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

// place is a directory for the suite.
type place struct {
	path     string
	settings Settings
	form     Form
	read     func(t testing.TB, path string) []sinktest.Stored
	last     *crashing
}

func newPlace(t *testing.T) *place {
	return &place{path: filepath.Join(t.TempDir(), "archive"), form: lines{sink.Encoding{Namespace: sinktest.Namespace}}, read: read}
}

// NewPlace returns an empty place for the sink of another form, and how a stranger reads one of its files.
func NewPlace(t *testing.T, of *Sink, read func(t testing.TB, path string) []sinktest.Stored) sinktest.Place {
	p := newPlace(t)
	p.form, p.read = of.form, read
	return p
}

func (p *place) Open(t testing.TB) delivery.Sink {
	time.Sleep(time.Microsecond) // names have the time of the files' beginning, and fake time stands still
	s := p.settings
	s.Directory = p.path
	opened := NewOf(p.form, "crm", s, faketime.Log(t))
	p.last = &crashing{directory: directory(p.path), steps: -1}
	opened.disk = p.last
	return opened
}

func (p *place) KillAt(n int) {
	p.last.mu.Lock()
	defer p.last.mu.Unlock()
	p.last.steps = n
}

func (p *place) Died() bool {
	p.last.mu.Lock()
	defer p.last.mu.Unlock()
	return p.last.dead
}

func (p *place) SetAway(away bool) {
	p.last.mu.Lock()
	defer p.last.mu.Unlock()
	p.last.fails = nil
	if away {
		p.last.fails = syscall.ENOSPC
	}
}

// Stored reads the finished files, and expects nothing else in the directory.
func (p *place) Stored(t testing.TB) (all []sinktest.Stored) {
	t.Helper()
	entries, err := os.ReadDir(p.path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		switch {
		case strings.HasSuffix(e.Name(), p.form.Ending()):
			names = append(names, e.Name())
		case !strings.HasSuffix(e.Name(), locked): // a lock without a file may stay for an hour
			t.Errorf("%s is left", e.Name())
		}
	}
	slices.Sort(names)
	for _, name := range names {
		all = append(all, p.read(t, filepath.Join(p.path, name))...)
	}
	return all
}

// read reads a file as a stranger does.
func read(t testing.TB, path string) (all []sinktest.Stored) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	reader := bufio.NewReader(f)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return all
		}
		var m struct {
			ID   string
			Data struct {
				Account, ID string
				Data        json.RawMessage
			}
		}
		if err != nil || json.Unmarshal(line, &m) != nil {
			t.Errorf("%s has the line %q, %v", path, line, err)
			return all
		}
		all = append(all, sinktest.Stored{Key: m.ID, Account: m.Data.Account, ID: m.Data.ID, Data: string(m.Data.Data)})
	}
}
