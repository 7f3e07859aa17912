package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A kill at any moment leaves a log that ends at any byte. All whole records before that
// are repeated.
func TestLogCutAtAnyByte(t *testing.T) {
	path := t.TempDir()
	p := mustBegin(t, path)
	var ends []int // of the log, after each value
	name := segmentName(p.dir.after)
	for n := range 12 {
		p.set(n)
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int(info.Size()))
	}
	p.kill()
	whole := read(t, path, name)
	first := read(t, path, newestName)
	for cut := range len(whole) + 1 {
		path := t.TempDir()
		write(t, path, newestName, first)
		write(t, path, name, whole[:cut])
		want := -1
		for n, end := range ends {
			if cut >= end {
				want = n
			}
		}
		p := mustBegin(t, path)
		if p.value() != want || len(p.dir.State().Damaged) > 0 || strings.Contains(p.log.String(), "ERROR") {
			t.Fatalf("cut at %d: there is %d, want %d\n%s", cut, p.value(), want, p.log)
		}
		p.set(100)
		p.kill()
		if p := mustBegin(t, path); p.value() != 100 || len(p.dir.State().Damaged) > 0 {
			t.Fatalf("cut at %d: then there is %d\n%s", cut, p.value(), p.log)
		}
	}
	// A wrong byte before the last record is damage: it is reported, and the file stays.
	for at := range ends[len(ends)-2] {
		wrong := slices.Clone(whole)
		wrong[at] ^= 0x41
		path := t.TempDir()
		write(t, path, newestName, first)
		write(t, path, name, wrong)
		p := mustBegin(t, path)
		want := -1
		for n, end := range ends {
			if at >= end {
				want = n
			}
		}
		s := p.dir.State()
		if p.value() != want || len(s.Damaged) != 1 || !strings.HasSuffix(s.Damaged[0].Name, name) || !strings.Contains(p.log.String(), "ERROR") {
			t.Fatalf("wrong at %d: there is %d, want %d, %+v\n%s", at, p.value(), want, s.Damaged, p.log)
		}
		if !bytes.Equal(read(t, path, s.Damaged[0].Name), wrong) {
			t.Errorf("wrong at %d: the file is not as it was", at)
		}
		p.set(100)
		p.kill()
		if p := mustBegin(t, path); p.value() != 100 || len(p.dir.State().Damaged) > 0 {
			t.Fatalf("wrong at %d: then there is %d", at, p.value())
		}
	}
}

func read(t *testing.T, path, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, path, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A missing segment between others is reported, and the segments after it are not used.
func TestMissingSegment(t *testing.T) {
	path := t.TempDir()
	p := mustBegin(t, path)
	for n := range 3 { // each process has its segment
		p.set(n)
		p.kill()
		p = mustBegin(t, path)
	}
	p.kill()
	if err := os.Remove(filepath.Join(path, segmentName(2))); err != nil {
		t.Fatal(err)
	}
	p = mustBegin(t, path)
	if s := p.dir.State(); p.value() != 0 || len(s.Damaged) != 1 || s.Damaged[0].Name != segmentName(2) {
		t.Errorf("there is %d, %+v", p.value(), s.Damaged)
	}
	p.kill()
	for _, name := range []string{newestName, previousName} {
		if err := os.Remove(filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, path, segmentName(1), appendRecord([]byte(logMagic), p.dir.State().Saved, [][]string{{"SET", "value", "7"}}))
	var lost *lostError
	if _, err := begin(t, path, nil); !errors.As(err, &lost) {
		t.Errorf("a log without its image: %v", err)
	}
}

// forgetful is a disk that loses unsynced data at a power failure: contents of files,
// their names, or some of both.
type forgetful struct {
	mu      sync.Mutex
	now     map[string]*inode
	durable map[string]*inode
	fails   error // if set, whatever writes or syncs
}

type inode struct{ text, synced []byte }

func newForgetful() *forgetful {
	return &forgetful{now: make(map[string]*inode), durable: make(map[string]*inode)}
}

// lose is the power failure. Unsynced data survives by chance, or never.
func (f *forgetful) lose(chance float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := maps.Clone(f.durable)
	for name, i := range f.now {
		if rand.Float64() < chance {
			kept[name] = i
		}
	}
	f.now = make(map[string]*inode)
	for name, i := range kept {
		text := i.synced
		if n := len(i.text); n > len(text) && bytes.HasPrefix(i.text, text) && rand.Float64() < chance {
			text = i.text[:len(text)+rand.IntN(n-len(text)+1)]
		}
		f.now[name] = &inode{slices.Clone(text), slices.Clone(text)}
	}
	f.durable = maps.Clone(f.now)
}

// Names implements disk.
func (f *forgetful) Names() ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.now)), nil
}

