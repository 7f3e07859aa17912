package keep_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/files/keep"
)

// While no file can be kept, a file at a time is asked for at most, whichever shards they are in, and
// all are fetched afterwards.
func TestNobodyIsAskedInVain(t *testing.T) {
	const quota = 4000 // bytes; each file has ten
	for _, c := range []struct {
		name  string
		found int
		begin func(w *world)
		end   func(w *world)
		most  int // requests in vain
	}{
		{"the store is away", 100, func(w *world) { w.store.fails(errAway) }, func(w *world) { w.store.fails(nil) }, 0},
		{"the disk is full", 400, func(w *world) { w.store.holds(1, false) }, func(w *world) { w.store.holds(0, false) }, 10},
		{"the disk says that it is full", 100, func(w *world) { w.store.holds(1, true) }, func(w *world) { w.store.holds(0, false) }, 0},
		{"the disk has room for half a file", 100, func(w *world) { w.store.holds(5, true) }, func(w *world) { w.store.holds(0, false) }, 4},
		{"the quota is nearly reached", 400, func(w *world) { w.fill(quota - 5) }, func(w *world) { w.unfill() }, 10},
		{"an account's quota is nearly reached", 100, func(w *world) { w.fill(quota - 5) }, func(w *world) { w.unfill() }, 10},
		{"the quota is reached", 100, func(w *world) { w.fill(quota) }, func(w *world) { w.unfill() }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				w.register("a", "b", "c", "d")
				bounds := circulate.FileBounds{All: quota}
				account := func(i int) string { return string("abcd"[i%4]) }
				if strings.Contains(c.name, "account") {
					bounds = circulate.FileBounds{Account: quota}
					account = func(int) string { return "a" }
				}
				_, stop := w.keeper(keep.Config{AtOnce: 4, Bounds: bounds}, nil)
				c.begin(w)
				sized := int64(0)
				if strings.Contains(c.name, "says") {
					sized = 10
				}
				var ids []string
				for i := range c.found {
					name := fmt.Sprintf("file%06d", i)
					w.chat.set(name, answer{bytes: name})
					ids = append(ids, w.write(account(i), attachment{Name: name, Size: sized}))
					if i%(c.found/4) == 0 {
						time.Sleep(time.Minute)
					}
				}
				asked := w.chat.all()
				if asked > c.most {
					t.Errorf("%d requests in vain, of %d files", asked, c.found)
				}
				c.end(w)
				time.Sleep(6 * time.Minute)
				for i, id := range ids {
					w.kept(account(i), id, 0, fmt.Sprintf("file%06d", i))
				}
				if again := w.chat.all() - asked; again > c.found+2 { // a last probe
					t.Errorf("%d requests for %d files afterwards", again, c.found)
				}
				stop()
			})
		})
	}
}

// fill fills the quota with a file of so many bytes, whose row nothing ends.
func (w *world) fill(bytes int) {
	w.Helper()
	w.chat.set("filling", answer{bytes: strings.Repeat("x", bytes)})
	id := w.write("a", attachment{Name: "filling"})
	time.Sleep(time.Second)
	w.kept("a", id, 0, strings.Repeat("x", bytes))
	w.chat.forget()
}

func (w *world) unfill() {
	w.Helper()
	if _, _, err := w.Ring.Files().End(w.Context(), "", w.file("a", "m1", 0)); err != nil {
		w.Fatal(err)
	}
	time.Sleep(2 * time.Minute)
	if _, err := w.collector(0).Turn(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// An account's quota stops that account alone, whatever its name is.
func TestAnAccountsQuotaStopsNobodyElse(t *testing.T) {
	const quota = 100
	inFakeTime(t, func(w *world) {
		w.register("files", "b")
		_, stop := w.keeper(keep.Config{Bounds: circulate.FileBounds{Account: quota}}, nil)
		most := strings.Repeat("x", quota-5)
		w.chat.set("most", answer{bytes: most})
		first := w.write("files", attachment{Name: "most"})
		time.Sleep(time.Second)
		w.kept("files", first, 0, most)
		w.chat.set("more", answer{bytes: "0123456789"})
		w.write("files", attachment{Name: "more"})
		time.Sleep(time.Second)
		w.chat.set("other", answer{bytes: "123"})
		other := w.write("b", attachment{Name: "other"})
		time.Sleep(time.Second)
		w.kept("b", other, 0, "123")
		stop()
	})
}

// When the store is back, a file that is about to be forgotten is fetched, although many wait whose end is
// past, and of which nobody can have anything any more.
func TestAFileThatEndsSoonAfterTheStoreIsBack(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		_, stop := w.keeper(keep.Config{}, nil)
		w.store.fails(errAway)
		back := time.Now().Add(5 * time.Minute)
		for range 20 {
			w.write("a", attachment{Name: "gone", Until: time.Now().Add(time.Minute)})
		}
		time.Sleep(time.Minute)
		w.chat.set("soon", answer{bytes: "123"})
		soon := w.write("a", attachment{Name: "soon", Until: back.Add(4 * time.Second)})
		time.Sleep(time.Until(back))
		w.store.fails(nil)
		time.Sleep(4 * time.Second)
		w.kept("a", soon, 0, "123")
		stop()
	})
}

