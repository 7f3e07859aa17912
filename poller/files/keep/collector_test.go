package keep_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/files/keep"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// deliver hands a keeper the last message of an account, as its consumer would.
func (w *world) deliver(k *keep.Keeper, account string) error {
	w.Helper()
	found := w.Found(account)
	return k.Handle(w.Context(), []delivery.Delivery{{Found: found[len(found)-1], Group: keep.Group, Attempt: 1}})[0]
}

func (w *world) healthy() *keep.Keeper {
	return keep.New(keep.Config{}, keep.Options{Ring: w.Ring, Store: w.store, Checkers: w.checkers(), Log: faketime.Log(w)})
}

// collected expects what two turns ended, and how many objects they removed.
func (w *world) collected(c keep.Collector, ended, removed int) {
	w.Helper()
	var did keep.Collected
	for range 2 { // what is condemned is removed a minute later
		one, err := c.Turn(w.Context())
		if err != nil {
			w.Error(err)
		}
		did.Ended, did.Removed = did.Ended+one.Ended, did.Removed+one.Removed
		time.Sleep(2 * time.Minute)
	}
	if did.Ended != ended || did.Removed != removed {
		w.Errorf("%+v; want %d ended and %d removed", did, ended, removed)
	}
}

// forget drops all messages of the streams, as retention does.
func (w *world) forget() {
	w.Helper()
	for shard := range w.Ring.Shards() {
		if _, _, err := w.Ring.Streams().TrimTo(w.Context(), shard, 0); err != nil {
			w.Fatal(err)
		}
	}
}

// bury writes the last message of an account as a dead letter of a group.
func (w *world) bury(name, account string) {
	w.Helper()
	found := w.Found(account)
	f := found[len(found)-1]
	w.Do("XADD", w.Key(f.Shard, "dead"), "*", "for", name, "error", "no", "deliveries", "1", "position", f.Position,
		"account", account, "kind", "chat", "id", f.Message.ID, "type", "file", "time", "", "data", string(f.Message.Data))
}

// A file goes when its message has left the streams and no dead letter names it, and not before its
// own time.
func TestFilesEndAfterTheirMessages(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a", "b")
		w.chat.set("x", answer{bytes: "x"})
		w.chat.set("y", answer{bytes: "y"})
		k, c := w.healthy(), w.collector(time.Hour)
		one := w.write("a", attachment{Name: "x"}, attachment{Name: "y"})
		if err := w.deliver(k, "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		w.collected(c, 0, 0) // its message is in a stream
		w.forget()
		w.write("b") // another shard or the same: it is younger
		w.collected(c, 2, 2)
		w.forget()

		two := w.write("a", attachment{Name: "x"})
		if err := w.deliver(k, "a"); err != nil {
			t.Fatal(err)
		}
		w.bury("others", "a")
		w.forget()
		w.collected(c, 0, 0) // its own time has not come
		time.Sleep(2 * time.Hour)
		w.collected(c, 0, 0) // a dead letter names it
		w.kept("a", two, 0, "x")
		time.Sleep(2 * time.Hour)
		w.collected(c, 0, 0)
		shard := w.Ring.ShardOf("a")
		letters, err := group.Of(w.Ring).DeadLetters(w.Context(), shard, circulate.StreamStart, 10)
		if err != nil || len(letters) != 1 {
			t.Fatal(letters, err)
		}
		if _, err := group.Of(w.Ring).DropDead(w.Context(), shard, letters[0].Position); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		w.collected(c, 1, 1)
		w.empty()
		_ = one
	})
}

