package datadir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/klauspost/compress/zstd"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// process is a process that stores its data in a directory.
type process struct {
	*testing.T
	dir    *Dir
	server *connect.Embedded
	conn   redis.Conn
	log    *bytes.Buffer
}

// begin begins a process. The disk may be nil: it is the directory itself.
func begin(t *testing.T, path string, on disk) (*process, error) {
	t.Helper()
	server := connect.NewEmbedded()
	t.Cleanup(func() { _ = server.Close() })
	p := &process{T: t, server: server, log: &bytes.Buffer{}}
	if on == nil {
		on = folder(path)
	}
	var err error
	p.dir, err = open(t.Context(), server, Options{Path: path, Passing: func(key string) bool { return key == "beat" }, Program: "v1", What: "a test", Log: slog.New(slog.NewTextHandler(p.log, nil))}, on)
	if err != nil {
		return p, err
	}
	p.conn, err = server.Conn(t.Context(), "")
	t.Cleanup(p.kill)
	return p, err
}

func mustBegin(t *testing.T, path string) *process {
	t.Helper()
	p, err := begin(t, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() { _ = p.dir.lock.Close() }

func (p *process) set(value int) {
	p.Helper()
	if _, err := p.conn.Do("SET", "value", value); err != nil {
		p.Fatal(err)
	}
}

// value returns the value that was set; -1: none.
func (p *process) value() int {
	p.Helper()
	value, err := redis.Int(p.conn.Do("GET", "value"))
	if errors.Is(err, redis.ErrNil) {
		return -1
	}
	if err != nil {
		p.Fatal(err)
	}
	return value
}

func (p *process) save() {
	p.Helper()
	if err := p.dir.Save(); err != nil {
		p.Fatal(err)
	}
}

func names(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = e.Name()
	}
	return all
}

func TestNextProcessGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "rounds")
	p := mustBegin(t, path)
	if p.value() != -1 {
		t.Error("there is something in a new directory")
	}
	p.set(1)
	p.save()
	saved := p.dir.State()
	p.save()
	if s := p.dir.State(); s.Saves != 2 || s.Saved != saved.Saved || s.Keys != 1 || s.Bytes == 0 || s.Stood <= 0 || s.Took <= 0 {
		t.Errorf("without a change it was saved again: %+v", s)
	}
	p.set(2)
	p.kill()
	p = mustBegin(t, path)
	if p.value() != 2 || !p.dir.State().Saved.After(saved.Saved) || p.dir.State().Log == 0 {
		t.Errorf("after a kill there is %d, %+v", p.value(), p.dir.State())
	}
	p.set(3)
	if err := p.dir.Close(); err != nil {
		t.Fatal(err)
	}
	p = mustBegin(t, path)
	if p.value() != 3 {
		t.Errorf("after an orderly end there is %d", p.value())
	}
	p.save()
	if s := p.dir.State(); s.Saves != 0 || s.Keys != 1 || s.Written != 0 {
		t.Errorf("what was loaded was saved again: %+v", s)
	}
	want := names(t, path)
	if len(want) > 8 || !slices.Contains(want, newestName) || !slices.Contains(want, previousName) {
		t.Errorf("the directory has %v", want)
	}
	for _, name := range append(want, ".") {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may read %s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	path := t.TempDir()
	first := mustBegin(t, path)
	first.set(1)
	first.save()
	_, err := begin(t, path, nil)
	var used *inUseError
	if !errors.As(err, &used) || used.Holder.PID != os.Getpid() || used.Holder.What != "a test" {
		t.Fatalf("a second process: %v", err)
	}
	for _, part := range []string{path, fmt.Sprint("process ", os.Getpid()), "a test", "--data"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %s", err, part)
		}
	}
	if err := os.WriteFile(filepath.Join(path, holderName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = begin(t, path, nil); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("a second process without a name for the first: %v", err)
	}
	first.kill()
	if p := mustBegin(t, path); p.value() != 1 {
		t.Errorf("after the first ended there is %d", p.value())
	}
}

// dying is a disk that fails from one of its steps on, because the process was killed
// there or the disk is full.
type dying struct {
	disk
	left int // steps that succeed
	err  error
}

func (d *dying) step() error {
	if d.left <= 0 {
		return d.err
	}
	d.left--
	return nil
}

// Create fails or not.
func (d *dying) Create(name string) (file, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	f, err := d.disk.Create(name)
	return &dyingFile{f, d}, err
}

// Rename fails or not.
func (d *dying) Rename(from, to string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.disk.Rename(from, to)
}

// Remove fails or not.
func (d *dying) Remove(name string) error {
	if d.left <= 0 && !errors.Is(d.err, syscall.ENOSPC) {
		return d.err
	}
	return d.disk.Remove(name)
}

// Sync fails or not.
func (d *dying) Sync() error {
	if err := d.step(); err != nil {
		return err
	}
	return d.disk.Sync()
}