// Create implements disk.
func (f *forgetful) Create(name string) (file, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != nil {
		return nil, f.fails
	}
	i := &inode{}
	f.now[name] = i
	return &forgetfulFile{f, i}, nil
}

// Open implements disk.
func (f *forgetful) Open(name string) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, ok := f.now[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(slices.Clone(i.text))), nil
}

// Rename implements disk.
func (f *forgetful) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != nil {
		return f.fails
	}
	i, ok := f.now[from]
	if !ok {
		return fs.ErrNotExist
	}
	delete(f.now, from)
	f.now[to] = i
	return nil
}

// Remove implements disk.
func (f *forgetful) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.now, name)
	return nil
}

// Truncate implements disk.
func (f *forgetful) Truncate(name string, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now[name].text = f.now[name].text[:size]
	return nil
}

// Sync implements disk.
func (f *forgetful) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails == nil {
		f.durable = maps.Clone(f.now)
	}
	return f.fails
}

type forgetfulFile struct {
	on *forgetful
	*inode
}

// Write implements file.
func (f *forgetfulFile) Write(p []byte) (int, error) {
	f.on.mu.Lock()
	defer f.on.mu.Unlock()
	if f.on.fails != nil {
		f.text = append(f.text, p[:len(p)/2]...)
		return len(p) / 2, f.on.fails
	}
	f.text = append(f.text, p...)
	return len(p), nil
}

// Sync implements file.
func (f *forgetfulFile) Sync() error {
	f.on.mu.Lock()
	defer f.on.mu.Unlock()
	if f.on.fails == nil {
		f.synced = slices.Clone(f.text)
	}
	return f.on.fails
}

// Close implements file.
func (f *forgetfulFile) Close() error { return nil }

// A power failure at any moment loses nothing that was synced, by an image or by WAITAOF,
// whatever else survives on the disk.
func TestPowerFailure(t *testing.T) {
	for round := range 200 {
		path := t.TempDir() // for the lock
		disk := newForgetful()
		durable, value := -1, -1
		for life := range 4 {
			p, err := begin(t, path, disk)
			if err != nil {
				t.Fatalf("round %d, life %d: %v", round, life, err)
			}
			got := p.value()
			if got < durable || got > value || len(p.dir.State().Damaged) > 0 {
				t.Fatalf("round %d, life %d: there is %d, of %d to %d, %+v\n%s", round, life, got, durable, value, p.dir.State().Damaged, p.log)
			}
			value = got
			for range rand.IntN(12) {
				switch rand.IntN(4) {
				case 0:
					p.save()
					durable = value
				case 1:
					if n, err := redis.Ints(p.conn.Do("WAITAOF", 1, 0, 1000)); err != nil || !slices.Equal(n, []int{1, 0}) {
						t.Fatal(n, err)
					}
					durable = value
				default:
					value++
					p.set(value)
				}
			}
			p.kill()
			disk.lose([]float64{0, 0.5, 1}[rand.IntN(3)])
		}
	}
}