// While another shard has an older message than a file's, the file stays: only the low water of all
// shards says that a message has gone, because the account may have been in any of them.
func TestTheLowWaterIsThatOfAllShards(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		other := "b"
		for i := 0; w.Ring.ShardOf(other) == w.Ring.ShardOf("a"); i++ {
			other = fmt.Sprint("b", i)
		}
		w.chat.set("x", answer{bytes: "x"})
		w.write(other)
		time.Sleep(time.Second)
		id := w.write("a", attachment{Name: "x"})
		if err := w.deliver(w.healthy(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.Ring.Streams().TrimTo(w.Context(), w.Ring.ShardOf("a"), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		w.collected(w.collector(time.Hour), 0, 0)
		w.kept("a", id, 0, "x")
		w.forget()
		w.collected(w.collector(time.Hour), 1, 1)
	})
}

// A dead letter that is replayed while a collector works keeps its files.
func TestAReplayDuringACollection(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		w.chat.set("x", answer{bytes: "x"})
		id := w.write("a", attachment{Name: "x"})
		if err := w.deliver(w.healthy(), "a"); err != nil {
			t.Fatal(err)
		}
		w.bury("others", "a")
		w.forget()
		time.Sleep(2 * time.Hour)
		shard := w.Ring.ShardOf("a")
		letters, err := group.Of(w.Ring).DeadLetters(w.Context(), shard, circulate.StreamStart, 10)
		if err != nil || len(letters) != 1 {
			t.Fatal(letters, err)
		}
		var once sync.Once
		slow := &faketime.Faulty{Server: w.Redis}
		slow.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Send && s.Command == "XRANGE" && s.Args[0] == w.Key(shard, "dead") {
				once.Do(func() { // the collector knows which rows are due, and has not read the letters
					if err := w.Ring.Files().Again(w.Context(), "a", id); err != nil {
						w.Error(err)
					}
					if _, err := group.Of(w.Ring).ReplayDead(w.Context(), shard, letters[0].Position); err != nil {
						w.Error(err)
					}
				})
			}
			return faketime.Healthy
		})
		c := w.collector(time.Hour)
		c.Ring = w.Open(slow)
		w.collected(c, 0, 0)
		w.kept("a", id, 0, "x")
	})
}

// doom is the end of a process at one of its steps: a call of Redis, or of the store.
type doom struct {
	mu    sync.Mutex
	at    int // the step; the first is 1
	after bool
	n     int
	dead  bool
}

func (d *doom) step() (dies bool, dead bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return false, true
	}
	d.n++
	d.dead = d.n == d.at
	return d.dead, d.dead
}

// fate ends the process at a call of Redis.
func (d *doom) fate(s faketime.Step) faketime.Fate {
	switch s.At {
	case faketime.Call, faketime.Send:
		dies, dead := d.step()
		switch {
		case dies && d.after:
			return faketime.ReplyLost
		case dead:
			return faketime.NotDone
		}
	case faketime.Connect, faketime.Called, faketime.Receive:
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.dead && s.At == faketime.Connect {
			return faketime.NotDone
		}
	}
	return faketime.Healthy
}

// gone ends the process at a call of the store, before or after it is done.
func (d *doom) gone(step, _ string) error {
	if step == "stored" || step == "removed" {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.dead {
			return errAway
		}
		return nil
	}
	dies, dead := d.step()
	if dead && !(dies && d.after) {
		return errAway
	}
	return nil
}

// everyStep runs a test with a process that dies at each of its steps in turn, before and after it is
// done, until it does not die.
func everyStep(t *testing.T, test func(w *world, d *doom)) {
	t.Helper()
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			died := false
			inFakeTime(t, func(w *world) {
				d := &doom{at: at, after: after}
				test(w, d)
				died = d.dead
			})
			if t.Failed() {
				t.Fatalf("after a death at step %d (done: %t)", at, after)
			}
			if !died {
				if at < 5 {
					t.Errorf("only %d steps", at-1)
				}
				break
			}
		}
	}
}

