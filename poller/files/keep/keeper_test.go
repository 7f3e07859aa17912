package keep_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/files/keep"
)

// What a message carries is kept, equal bytes once, and a message without files costs nothing.
func TestFilesAreKept(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a", "b")
		w.chat.set("cat.png", answer{bytes: "meow"})
		w.chat.set("dog.png", answer{bytes: "woof"})
		k, stop := w.keeper(keep.Config{}, nil)
		first := w.write("a", attachment{Name: "cat.png"}, attachment{Name: "../../dog.png"})
		w.chat.set("same.png", answer{bytes: "meow"})
		none := w.write("a")
		second := w.write("b", attachment{Name: "same.png"})
		w.write("b", attachment{Name: "panic"})
		time.Sleep(5 * time.Second)
		w.kept("a", first, 0, "meow")
		w.lost("a", first, 1, "no such file") // CleanFile leaves its name without folders, which the kind does not know
		w.kept("b", second, 0, "meow")
		if row := w.file("a", none, 0); row.ID != "" {
			t.Errorf("%+v", row)
		}
		row := w.file("a", first, 0)
		if row.Name != "cat.png" || row.Type != "text/plain" || row.Kind != "chat" || time.Since(row.Found) > 10*time.Second {
			t.Errorf("%+v", row)
		}
		if n := w.store.count(); n != 1 {
			t.Errorf("%d objects in the store", n)
		}
		if s := k.Standing(); s.Waiting != 0 || !s.StoreSince.IsZero() || !s.FullSince.IsZero() {
			t.Errorf("%+v", s)
		}
		stop()
	})
}

// A file that cannot be fetched is tried until its end, and once more after it. Then its message is a
// dead letter, and the list says why. Other messages of the account do not wait.
func TestAFileIsTriedUntilItsEnd(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		begin := time.Now()
		w.chat.set("late", answer{err: &poller.CheckError{Code: "http_404", Message: "it is not there yet"}})
		w.chat.set("early", answer{err: &poller.CheckError{Code: "http_404", Message: "it is not there yet"}})
		w.chat.set("other", answer{bytes: "here"})
		k, stop := w.keeper(keep.Config{}, nil)
		late := w.write("a", attachment{Name: "late", Until: begin.Add(8 * time.Minute)}, attachment{Name: "other"})
		early := w.write("a", attachment{Name: "early"})
		other := w.write("a", attachment{Name: "other"})
		time.Sleep(10 * time.Second)
		w.kept("a", other, 0, "here")
		w.kept("a", late, 1, "here")
		if s := k.Standing(); s.Waiting != 2 || !s.Soonest.Equal(begin.Add(8*time.Minute)) {
			t.Errorf("%+v", s)
		}
		time.Sleep(4 * time.Minute)
		w.chat.set("early", answer{bytes: "at last"})
		time.Sleep(3 * time.Minute)
		w.kept("a", early, 0, "at last")
		if row := w.file("a", late, 0); row.ID != "" {
			t.Errorf("lost before its end: %+v", row)
		}
		time.Sleep(time.Minute)
		w.lost("a", late, 0, "not there yet")
		w.kept("a", late, 1, "here")
		if got := w.letters(); len(got) != 1 || !strings.HasPrefix(got[0], "files a/"+late+": file 0 is lost: ") {
			t.Errorf("dead letters %q", got)
		}
		if n := w.chat.calls("late"); n < 8 || n > 30 {
			t.Errorf("asked %d times in eight minutes", n)
		}
		stop()
	})
}

