package connect

import (
	"strconv"
	"testing"
	"time"
)

// The server sorts and searches all keys whenever its clock changes, so the clock changes less often
// where they are many. Keys end nevertheless.
func TestTheClockChangesLessOftenWhereKeysAreMany(t *testing.T) {
	e := NewEmbedded()
	defer e.Close()
	for i := range 30_000 {
		if err := e.server.Set(strconv.Itoa(i), ""); err != nil {
			t.Fatal(err)
		}
	}
	e.server.SetTTL("7", time.Minute)
	now := time.Now()
	e.clock.now = func() time.Time { return now }
	now = now.Add(30 * time.Second)
	e.clock.move()
	if e.clock.step == minStep || e.clock.step > maxLate {
		t.Errorf("with many keys the clock advances by %s", e.clock.step)
	}
	before := e.clock.last
	now = now.Add(minStep)
	if at, _ := e.clock.move(); !at.Equal(before) {
		t.Errorf("it advanced by %s", at.Sub(before))
	}
	now = now.Add(31 * time.Second)
	if e.clock.move(); e.server.Exists("7") || !e.server.Exists("8") {
		t.Error("keys end neither too late nor too early")
	}
	e.server.FlushAll()
	for range 1000 { // an interrupted search may take long now and then
		now = now.Add(maxLate)
		if e.clock.move(); e.clock.step == minStep {
			return
		}
	}
	t.Errorf("without keys the clock advances by %s", e.clock.step)
}
