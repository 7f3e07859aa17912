package ringtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// A job's document is replaced only as it was read, together with its chunk.
func jobIsReplaced(f *fixture) {
	ctx := context.Background()
	store := document.Of(f.ring).Jobs()
	put := func(version int64, text string, with document.JobChange, want error) {
		f.Helper()
		got, err := store.Put(ctx, document.Job{ID: "j", Version: version, Text: []byte(text)}, with)
		if !errors.Is(err, want) || want == nil && (err != nil || got != version+1) {
			f.Errorf("%s: %d, %v; want %v", text, got, err, want)
		}
	}
	chunk := func(name, want string) {
		f.Helper()
		text, err := store.Chunk(ctx, "j", name)
		if string(text) != want || (want == "") != errors.Is(err, document.ErrNone) {
			f.Errorf("chunk %s: %q, %v; want %q", name, text, err, want)
		}
	}
	put(1, "too early", document.JobChange{Life: time.Hour}, document.ErrChanged)
	for range 2 { // a repeated call finds what it wrote
		put(0, "one|\n\x00", document.JobChange{Chunk: "a", Text: []byte("first"), Life: time.Hour}, nil)
	}
	put(0, "again", document.JobChange{Chunk: "a", Text: []byte("x"), Life: time.Hour}, document.ErrChanged)
	put(1, "two", document.JobChange{Chunk: "b", Text: []byte("second"), Life: time.Hour}, nil)
	put(1, "late", document.JobChange{Chunk: "b", Text: []byte("x"), Life: time.Hour}, document.ErrChanged)
	chunk("a", "first")
	chunk("b", "second")
	chunk("c", "")
	if j, now, err := store.Get(ctx, "j"); err != nil || j.Version != 2 || string(j.Text) != "two" || now.IsZero() {
		f.Errorf("%+v at %v, %v", j, now, err)
	}
	if life := f.number("PTTL", "{"+f.ns+":jobs}:of:j"); life <= 0 || life > int(time.Hour.Milliseconds()) {
		f.Errorf("chunks live for %d ms", life)
	}
	put(2, "three", document.JobChange{}, nil)
	chunk("a", "")
	if err := store.Remove(ctx, document.Job{ID: "j", Version: 2}); !errors.Is(err, document.ErrChanged) {
		f.Error(err)
	}
	for range 2 {
		if err := store.Remove(ctx, document.Job{ID: "j", Version: 3}); err != nil {
			f.Error(err)
		}
	}
	if _, _, err := store.Get(ctx, "j"); !errors.Is(err, document.ErrNone) {
		f.Error(err)
	}
}

func jobsAreBounded(f *fixture) {
	ctx := context.Background()
	store := document.Of(f.ring).Jobs()
	add := func(id string) error {
		_, err := store.Put(ctx, document.Job{ID: id, Text: []byte("text")}, document.JobChange{Life: time.Hour})
		return err
	}
	for i := range document.MostJobs {
		if err := add(fmt.Sprint(i)); err != nil {
			f.Fatal(err)
		}
	}
	if err := add("more"); !errors.Is(err, document.ErrFull) {
		f.Error(err)
	}
	if all, _, err := store.All(ctx); err != nil || len(all) != document.MostJobs {
		f.Errorf("%d jobs, %v", len(all), err)
	}
	for _, bad := range []func() error{
		func() error { return add("") },
		func() error { return add(strings.Repeat("x", document.MaxName+1)) },
		func() error {
			_, err := store.Put(ctx, document.Job{ID: "j"}, document.JobChange{})
			return err
		},
		func() error {
			_, err := store.Put(ctx, document.Job{ID: "j", Text: make([]byte, document.MaxJob+1)}, document.JobChange{})
			return err
		},
		func() error {
			_, err := store.Put(ctx, document.Job{ID: "j", Text: []byte("x")}, document.JobChange{Chunk: "c", Text: make([]byte, document.MaxJobChunk+1)})
			return err
		},
		func() error {
			_, err := store.Put(ctx, document.Job{ID: "j", Text: []byte("x")}, document.JobChange{Life: document.MaxJobLife + 1})
			return err
		},
	} {
		if err := bad(); err == nil || errors.Is(err, document.ErrFull) {
			f.Errorf("bad input: %v", err)
		}
	}
}

// A revision changes a record and its due time, and parked accounts stay parked.
func reviseLeavesParked(f *fixture) {
	ctx := context.Background()
	f.register("failed", "active")
	c := f.claim(alice, "active", "failed")
	f.ret(circulate.Written, circulate.Return{Claim: c[1], Park: "config: no such feed", Failures: 4})
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	due := now.Add(time.Hour).Truncate(time.Millisecond)
	done, err := f.ring.Revise(ctx, 0, []circulate.Registration{
		{ID: "active", Record: []byte("new"), Due: due}, {ID: "failed", Record: []byte("new"), Due: due}, {ID: "failed", Before: []byte("old"), Record: []byte("newer")},
	})
	if err != nil || done[0] != circulate.Updated || done[1] != circulate.Updated || done[2] != circulate.Differs {
		f.Fatal(done, err)
	}
	f.placed("active", circulate.Scheduled)
	f.placed("failed", circulate.Parked)
	if v := f.look("active"); !v.Due.Equal(due) {
		f.Errorf("due %v, want %v", v.Due, due)
	}
	if v := f.look("failed"); string(v.Record) != "new" || v.Reason != "config: no such feed" || v.Failures != 4 {
		f.Errorf("%+v", v)
	}
	f.ret(circulate.Fenced, circulate.Return{Claim: c[0]})
}