// A file that the third party has no more, or that is too large, is lost at once.
func TestAFileIsLostAtOnce(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		w.chat.set("large", answer{bytes: strings.Repeat("x", 11)})
		w.chat.set("claims", answer{bytes: "x", size: 11})
		w.chat.set("fits", answer{bytes: strings.Repeat("x", 10), size: 3})
		_, stop := w.keeper(keep.Config{Most: 10}, nil)
		gone, large := w.write("a", attachment{Name: "gone"}), w.write("a", attachment{Name: "large"})
		claims, fits := w.write("a", attachment{Name: "claims"}), w.write("a", attachment{Name: "fits"})
		nobody := w.write("nobody", attachment{Name: "fits"})
		time.Sleep(5 * time.Second)
		w.lost("a", gone, 0, "no such file")
		w.lost("a", large, 0, "more than 10 bytes")
		w.lost("a", claims, 0, "more than 10 bytes")
		w.kept("a", fits, 0, strings.Repeat("x", 10))
		w.lost("nobody", nobody, 0, "deregistered")
		if got := w.letters(); len(got) != 4 {
			t.Errorf("dead letters %q", got)
		}
		if n := w.chat.calls("gone"); n != 1 {
			t.Errorf("asked %d times", n)
		}
		stop()
	})
}

// While the store is away nothing is fetched, and all is fetched afterwards.
func TestTheStoreMayBeAway(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a", "b")
		k, stop := w.keeper(keep.Config{}, nil)
		w.store.fails(errAway)
		var ids []string
		for i := range 40 {
			name := fmt.Sprint("file ", i)
			w.chat.set(name, answer{bytes: name})
			ids = append(ids, w.write([]string{"a", "b"}[i%2], attachment{Name: name, Until: time.Now().Add(2 * time.Hour)}))
		}
		time.Sleep(5 * time.Minute)
		if s := k.Standing(); time.Since(s.StoreSince) < 4*time.Minute || !strings.Contains(s.StoreWhy, "away") || s.Waiting == 0 {
			t.Errorf("%+v", s)
		}
		asked := 0
		for i := range ids {
			asked += w.chat.calls(fmt.Sprint("file ", i))
		}
		if asked > 100 { // a message at a time finds out whether it is back
			t.Errorf("%d files were fetched in vain", asked)
		}
		w.store.fails(nil)
		time.Sleep(time.Minute)
		for i, id := range ids {
			w.kept([]string{"a", "b"}[i%2], id, 0, fmt.Sprint("file ", i))
		}
		if s := k.Standing(); !s.StoreSince.IsZero() || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		stop()
	})
}

// A host that cannot be reached is asked by one file at a time.
func TestAHostThatIsDownIsAskedRarely(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		down := answer{err: &poller.CheckError{Code: "connect", Message: "connection refused", Network: true}}
		_, stop := w.keeper(keep.Config{}, nil)
		for i := range 50 {
			w.chat.set(fmt.Sprint(i), down)
			w.write("a", attachment{Name: fmt.Sprint(i)})
		}
		time.Sleep(8 * time.Minute)
		asked := 0
		for i := range 50 {
			asked += w.chat.calls(fmt.Sprint(i))
			w.chat.set(fmt.Sprint(i), answer{bytes: "back"})
		}
		if asked > 12 {
			t.Errorf("asked %d times in eight minutes", asked)
		}
		time.Sleep(6 * time.Minute)
		for i := range 50 {
			w.kept("a", fmt.Sprint("m", i+1), 0, "back")
		}
		stop()
	})
}

// So many files are fetched at once, and of one account half as many.
func TestAnAccountHasItsShareOfThePlaces(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a", "b")
		_, stop := w.keeper(keep.Config{AtOnce: 4}, nil)
		for i := range 40 {
			name := fmt.Sprint(i)
			w.chat.set(name, answer{bytes: name, slow: time.Second})
			w.write([]string{"a", "a", "a", "b"}[i%4], attachment{Name: name})
		}
		time.Sleep(2 * time.Minute)
		w.chat.mu.Lock()
		defer w.chat.mu.Unlock()
		if w.chat.most[""] != 4 || w.chat.most["a"] != 2 || w.chat.most["b"] > 2 {
			t.Errorf("at once %v", w.chat.most)
		}
		for i := range 40 {
			if w.chat.asked[fmt.Sprint(i)] != 1 {
				t.Errorf("file %d was fetched %d times", i, w.chat.asked[fmt.Sprint(i)])
			}
		}
		stop()
	})
}