type dyingFile struct {
	file
	on *dying
}

// Write writes half of it and fails, or not.
func (f *dyingFile) Write(p []byte) (int, error) {
	if err := f.on.step(); err != nil {
		n, _ := f.file.Write(p[:len(p)/2])
		return n, err
	}
	return f.file.Write(p)
}

// Sync fails or not.
func (f *dyingFile) Sync() error {
	if err := f.on.step(); err != nil {
		return err
	}
	return f.file.Sync()
}

// A process that is killed between any two steps of a save loses nothing: the image
// before and its log have everything, or the new image does. There is no damage.
func TestKilledBetweenSteps(t *testing.T) {
	for _, generation := range []int{1, 2, 3} { // the first save ever, the second, any later one
		steps := 0
		for ; ; steps++ {
			path := t.TempDir()
			p := mustBegin(t, path)
			for n := 1; n < generation; n++ {
				p.set(n)
				p.save()
			}
			p.set(generation)
			p.dir.disk = &dying{folder(path), steps, errors.New("killed")}
			err := p.dir.Save()
			p.kill()
			after := mustBegin(t, path)
			got, state := after.value(), after.dir.State()
			if got != generation || len(state.Damaged) > 0 || strings.Contains(after.log.String(), "level=ERROR") {
				t.Fatalf("generation %d, killed after %d steps: there is %d, %+v\n%s", generation, steps, got, state, after.log)
			}
			after.set(100)
			after.save()
			after.kill()
			if p := mustBegin(t, path); p.value() != 100 {
				t.Fatalf("generation %d, killed after %d steps: then %d was saved", generation, steps, p.value())
			}
			if err == nil {
				break
			}
		}
		if steps < 5 {
			t.Errorf("generation %d: only %d steps", generation, steps)
		}
	}
}

// A disk that is full or read-only at any step harms no saved data. That is reported, and
// the disk is used again when there is room.
func TestFullDisk(t *testing.T) {
	for _, why := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO} {
		for steps := 0; ; steps++ {
			path := t.TempDir()
			p := mustBegin(t, path)
			p.set(1)
			p.save()
			p.set(2)
			p.save()
			full := &dying{folder(path), steps, why}
			p.dir.disk = full
			p.set(3)
			p.dir.log.disk = full
			err := p.dir.Save()
			if err == nil {
				break
			}
			if s := p.dir.State(); !errors.Is(err, why) || s.Failing.IsZero() || !errors.Is(s.Why, why) || !strings.Contains(s.Why.Error(), path) || s.Fails != 1 {
				t.Fatalf("after %d steps: %v, %+v", steps, err, s)
			}
			since := p.dir.State().Failing
			if err := p.dir.Save(); !errors.Is(err, why) || p.dir.State().Failing != since {
				t.Fatalf("after %d steps, again: %v", steps, err)
			}
			if n := strings.Count(p.log.String(), "level=ERROR"); n != 1 {
				t.Fatalf("logged %d times:\n%s", n, p.log)
			}
			p.kill()
			other := mustBegin(t, path)
			if v := other.value(); v != 3 {
				t.Fatalf("after %d steps what was saved is harmed: there is %d\n%s", steps, v, other.log)
			}
			other.kill()
			full.left = 1 << 30
			if err := p.dir.Save(); err != nil || !p.dir.State().Failing.IsZero() || p.dir.State().Why != nil {
				t.Fatalf("with room: %v, %+v", err, p.dir.State())
			}
			if next := mustBegin(t, path); next.value() != 3 {
				t.Fatalf("with room again %d was saved", next.value())
			}
		}
	}
}