// A file that does not fit waits alone, and nobody is asked for it. A smaller one is fetched meanwhile.
func TestALargeFileWaitsForRoomAlone(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a", "b")
		w.store.holds(50, true)
		k, stop := w.keeper(keep.Config{}, nil)
		w.chat.set("large", answer{bytes: strings.Repeat("x", 100)})
		large := w.write("a", attachment{Name: "large", Size: 100, Until: time.Now().Add(3 * time.Hour)})
		time.Sleep(time.Minute)
		if s := k.Standing(); s.StoreSince.IsZero() || !strings.Contains(s.StoreWhy, "no room") || s.Waiting != 1 {
			t.Errorf("%+v", s)
		}
		for i := range 4 {
			name := fmt.Sprint("small", i)
			w.chat.set(name, answer{bytes: name})
			id := w.write("a", attachment{Name: name, Size: 6})
			time.Sleep(5 * time.Second)
			w.kept("a", id, 0, name)
		}
		if n := w.chat.calls("large"); n != 0 {
			t.Errorf("asked %d times in vain", n)
		}
		w.store.holds(200, true)
		time.Sleep(2 * time.Minute)
		w.kept("a", large, 0, strings.Repeat("x", 100))
		stop()
	})
}

// A file that would be forgotten while it waits behind others has its chance before, and is lost with
// the reason if that fails, too.
func TestALastChanceBehindAFullQuota(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a", "b")
		k, stop := w.keeper(keep.Config{Bounds: circulate.FileBounds{Account: 100}}, nil)
		w.chat.set("first", answer{bytes: strings.Repeat("x", 95)})
		w.chat.set("large", answer{bytes: "123456"})
		w.chat.set("small", answer{bytes: "123"})
		w.write("a", attachment{Name: "first"})
		time.Sleep(time.Second)
		large := w.write("a", attachment{Name: "large", Until: time.Now().Add(10 * time.Minute)})
		time.Sleep(time.Second)
		small := w.write("a", attachment{Name: "small", Until: time.Now().Add(10 * time.Second)})
		time.Sleep(20 * time.Second)
		w.kept("a", small, 0, "123")
		if s := k.Standing(); s.Waiting != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(10 * time.Minute)
		w.lost("a", large, 0, "quota")
		if n := w.chat.calls("large"); n > 20 {
			t.Errorf("asked %d times in vain", n)
		}
		stop()
	})
}

// What somebody has read makes room for a file of unknown size.
func TestRoomIsMadeForAFileOfUnknownSize(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		_, stop := w.keeper(keep.Config{Bounds: circulate.FileBounds{All: 100}, MakeRoom: true}, nil)
		w.chat.set("first", answer{bytes: strings.Repeat("x", 95)})
		w.chat.set("second", answer{bytes: "1234567890"})
		first := w.write("a", attachment{Name: "first"})
		time.Sleep(time.Second)
		if _, err := w.Ring.Files().Look(w.Context(), true, w.file("a", first, 0).ID); err != nil {
			t.Fatal(err)
		}
		second := w.write("a", attachment{Name: "second"})
		time.Sleep(time.Minute)
		w.lost("a", first, 0, "to make room")
		w.kept("a", second, 0, "1234567890")
		stop()
	})
}