// While the log cannot be written or synced nothing is acknowledged, and reads go on.
// That ends by itself, and nothing that was acknowledged before or after is lost.
func TestFailingLog(t *testing.T) {
	for name, first := range map[string]func(p *process) error{
		"append": func(p *process) error { _, err := p.conn.Do("SET", "value", 2); return err },
		"script": func(p *process) error { _, err := p.conn.Do("EVAL", "redis.call('SET', 'value', 2)", 0); return err },
		"sync": func(p *process) error {
			_, err := p.conn.Do("WAITAOF", 1, 0, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, disk := t.TempDir(), newForgetful()
			p, err := begin(t, path, disk)
			if err != nil {
				t.Fatal(err)
			}
			p.set(1)
			disk.fails = syscall.ENOSPC
			err = first(p)
			if err == nil {
				t.Fatal("it was acknowledged")
			}
			_ = p.conn.Close()
			if p.conn, err = p.server.Conn(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			for command, args := range map[string][]any{
				"SET": {"value", 3}, "EVAL": {"return redis.call('SET', 'value', 3)", 0}, "WAITAOF": {1, 0, 0},
			} {
				if _, err := p.conn.Do(command, args...); err == nil || !strings.HasPrefix(err.Error(), "MISCONF") {
					t.Errorf("%s: %v", command, err)
				}
			}
			if got, err := redis.Int(p.conn.Do("EVAL", "return redis.call('STRLEN', 'value')", 0)); err != nil || got != 1 {
				t.Errorf("a script that reads: %d, %v", got, err)
			}
			if s := p.dir.State(); !s.Refusing || s.Why == nil || p.value() == 3 {
				t.Errorf("%+v, %d", s, p.value())
			}
			if err := p.dir.Save(); err == nil {
				t.Error("an image was saved")
			}
			had := p.value()
			disk.fails = nil
			if err := p.dir.Save(); err != nil {
				t.Fatal(err)
			}
			if s := p.dir.State(); s.Refusing || s.Why != nil {
				t.Errorf("%+v", s)
			}
			if had > 2 {
				t.Errorf("there is %d", had)
			}
			p.set(4)
			p.kill()
			if p, err := begin(t, path, disk); err != nil || p.value() != 4 || len(p.dir.State().Damaged) > 0 {
				t.Errorf("afterwards: %v, %+v", err, p.dir.State())
			} else {
				p.kill()
			}
			// The image before does not lead to the changes after the failure: that is
			// reported.
			disk.now[newestName] = &inode{}
			if name != "sync" {
				p, err := begin(t, path, disk)
				if err != nil || p.value() != 1 || len(p.dir.State().Damaged) != 2 {
					t.Errorf("from the image before: %v, %d, %+v", err, p.value(), p.dir.State().Damaged)
				}
			}
		})
	}
}

// Transactions, scripts that fail half way, blocking reads and expired keys are repeated
// as they were.
func TestEffects(t *testing.T) {
	path := t.TempDir()
	p := mustBegin(t, path)
	do := func(command string, args ...any) any {
		t.Helper()
		reply, err := p.conn.Do(command, args...)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return reply
	}
	do("MULTI")
	do("SET", "value", 1)
	do("INCR", "value")
	do("EXEC")
	do("MULTI")
	do("SET", "value", 9)
	do("DISCARD")
	if _, err := p.conn.Do("EVAL", "redis.call('RPUSH', 'half', 'a') redis.call('INCR', 'half')", 0); err == nil {
		t.Error("a script that fails did not")
	}
	do("EVAL", "redis.pcall('INCR', 'half') redis.call('RPUSH', 'half', 'b')", 0)
	for _, command := range [][]any{{"SELECT", 1}, {"SPOP", "x"}, {"BLPOP", "x", 1}} {
		if _, err := p.conn.Do(command[0].(string), command[1:]...); err == nil || !strings.Contains(err.Error(), "cannot be kept") {
			t.Errorf("%v: %v", command, err)
		}
	}
	do("XGROUP", "CREATE", "stream", "g", "$", "MKSTREAM")
	read := make(chan error, 1)
	other, err := p.server.BlockingConn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() {
		got, err := redis.Values(other.Do("XREADGROUP", "GROUP", "g", "c", "BLOCK", 60_000, "STREAMS", "stream", ">"))
		if err == nil && len(got) != 1 {
			err = fmt.Errorf("%v", got)
		}
		read <- err
	}()
	do("XADD", "stream", "*", "a", "b")
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	do("SET", "soon", 1, "PX", 1)
	do("RENAME", "half", "renamed")
	p.kill()
	p = mustBegin(t, path)
	if p.value() != 2 {
		t.Errorf("value is %d", p.value())
	}
	if got, err := redis.Strings(p.conn.Do("LRANGE", "renamed", 0, -1)); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("renamed has %v, %v", got, err)
	}
	if got, err := redis.Values(p.conn.Do("XPENDING", "stream", "g", "-", "+", 10)); err != nil || len(got) != 1 {
		t.Errorf("pending: %v, %v", got, err)
	}
}
