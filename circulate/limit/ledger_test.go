package limit

import (
	"fmt"
	"testing"
	"time"
)

// A ledger counts the last half to one minute, remembers who waits, and is bounded.
func TestLedger(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	l := NewLedger()
	answers := func(denied ...time.Duration) Answers {
		a := Answers{Now: now, At: make([]time.Time, 1+len(denied))} // one may start
		for i, d := range denied {
			a.At[1+i] = now.Add(d)
		}
		return a
	}
	of := func(name string) Seen {
		t.Helper()
		for _, s := range l.Seen(now) {
			if s.Name == name {
				return s
			}
		}
		return Seen{}
	}
	slow := Limit{Name: "feed/a", Every: time.Hour, Burst: 1}
	l.Note(slow, answers(time.Hour, 2*time.Hour))
	l.Note(Limit{Name: "http", Concurrency: 5}, answers())
	if s := of("feed/a"); s.Asked != 3 || s.Denied != 2 || !s.Until.Equal(now.Add(2*time.Hour)) || s.Every != time.Hour {
		t.Errorf("%+v", s)
	}
	if all := l.Seen(now); len(all) != 2 || all[0].Name != "feed/a" {
		t.Errorf("%+v", all)
	}
	now = now.Add(-time.Second) // another node's clock
	if s := of("feed/a"); s.Asked != 3 {
		t.Errorf("a second before: %+v", s)
	}
	now = now.Add(40 * time.Second)
	l.Note(slow, answers(time.Hour))
	if s := of("feed/a"); s.Asked != 5 || s.Denied != 3 {
		t.Errorf("in the next turn: %+v", s)
	}
	now = now.Add(31 * time.Second)
	if s := of("feed/a"); s.Asked != 2 || s.Denied != 1 {
		t.Errorf("in the turn after it: %+v", s)
	}
	now = now.Add(10 * time.Minute)
	if s := of("feed/a"); s.Asked != 0 || s.Denied != 0 || s.Until.IsZero() {
		t.Errorf("ten minutes later: %+v", s)
	}
	if s := of("http"); s.Name != "" {
		t.Errorf("nobody waits, and it is still known: %+v", s)
	}
	now = now.Add(3 * time.Hour)
	if all := l.Seen(now); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	for i := range ledgerMost + 10 {
		l.Note(Limit{Name: fmt.Sprint("feed/", i), Every: time.Second, Burst: 1}, answers())
	}
	l.Note(Limit{Name: "feed/7", Every: time.Second, Burst: 1}, answers(time.Second))
	if all := l.Seen(now); len(l.known) != ledgerMost || len(all) != reportMost || all[0].Name != "feed/7" {
		t.Errorf("%d known, %d reported, first %+v", len(l.known), len(all), all[0])
	}
}