// When a quota is reached, fetching stops, and goes on when there is room.
func TestAQuotaStopsFetching(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a", "b")
		k, stop := w.keeper(keep.Config{Bounds: circulate.FileBounds{All: 20, Account: 15}}, nil)
		ten := strings.Repeat("x", 9)
		for i := range 4 {
			w.chat.set(fmt.Sprint(i), answer{bytes: ten + fmt.Sprint(i)})
		}
		first := w.write("a", attachment{Name: "0"})
		time.Sleep(time.Second)
		own := w.write("a", attachment{Name: "1", Until: time.Now().Add(4 * time.Minute)})
		time.Sleep(time.Second)
		if s := k.Standing(); !s.FullSince.IsZero() || s.Waiting != 1 {
			t.Errorf("of an account's quota: %+v", s)
		}
		second := w.write("b", attachment{Name: "2"})
		time.Sleep(time.Second)
		w.register("c0")
		third := w.write("c0", attachment{Name: "3"})
		time.Sleep(2 * time.Minute)
		w.kept("a", first, 0, ten+"0")
		w.kept("b", second, 0, ten+"2")
		if s := k.Standing(); s.FullSince.IsZero() || s.Waiting == 0 {
			t.Errorf("%+v", s)
		}
		if row := w.file("c0", third, 0); row.ID != "" {
			t.Errorf("%+v", row)
		}
		time.Sleep(5 * time.Minute)
		w.lost("a", own, 0, "quota")
		row := w.file("b", second, 0)
		_, names, err := w.Ring.Files().End(w.Context(), "", row)
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := w.collector(0).Turn(w.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Minute)
		w.kept("c0", third, 0, ten+"3")
		if s := k.Standing(); !s.FullSince.IsZero() {
			t.Errorf("%+v", s)
		}
		stop()
	})
}

// With MakeRoom, what somebody has read goes first, the oldest first, and nothing else does.
func TestAQuotaMakesRoom(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		_, stop := w.keeper(keep.Config{Bounds: circulate.FileBounds{All: 30}, MakeRoom: true}, nil)
		var ids []string
		for i := range 5 {
			w.chat.set(fmt.Sprint(i), answer{bytes: strings.Repeat("x", 9) + fmt.Sprint(i)})
		}
		for i := range 3 {
			ids = append(ids, w.write("a", attachment{Name: fmt.Sprint(i)}))
			time.Sleep(time.Second)
		}
		if _, err := w.Ring.Files().Look(w.Context(), true, w.file("a", ids[1], 0).ID); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, w.write("a", attachment{Name: "3"}))
		time.Sleep(time.Minute)
		w.lost("a", ids[1], 0, "to make room")
		for _, i := range []int{0, 2, 3} {
			w.kept("a", ids[i], 0, strings.Repeat("x", 9)+fmt.Sprint(i))
		}
		ids = append(ids, w.write("a", attachment{Name: "4"}))
		time.Sleep(2 * time.Minute)
		if row := w.file("a", ids[4], 0); row.ID != "" {
			t.Errorf("%+v", row)
		}
		stop()
	})
}

// A file that the message names by its hash must have it.
func TestBytesThatAreOthersAreNotKept(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		w.chat.set("x", answer{bytes: "other"})
		_, stop := w.keeper(keep.Config{}, nil)
		id := w.write("a", attachment{Name: "x", Sum: strings.Repeat("0", 64), Until: time.Now().Add(time.Minute)})
		time.Sleep(2 * time.Minute)
		w.lost("a", id, 0, "not those that the message names")
		if n := w.store.count(); n != 0 {
			t.Errorf("the store has %d objects", n)
		}
		stop()
	})
}

