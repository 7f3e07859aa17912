package ndjson

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

func TestSuite(t *testing.T) {
	sinktest.Run(t, sinktest.Suite{
		New:     func(t *testing.T) sinktest.Place { return newPlace(t) },
		Doubles: true, Fake: true,
	})
}

func files(t *testing.T, p *place, ending string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(p.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ending) {
			names = append(names, e.Name())
		}
	}
	return names
}

func handled(t *testing.T, s delivery.Sink, batch ...delivery.Delivery) {
	t.Helper()
	for _, err := range s.Handle(t.Context(), batch) {
		if err != nil {
			t.Error(err)
		}
	}
}

// A file is finished when it is old enough, even if nothing comes, and when it is large enough.
func TestFilesAreFinished(t *testing.T) {
	p := newPlace(t)
	synctest.Test(t, func(t *testing.T) {
		p.settings = Settings{MaxAge: time.Minute, MaxBytes: 1000}
		s := p.Open(t)
		if err := s.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		handled(t, s, sinktest.Message("a", 0))
		time.Sleep(time.Minute - time.Second)
		if got := files(t, p, ".ndjson"); len(got) != 0 || len(files(t, p, begun)) != 1 {
			t.Errorf("before its age: %q", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := files(t, p, ".ndjson"); len(got) != 1 || !strings.HasPrefix(got[0], "crm-20000101T000000.00000") || len(files(t, p, "")) != 1 {
			t.Errorf("after its age: %q", files(t, p, ""))
		}
		for n := range 20 {
			handled(t, s, sinktest.Message("a", 1+n))
		}
		if got := files(t, p, ".ndjson"); len(got) < 4 || len(files(t, p, begun)) > 1 {
			t.Errorf("by size: %q", files(t, p, ""))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := len(p.Stored(t)); n != 21 {
			t.Errorf("%d lines", n)
		}
	})
}

// A file that a living process writes is left alone. What follows a torn line is cut, even if it
// is whole: it was never acknowledged.
func TestOnlyFilesOfTheDeadAreRecovered(t *testing.T) {
	p := newPlace(t)
	alive := p.Open(t)
	if err := alive.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	handled(t, alive, sinktest.Message("a", 0))
	for name, text := range map[string]string{
		"crm-1": "{\"id\":\"1\"}\n{\"id\":\"2\"}\n{\"id", "crm-2": "{\"id\":\"3\"}\n\x00\x00\x00\n{\"id\":\"4\"}\n", "crm-3": "{", "crm-4": "",
	} {
		if err := os.WriteFile(filepath.Join(p.path, name+".ndjson"+begun), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	orphan := filepath.Join(p.path, "crm-5.ndjson"+locked)
	if err := errors.Join(os.WriteFile(orphan, nil, 0o600), os.Chtimes(orphan, time.Time{}, time.Now().Add(-2*orphanAge))); err != nil {
		t.Fatal(err)
	}
	other := p.Open(t)
	if err := other.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := files(t, p, begun); len(got) != 1 {
		t.Errorf("begun are %q", got)
	}
	if err := alive.Close(); err != nil {
		t.Error(err)
	}
	lines := make(map[string]int)
	for _, m := range p.Stored(t) {
		lines[m.Key]++
	}
	if len(lines) != 4 || lines["1"] != 1 || lines["2"] != 1 || lines["3"] != 1 {
		t.Errorf("got %v", lines)
	}
}

// Batches that come at once share a file, while others are finished by size.
func TestBatchesShareAFile(t *testing.T) {
	p := newPlace(t)
	p.settings = Settings{MaxBytes: 2000}
	s := p.Open(t)
	if err := s.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 5 {
				handled(t, s, sinktest.Message(strconv.Itoa(i), n))
			}
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := len(p.Stored(t)); n != 40 {
		t.Errorf("%d lines", n)
	}
}

// A failed fsync is not believed when it succeeds later: the file is cut, and the messages wait.
func TestAFailedSyncIsNotRepeated(t *testing.T) {
	p := newPlace(t)
	s := p.Open(t)
	if err := s.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	handled(t, s, sinktest.Message("a", 0))
	failing := &unsynced{disk: p.last}
	own := s.(*Sink)
	own.part.file = &unsyncedFile{own.part.file, failing}
	failing.fails = 1
	batch := sinktest.Messages(1, "a", "b")
	errs := s.Handle(t.Context(), batch)
	var later *delivery.Later
	if len(errs) != 2 || !errors.As(errs[0], &later) || later.Target != "crm" || !errors.Is(errs[0], syscall.EIO) || strings.Contains(errs[0].Error(), p.path) {
		t.Errorf("got %v", errs)
	}
	if got := p.Stored(t); len(got) != 1 {
		t.Errorf("stored are %v", got)
	}
	handled(t, s, batch...)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := p.Stored(t); len(got) != 3 {
		t.Errorf("stored are %v", got)
	}
	if errs := s.Handle(t.Context(), batch); len(errs) != 2 || !errors.As(errs[0], &later) {
		t.Errorf("a closed sink: %v", errs)
	}
}

type unsynced struct {
	disk
	fails int
}

type unsyncedFile struct {
	file
	of *unsynced
}

func (f *unsyncedFile) Sync() error {
	if f.of.fails > 0 {
		f.of.fails--
		return &os.PathError{Op: "fsync", Path: "/secret/path", Err: syscall.EIO}
	}
	return f.file.Sync()
}

// Data that is no JSON can never be a line, and holds up nothing.
func TestWhatIsNoJSONIsGivenUp(t *testing.T) {
	p := newPlace(t)
	s := p.Open(t)
	if err := s.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	bad, good := sinktest.Message("a", 0), sinktest.Message("a", 1)
	bad.Message.Data = json.RawMessage(`{`)
	large := sinktest.Message("a", 2)
	large.Message.Data = json.RawMessage(`"` + strings.Repeat("x", lineMost) + `"`)
	errs := s.Handle(t.Context(), []delivery.Delivery{bad, good, large})
	var dead *delivery.Dead
	if !errors.As(errs[0], &dead) || errs[1] != nil || !errors.As(errs[2], &dead) {
		t.Errorf("got %v", errs)
	}
	if errs := s.Handle(t.Context(), []delivery.Delivery{bad}); !errors.As(errs[0], &dead) {
		t.Errorf("alone: %v", errs)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := p.Stored(t); len(got) != 1 {
		t.Errorf("stored are %v", got)
	}
}

// A missing or forbidden directory makes messages wait, and ends nothing.
func TestTheDirectoryMayComeLater(t *testing.T) {
	p := newPlace(t)
	if err := os.WriteFile(p.path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := p.Open(t)
	var later *delivery.Later
	if err := s.Prepare(t.Context()); !errors.As(err, &later) {
		t.Errorf("got %v", err)
	}
	if errs := s.Handle(t.Context(), sinktest.Messages(1, "a")); !errors.As(errs[0], &later) {
		t.Errorf("got %v", errs)
	}
	if err := os.Remove(p.path); err != nil {
		t.Fatal(err)
	}
	if err := s.Prepare(t.Context()); err != nil {
		t.Error(err)
	}
	handled(t, s, sinktest.Message("a", 0))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestRead(t *testing.T) {
	types := sink.Types{Type{Namespace: "rounds"}}
	read := func(fields string) ([]sink.Endpoint, error) {
		return types.Read(strings.NewReader(`{"endpoints":[{"name":"crm","type":"file",` + fields + `}]}`))
	}
	for fields, want := range map[string]string{
		`"directory":""`: "directory: missing", `"directory":"a/b"`: "absolute", `"directory":"/a/../b"`: "absolute",
		`"directory":"/a","max_bytes":1`: "max_bytes: must be 65536", `"directory":"/a","max_bytes":0`: "max_bytes: must be 65536", `"directory":"/a","max_bytes":"1"`: "max_bytes: must be a whole",
		`"directory":"/a","max_age":"0s"`: "max_age: must be a duration", `"directory":"/a","max_age":"1"`: "max_age", `"directory":"/a","max_age":"1000h"`: "max_age",
		`"directory":"/a","url":"x"`: "endpoints[0].url: unknown field; the fields are name, type, directory",
	} {
		if _, err := read(fields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", fields, err)
		}
	}
	all, err := read(`"directory":"/a","max_bytes":65536,"max_age":"90s","format":"cloudevents"`)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := all[0].Config.Open()
	if err != nil {
		t.Fatal(err)
	}
	if s := opened.(*Sink); s.settings != (Settings{"/a", 65536, 90 * time.Second}) || s.form != (lines{sink.Encoding{Namespace: "rounds", Format: sink.CloudEvents}}) {
		t.Errorf("got %+v", s.settings)
	}
}