// whole expects that every kept row has its bytes.
func (w *world) whole() {
	w.Helper()
	err := w.Ring.Files().Walk(w.Context(), func(rows []circulate.File) error {
		for _, row := range rows {
			if row.State == circulate.FileKept {
				if _, err := w.store.Open(w.Context(), row.Object); err != nil {
					w.Errorf("%s/%s/%d: %v", row.Account, row.Of, row.Place, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		w.Error(err)
	}
}

// A process that fetches files may die at any step: the next one keeps them, and what the first one
// left in the store is removed.
func TestKilledWhileAFileIsKept(t *testing.T) {
	everyStep(t, func(w *world, d *doom) {
		w.register("a", "b")
		for _, name := range []string{"x", "same"} {
			w.chat.set(name, answer{bytes: "x"})
		}
		first := w.write("a", attachment{Name: "x"})
		if err := w.deliver(w.healthy(), "a"); err != nil {
			w.Fatal(err)
		}
		second := w.write("b", attachment{Name: "same"})
		doomed := &faketime.Faulty{Server: w.Redis}
		ring := w.Open(doomed)
		doomed.Set(d.fate)
		w.store.gone = d.gone
		k := keep.New(keep.Config{}, keep.Options{Ring: ring, Store: w.store, Checkers: w.checkers(), Log: faketime.Log(w)})
		_ = w.deliver(k, "b")
		synctest.Wait()
		w.store.gone = nil
		w.whole()
		if err := w.deliver(w.healthy(), "b"); err != nil {
			w.Error(err)
		}
		time.Sleep(25 * time.Hour)
		c := w.collector(0)
		if _, err := c.Compare(w.Context(), 24*time.Hour); err != nil {
			w.Error(err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := c.Turn(w.Context()); err != nil {
			w.Error(err)
		}
		w.kept("a", first, 0, "x")
		w.kept("b", second, 0, "x")
		if n := w.store.count(); n != 1 {
			w.Errorf("the store has %d objects", n)
		}
		totals, err := w.Ring.Files().Totals(w.Context())
		if err != nil || totals.Condemned.Files != 0 || totals.Objects.Files != 1 || totals.Kept.Files != 2 {
			w.Errorf("%+v, %v", totals, err)
		}
	})
}

// A collector may die at any step, and equal bytes may be kept again meanwhile: no row is ever
// without its bytes, and in the end nothing is left of what has gone.
func TestKilledWhileItCollects(t *testing.T) {
	everyStep(t, func(w *world, d *doom) {
		w.register("a", "b")
		w.chat.set("x", answer{bytes: "x"})
		w.write("a", attachment{Name: "x"})
		if err := w.deliver(w.healthy(), "a"); err != nil {
			w.Fatal(err)
		}
		w.forget()
		time.Sleep(2 * time.Hour)
		doomed := &faketime.Faulty{Server: w.Redis}
		c := w.collector(time.Hour)
		c.Ring = w.Open(doomed)
		doomed.Set(d.fate)
		w.store.gone = func(step, name string) error {
			w.store.mu.Unlock()
			w.unused(name)
			w.store.mu.Lock()
			return d.gone(step, name)
		}
		_, _ = c.Turn(w.Context())
		time.Sleep(2 * time.Minute)
		_, _ = c.Turn(w.Context())
		synctest.Wait()
		w.store.gone = nil
		w.whole()
		id := w.write("b", attachment{Name: "x"})
		if err := w.deliver(w.healthy(), "b"); err != nil {
			w.Error(err)
		}
		for range 2 {
			if _, err := w.collector(time.Hour).Turn(w.Context()); err != nil {
				w.Error(err)
			}
			w.kept("b", id, 0, "x")
			time.Sleep(2 * time.Minute)
		}
		if n := w.store.count(); n != 1 {
			w.Errorf("the store has %d objects", n)
		}
		w.forget()
		time.Sleep(2 * time.Hour)
		w.collected(w.collector(time.Hour), 1, 1)
		w.empty()
	})
}

// unused expects that no row has an object that is about to be removed.
func (w *world) unused(name string) {
	if name == "" {
		return
	}
	_ = w.Ring.Files().Walk(context.Background(), func(rows []circulate.File) error {
		for _, row := range rows {
			if row.Object == name {
				w.Errorf("%s is removed while %s/%s has it", name, row.Account, row.Of)
			}
		}
		return nil
	})
}

// Young objects that no row has are left alone: somebody may be about to keep them. One that was
// condemned meanwhile is not kept.
func TestOrphans(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		w.chat.set("x", answer{bytes: "x"})
		id := w.write("a", attachment{Name: "x"})
		slow := &faketime.Faulty{Server: w.Redis}
		ring := w.Open(slow)
		w.store.gone = func(step, _ string) error {
			if step != "stored" {
				return nil
			}
			w.store.mu.Unlock()
			defer w.store.mu.Lock()
			c := w.collector(0)
			if n, err := c.Compare(w.Context(), 24*time.Hour); n != 0 || err != nil {
				w.Errorf("%d orphans, %v", n, err)
			}
			w.store.gone = nil
			time.Sleep(25 * time.Hour) // the process is frozen
			if n, err := c.Compare(w.Context(), 24*time.Hour); n != 1 || err != nil {
				w.Errorf("%d orphans, %v", n, err)
			}
			time.Sleep(2 * time.Minute)
			w.collected(c, 0, 1)
			return nil
		}
		k := keep.New(keep.Config{}, keep.Options{Ring: ring, Store: w.store, Checkers: w.checkers(), Log: faketime.Log(w)})
		for try := range 3 {
			if err := w.deliver(k, "a"); (err == nil) != (try > 0) {
				w.Errorf("try %d: %v", try, err)
			}
		}
		w.kept("a", id, 0, "x")
		w.whole()
	})
}
