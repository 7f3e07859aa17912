package ringtest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// upsertAsSeen changes and removes accounts if nobody else has changed them.
func upsertAsSeen(f *fixture) {
	ctx := context.Background()
	item := func(record, before string) circulate.Registration {
		return circulate.Registration{ID: "a", Record: []byte(record), Before: []byte(before)}
	}
	f.upsert(circulate.Differs, item("1", "0")) // it is not there
	f.upsert(circulate.Created, circulate.Registration{ID: "a", Record: []byte("1"), Absent: true})
	f.upsert(circulate.Unchanged, circulate.Registration{ID: "a", Record: []byte("1"), Absent: true})
	f.upsert(circulate.Differs, circulate.Registration{ID: "a", Record: []byte("2"), Absent: true})
	c := f.claim(alice, "a")[0]
	f.upsert(circulate.Differs, item("2", "0"))
	f.placed("a", circulate.Claimed) // the check under way goes on
	if v := f.look("a"); string(v.Record) != "1" {
		f.Errorf("record %q", v.Record)
	}
	f.upsert(circulate.Updated, item("2", "1"))
	f.upsert(circulate.Unchanged, item("2", "1")) // the same step again
	f.ret(circulate.Fenced, circulate.Return{Claim: c})
	f.conserved()

	// In one step, each change of an id sees the changes before it.
	outcomes, err := f.ring.Upsert(ctx, 0, []circulate.Registration{item("3", "2"), item("4", "2"), item("5", "3"), {ID: "b", Record: []byte("b")}})
	if err != nil || string(letters(outcomes)) != "uxuc" {
		f.Errorf("several: %s, %v", letters(outcomes), err)
	}
	a := f.ring.Account("a")
	if err := a.DeregisterIf(ctx, []byte("4")); !errors.Is(err, circulate.ErrNotRegistered) {
		f.Errorf("deregister of another record: %v", err)
	}
	f.placed("a", circulate.Scheduled)
	if err := a.DeregisterIf(ctx, []byte("5")); err != nil {
		f.Error(err)
	}
	if err := a.DeregisterIf(ctx, []byte("5")); !errors.Is(err, circulate.ErrNotRegistered) {
		f.Errorf("deregister twice: %v", err)
	}
	f.conserved()
}

func letters(outcomes []circulate.Registered) []byte {
	text := make([]byte, len(outcomes))
	for i, o := range outcomes {
		text[i] = byte(o)
	}
	return text
}

// registerBegins registers accounts that come with cursors, failures and reasons.
func registerBegins(f *fixture) {
	ctx := context.Background()
	long := bytes.Repeat([]byte("long"), 1024)
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	since := now.Add(-time.Hour).Truncate(time.Millisecond)
	items := []circulate.Registration{
		{ID: "plain", Record: []byte("1")},
		{ID: "short", Record: []byte("1"), Begin: &circulate.Begin{Cursor: []byte("c\x00|"), State: "i1000", Failures: 3}},
		{ID: "long", Record: []byte("1"), Begin: &circulate.Begin{Cursor: long}},
		{ID: "out", Record: []byte("1"), Begin: &circulate.Begin{Cursor: []byte("out"), Park: circulate.ReasonPaused, Since: since, Failures: 2}},
		{ID: "ahead", Record: []byte("1"), Begin: &circulate.Begin{Park: "gone: x", Since: since.Add(48 * time.Hour)}},
	}
	for _, want := range []string{"ccccc", "sssss"} {
		outcomes, err := f.ring.Upsert(ctx, 0, items)
		if err != nil || string(letters(outcomes)) != want {
			f.Fatalf("%s, %v; want %s", letters(outcomes), err, want)
		}
	}
	f.conserved()
	if v := f.look("out"); v.Place != circulate.Parked || v.Reason != circulate.ReasonPaused || v.Failures != 2 || !v.Since.Equal(since) {
		f.Errorf("out: %+v", v)
	}
	if v := f.look("ahead"); v.Place != circulate.Parked || v.Reason != "gone: x" || v.Since.After(v.Now) {
		f.Errorf("ahead: %+v", v)
	}
	snapshots, err := f.ring.Snapshots(ctx, 0, []string{"none", "long", "out", "short"})
	if err != nil || len(snapshots) != 3 {
		f.Fatalf("%d snapshots, %v", len(snapshots), err)
	}
	for _, s := range snapshots {
		want := *items[map[string]int{"short": 1, "long": 2, "out": 3}[s.ID]].Begin
		if string(s.Record) != "1" || !bytes.Equal(s.Cursor, want.Cursor) || s.State != want.State || s.Failures != want.Failures || s.Park != want.Park || !s.Since.Equal(want.Since) {
			f.Errorf("snapshot %+v, want %+v", s, want)
		}
	}
	claims := make(map[string]*circulate.Claim)
	for _, c := range f.claim(alice, "long", "plain", "short") {
		claims[c.ID] = c
	}
	if c := claims["plain"]; c.Cursor != nil || c.State != "" || c.Failures != 0 {
		f.Errorf("plain: %+v", c)
	}
	if c := claims["short"]; string(c.Cursor) != "c\x00|" || c.State != "i1000" || c.Failures != 3 {
		f.Errorf("short: %+v", c)
	}
	if c := claims["long"]; !bytes.Equal(c.Cursor, long) {
		f.Errorf("long: %d bytes of cursor", len(c.Cursor))
	}
	// A registered account keeps its own.
	f.upsert(circulate.Updated, circulate.Registration{ID: "out", Record: []byte("2"), Begin: &circulate.Begin{Cursor: []byte("other"), Failures: 9}})
	if v := f.look("out"); v.Place != circulate.Parked || v.Failures != 2 {
		f.Errorf("out after a change: %+v", v)
	}
	if err := f.ring.Account("out").Resume(ctx, circulate.Resumption{}); err != nil {
		f.Fatal(err)
	}
	if c := f.claim(alice, "out")[0]; string(c.Cursor) != "out" {
		f.Errorf("out came back with %q", c.Cursor)
	}
	if _, err := f.ring.Deregister(ctx, 0, []string{"plain", "short", "long", "out", "ahead"}); err != nil {
		f.Fatal(err)
	}
	for _, name := range strings.Fields("tickets accounts cursors failures states parked park_reasons") {
		if f.number("EXISTS", f.key(name)) != 0 {
			f.Errorf("%s is left", name)
		}
	}
}