// What is kept on demand is fetched when somebody asks, and never by the group.
func TestFilesOnDemand(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		w.chat.set("x", answer{bytes: "here"})
		k, stop := w.keeper(keep.Config{Policies: map[string]keep.Policy{"chat": keep.Demand}}, nil)
		id := w.write("a", attachment{Name: "x"}, attachment{Name: "y"})
		time.Sleep(time.Minute)
		if n := w.chat.calls("x"); n != 0 {
			t.Errorf("asked %d times", n)
		}
		found := w.Found("a")[0]
		for place, carried := range w.checkers().Files("chat", &found.Message) {
			_, err := k.Fetch(w.Context(), keep.Wanted{Account: "a", Kind: "chat", Message: &found.Message, Place: place, File: carried, Found: time.Now()})
			var lost *keep.Lost
			if errors.As(err, &lost) != (place == 1) {
				t.Error(place, err)
			}
		}
		w.kept("a", id, 0, "here")
		w.lost("a", id, 1, "no such file")
		stop()
	})
}

// A dead letter that is replayed has its files fetched again, and a message that is found again
// keeps them.
func TestFilesOfAMessageThatComesAgain(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		_, stop := w.keeper(keep.Config{}, nil)
		id := w.write("a", attachment{Name: "x"})
		time.Sleep(time.Minute)
		w.lost("a", id, 0, "no such file")
		w.chat.set("x", answer{bytes: "here"})
		w.again("a", id, attachment{Name: "x"})
		time.Sleep(time.Minute)
		w.kept("a", id, 0, "here")
		before := w.file("a", id, 0)
		time.Sleep(5 * time.Minute)
		w.again("a", id, attachment{Name: "x"})
		time.Sleep(time.Minute)
		row := w.file("a", id, 0)
		if row.Object != before.Object || row.Judged.Sub(before.Judged) < 5*time.Minute {
			t.Errorf("%+v, before %+v", row, before)
		}
		if n := w.chat.calls("x"); n != 2 {
			t.Errorf("asked %d times", n)
		}
		stop()
	})
}

// Each kind is in the metrics before its first file, and the metrics show how the keeper stands.
func TestMetrics(t *testing.T) {
	inFakeTime(t, func(w *world) {
		m := keep.NewMetrics(w.Metrics)
		k := keep.New(keep.Config{}, keep.Options{Ring: w.Ring, Store: w.store, Checkers: w.checkers(), Metrics: m})
		is := func(name, label string, want float64) {
			w.Helper()
			if got := w.Counted(name, label); got != want {
				w.Errorf("%s %s: %v, want %v", name, label, got, want)
			}
		}
		families, err := w.Metrics.Gather()
		if err != nil {
			w.Fatal(err)
		}
		shown := false
		for _, family := range families {
			shown = shown || family.GetName() == "rounds_files_fetched_total" && len(family.GetMetric()) == 3
		}
		if !shown {
			w.Error("the first lost file would not be seen")
		}
		w.register("a")
		w.chat.set("x", answer{bytes: "12345"})
		w.write("a", attachment{Name: "x"}, attachment{Name: "gone"})
		if err := w.deliver(k, "a"); err == nil {
			w.Error("nothing is lost")
		}
		w.write("a", attachment{Name: "later", Until: time.Now().Add(time.Hour)})
		w.store.fails(errAway)
		w.chat.set("later", answer{bytes: "x"})
		if err := w.deliver(k, "a"); err == nil {
			w.Error("the store is away")
		}
		time.Sleep(10 * time.Second)
		m.Show(k.Standing(), time.Now())
		is("rounds_files_fetched_total", "lost", 1)
		is("rounds_files_fetched_total", "kept", 1)
		is("rounds_files_fetched_total", "put_off", 1)
		is("rounds_files_fetched_bytes_total", "", 5)
		is("rounds_files_waiting", "", 1)
		is("rounds_files_expire_seconds", "", 3590)
		is("rounds_files_store_failing_seconds", "", 10)
		is("rounds_files_full_seconds", "", 0)
	})
}