// Nothing of a damaged file is used. The file before it is used instead, and the damage
// is reported.
func TestDamagedNewest(t *testing.T) {
	path := t.TempDir()
	p := mustBegin(t, path)
	p.set(1)
	p.save()
	p.set(2)
	p.save()
	p.set(3)
	p.kill()
	logs := map[int][]byte{2: read(t, path, segmentName(2)), 3: read(t, path, segmentName(3))}
	whole, err := os.ReadFile(filepath.Join(path, newestName))
	if err != nil {
		t.Fatal(err)
	}
	previous, err := os.ReadFile(filepath.Join(path, previousName))
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	flipped[len(flipped)/2] ^= 4
	for name, content := range map[string][]byte{
		"empty": {}, "a byte": whole[:1], "half": whole[:len(whole)/2], "all but the last byte": whole[:len(whole)-1],
		"zeros": make([]byte, len(whole)), "a bit": flipped, "text": []byte("hello\n"), "more": append(slices.Clone(whole), 'x'),
		"twice": append(slices.Clone(whole), whole...), "packed text": packed(t, "hello\n"), "unpacked": unpacked(t, whole),
		"zeros at the end": append(slices.Clone(whole[:len(whole)-40]), make([]byte, 40)...), "the end of another": append(slices.Clone(whole[:len(whole)/2]), previous[len(previous)/2:]...),
		"another value": packed(t, strings.Replace(string(unpacked(t, whole)), `"values":["2"]`, `"values":["9"]`, 1)), "packed nothing": packed(t, ""),
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			for name, content := range map[string][]byte{newestName: content, previousName: previous, segmentName(2): logs[2], segmentName(3): logs[3]} {
				write(t, path, name, content)
			}
			p := mustBegin(t, path)
			if p.value() != 3 { // the log of the one before leads on
				t.Fatalf("there is %d", p.value())
			}
			s := p.dir.State()
			if len(s.Damaged) != 1 || s.Damaged[0].Reason == "" || s.Damaged[0].Used.After(s.Saved) || strings.Count(p.log.String(), "level=ERROR") != 1 {
				t.Fatalf("%+v\n%s", s, p.log)
			}
			kept, err := os.ReadFile(filepath.Join(path, s.Damaged[0].Name))
			if err != nil || !bytes.Equal(kept, content) || !strings.HasPrefix(s.Damaged[0].Name, damagedName) {
				t.Errorf("set aside as %q: %v", s.Damaged[0].Name, err)
			}
			p.set(4)
			if got, err := os.ReadFile(filepath.Join(path, previousName)); err != nil || !bytes.Equal(got, previous) {
				t.Errorf("the one good file was replaced before there was another: %v", err)
			}
			p.kill()
			if p := mustBegin(t, path); p.value() != 4 || len(p.dir.State().Damaged) > 0 {
				t.Errorf("afterwards there is %d, %+v", p.value(), p.dir.State())
			}
		})
	}
	t.Run("both", func(t *testing.T) {
		path := t.TempDir()
		for _, name := range []string{newestName, previousName} {
			if err := os.WriteFile(filepath.Join(path, name), flipped, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // nothing is changed, so it is the same again
			_, err := begin(t, path, nil)
			var lost *lostError
			if !errors.As(err, &lost) || len(lost.Damaged) != 2 || !strings.Contains(err.Error(), "rounds restore") {
				t.Fatalf("both damaged: %v", err)
			}
		}
	})
	t.Run("missing", func(t *testing.T) {
		path := t.TempDir()
		if err := os.WriteFile(filepath.Join(path, previousName), previous, 0o600); err != nil {
			t.Fatal(err)
		}
		if p := mustBegin(t, path); p.value() != 1 || !strings.Contains(p.log.String(), "level=ERROR") {
			t.Errorf("there is %d\n%s", p.value(), p.log)
		}
	})
}

// A later format is no damage: nothing is set aside, and nothing older is used.
func TestLaterFormat(t *testing.T) {
	path := t.TempDir()
	p := mustBegin(t, path)
	p.set(1)
	p.save()
	p.set(2)
	p.save()
	p.kill()
	whole, err := os.ReadFile(filepath.Join(path, newestName))
	if err != nil {
		t.Fatal(err)
	}
	later := packed(t, strings.Replace(string(unpacked(t, whole)), `"format":2,"program":"v1"`, `"format":3,"program":"v7.1"`, 1)) // which may end in another way
	if err := os.WriteFile(filepath.Join(path, newestName), later, 0o600); err != nil {
		t.Fatal(err)
	}
	before := names(t, path)
	if _, err := begin(t, path, nil); err == nil || !strings.Contains(err.Error(), "version v7.1 or later") || !strings.Contains(err.Error(), newestName) {
		t.Errorf("a later format: %v", err)
	}
	if after := names(t, path); !slices.Equal(before, after) {
		t.Errorf("there is %v, and was %v", after, before)
	}
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpacked(t *testing.T, file []byte) []byte {
	t.Helper()
	r, err := zstd.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Changes are synced within a second, and an image follows once the log is half as long.
// Nothing is written without a change, and next to nothing for changes with time alone.
func TestRun(t *testing.T) {
	inFakeTime(t, func(ctx context.Context, p *process) {
		go p.dir.Run(ctx)
		before := p.dir.State()
		time.Sleep(24 * time.Hour)
		if s := p.dir.State(); s.Written != before.Written || s.Saves != before.Saves {
			t.Errorf("without a change %d bytes were written", s.Written-before.Written)
		}
		for n := range 20 {
			p.set(n)
			at := time.Now()
			time.Sleep(time.Second)
			if s := p.dir.State(); s.Saved.Before(at.Truncate(time.Millisecond)) {
				t.Errorf("change %d of %v: synced until %v", n, at, s.Saved)
			}
		}
		time.Sleep(2 * defaultWithin)
		if s := p.dir.State(); s.Log > s.Packed || s.Saves <= before.Saves {
			t.Errorf("after the interval: %+v", s)
		}
		before = p.dir.State()
		for range 360 {
			if _, err := p.conn.Do("INCR", "beat"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		if n := p.dir.State().Written - before.Written; n > 20_000 {
			t.Errorf("%d bytes for heartbeats of an hour", n)
		}
	})
}
