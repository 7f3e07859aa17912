package accounts

import (
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

// read is ReadMemory of a text that can be read.
func read(t *testing.T, text string) Memory {
	t.Helper()
	m, err := ReadMemory(text)
	if err != nil {
		t.Errorf("%q: %v", text, err)
	}
	return m
}

// Versions that run side by side read each other's texts.
func TestMemoryIsStoredAsBefore(t *testing.T) {
	at := time.UnixMilli(1786000000123)
	rhythm := cadence.State{Interval: 1500 * time.Millisecond, Refusals: 1, FirstRefusal: at}
	for _, c := range []struct {
		memory Memory
		want   string
	}{
		{Memory{}, ""},
		{Memory{SkipBefore: at}, "s1786000000123"},
		{Memory{UsedUntil: at}, "b1786000000123"},
		{Memory{PolledUntil: at}, "p1786000000123"},
		{Memory{Cadence: rhythm}, "i1500 r1@1786000000123"},
		{Memory{Warning: "malformed: x"}, "wbWFsZm9ybWVkOiB4"},
		{Memory{SkipBefore: at, UsedUntil: at.Add(1), PolledUntil: at.Add(1), Cadence: rhythm, Warning: "malformed: x"}, "s1786000000123 b1786000000123 p1786000000123 i1500 r1@1786000000123 wbWFsZm9ybWVkOiB4"},
		{Memory{Cadence: cadence.State{Failures: 3}}, ""}, // the ring stores it
	} {
		if got := c.memory.Encode(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.memory, got, c.want)
		}
	}
}

func TestUsedShareStandsBesideTheRest(t *testing.T) {
	until, skip := time.UnixMilli(1795226313819), time.UnixMilli(1795226000000)
	rhythm := cadence.State{Interval: time.Minute, Refusals: 2, FirstRefusal: time.UnixMilli(5)}
	state := Memory{SkipBefore: skip, UsedUntil: until, Cadence: rhythm}.Encode()
	if got := read(t, state).UsedUntil; !got.Equal(until) {
		t.Errorf("%q: used until %v", state, got)
	}
	if got := read(t, state).SkipBefore; !got.Equal(skip) {
		t.Errorf("%q: skips before %v", state, got)
	}
	if got, err := ReadMemory(state); err != nil || got.Cadence != rhythm {
		t.Errorf("%q: %+v, %v", state, got, err)
	}
	if (Memory{Cadence: cadence.State{Interval: 5 * time.Millisecond}}).Encode() != "i5" {
		t.Error("a zero time was noted")
	}
	if got := read(t, Memory{SkipBefore: skip, UsedUntil: until, PolledUntil: skip, Cadence: rhythm}.Encode()); !got.PolledUntil.Equal(skip) || !got.UsedUntil.Equal(until) {
		t.Errorf("polled until %v", got.PolledUntil)
	}
	for _, none := range []string{"", "i60000", "s5", "b", "bx", "b-1", "b99999999999999999"} {
		if got := read(t, none).UsedUntil; !got.IsZero() {
			t.Errorf("%q: used until %v", none, got)
		}
	}
}

func TestSkipStandsBeforeTheRest(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	for _, state := range []string{"", "i1000", "i1000 r2@5"} {
		m := read(t, state)
		if !m.SkipBefore.IsZero() || m.Encode() != state {
			t.Errorf("%q: %v", state, m)
		}
		m.SkipBefore = at
		if got := read(t, m.Encode()).SkipBefore; !got.Equal(at) {
			t.Errorf("%q: %v", state, got)
		}
	}
	for _, state := range []string{"s", "sx", "s-1", "s99999999999999999999", "i1 s5"} {
		if got := read(t, state).SkipBefore; !got.IsZero() {
			t.Errorf("%q: %v", state, got)
		}
	}
}

func TestWarningStandsBesideWhatElseIsStored(t *testing.T) {
	at := time.UnixMilli(1786000000123)
	rhythm := cadence.State{Interval: 1500 * time.Millisecond}
	for _, before := range []Memory{
		{}, {Cadence: cadence.State{Interval: 1500 * time.Millisecond, Refusals: 1, FirstRefusal: at}},
		{UsedUntil: at, Cadence: rhythm}, {SkipBefore: at, UsedUntil: at},
	} {
		for _, text := range []string{"", "malformed: broken XML at line 12", "moved: to https://ü.example/a b", strings.Repeat("ä", 300)} {
			m := before
			m.Warning = text
			state := m.Encode()
			stored := read(t, state)
			got := stored.Warning
			if got != text && (len(text) <= maxWarning || got == "" || !strings.HasPrefix(text, got)) {
				t.Errorf("%+v with %q: got %q", before, text, got)
			}
			if stored.Warning = ""; stored != before {
				t.Errorf("%+v is not what it was: %q", before, state)
			}
		}
	}
	for _, state := range []string{"w", "w!", "w" + "_w", "x"} {
		if got := read(t, state).Warning; got != "" {
			t.Errorf("%q: got %q", state, got)
		}
	}
}

// An unreadable part costs no other part.
func TestAnUnreadableCadenceLeavesTheRest(t *testing.T) {
	m, err := ReadMemory("s5 b7 r0@x wYQ")
	if want := (Memory{SkipBefore: time.UnixMilli(5), UsedUntil: time.UnixMilli(7), Warning: "a"}); err == nil || m != want {
		t.Errorf("got %+v, %v", m, err)
	}
}

// Any text can be read, and the stored result reads the same.
func FuzzMemory(f *testing.F) {
	for _, text := range []string{"", "s5 b7 i1500 r1@1786000000123 wYQ", "i1 s5", "b1 b2", "w w_w wYQ", "i5 i6", "r2", " s5\tx", "sx wYQ=="} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, _ := ReadMemory(text)
		stored := m.Encode()
		again, err := ReadMemory(stored)
		if err != nil || again != m {
			t.Errorf("%q is %+v, stored as %q, and then %+v, %v", text, m, stored, again, err)
		}
	})
}
