package ringtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// mistypedKeys spoils one key after the other. The shard must go on, and the spoiled
// key's content must still be somewhere.
func mistypedKeys(f *fixture) {
	for _, name := range []string{"message_queue", "processing_list", "schedule", "cursors", "failures", "states", "strikes", "nudges", "parked", "park_reasons", "messages", "changes", "set_aside", "message_queue:urgent", "message_queue:low", "message_queue:by_kind", "kinds", "errors", "ticket_seq", "turns"} {
		id := "after-" + name
		f.do("DEL", f.key(name))
		if name == "ticket_seq" || name == "turns" {
			f.do("LPUSH", f.key(name), "spoilt")
		} else {
			f.do("SET", f.key(name), "spoilt")
		}
		f.register(id)
		var mine *circulate.Claim
		for range 3 {
			for _, c := range f.batch(alice, 100).Claims {
				if c.ID == id {
					mine = &c
				}
			}
		}
		if mine == nil {
			f.Fatalf("with %s spoilt, %s could not be claimed", name, id)
		}
		if _, _, err := f.ring.Oldest(context.Background(), 0, 0, 10); err != nil {
			f.Fatal(err)
		}
		f.ret(circulate.Written, circulate.Return{Claim: mine, Due: soon(mine), Messages: []circulate.Message{message("1")}, Cursor: []byte(strings.Repeat("c", 99)), Failures: 1, Error: "e"})
		if _, err := f.ring.Park(context.Background(), 0, "gone", []string{id}); err != nil {
			f.Fatal(err)
		}
		if aside := f.strings("KEYS", strings.NewReplacer("[", "?", "]", "?").Replace(f.key(name))+":set_aside:*"); len(aside) != 1 {
			f.Errorf("%s: set aside as %v, want one key", name, aside)
		}
	}
	if got := f.ring.SetAside(); got != 20 {
		f.Errorf("%d keys counted, want 20", got)
	}
}

func trimMessages(f *fixture) {
	ctx := context.Background()
	f.register("a")
	c := f.claim(alice, "a")[0]
	f.ret(circulate.Written, circulate.Return{Claim: c, Messages: []circulate.Message{message("1"), message("2"), message("3")}})
	trim := func(age time.Duration, dropped int, held bool) {
		f.Helper()
		n, h, err := f.ring.Streams().Trim(ctx, 0, f.now().Add(-age))
		if err != nil || n != dropped || h != held {
			f.Errorf("dropped %d, held back %v, %v; want %d and %v", n, h, err, dropped, held)
		}
	}
	trim(time.Hour, 0, false)
	stream := f.key("messages")
	f.do("XGROUP", "CREATE", stream, "g", "0")
	trim(-time.Hour, 0, true) // nothing is read
	f.do("XREADGROUP", "GROUP", "g", "c", "COUNT", 2, "STREAMS", stream, ">")
	trim(-time.Hour, 0, true) // nothing is acknowledged
	found := f.found()
	f.do("XACK", stream, "g", found[0].Position)
	trim(-time.Hour, 1, true)
	f.do("XACK", stream, "g", found[1].Position)
	trim(-time.Hour, 1, true) // the third is not read
	f.do("XREADGROUP", "GROUP", "g", "c", "STREAMS", stream, ">")
	f.do("XACK", stream, "g", found[2].Position)
	trim(-time.Hour, 1, false)
	if last, err := f.ring.Streams().Last(ctx, 0); err != nil || last != circulate.StreamStart {
		f.Errorf("last message %q, %v", last, err)
	}
}

// randomWalk does random steps of random actors, some of them stopped half way, and
// checks the law after each. ROUNDS_WALK_SEED repeats a walk.
func randomWalk(f *fixture) {
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("ROUNDS_WALK_SEED"), 10, 64); err == nil {
		seed = given
	}
	f.Logf("ROUNDS_WALK_SEED=%d", seed)
	w := &walk{fixture: f, random: rand.New(rand.NewPCG(seed, 0)), written: make(map[string]int)}
	for range 600 {
		w.step()
		f.conservedOnceClaimed()
	}
	// All that are left come to rest: nothing is lost or doubled.
	for _, h := range f.oldest() {
		w.requeueWhole(h)
	}
	for b := f.batch(alice, 100); len(b.Claims) > 0 || b.Void > 0; b = f.batch(alice, 100) {
		for i := range b.Claims {
			f.ret(circulate.Written, circulate.Return{Claim: &b.Claims[i], Due: b.Now.Add(time.Hour)})
		}
	}
	f.conserved()
	stream := make(map[string]int)
	for _, id := range f.messages() {
		stream[id]++
	}
	if fmt.Sprint(stream) != fmt.Sprint(w.written) {
		f.Errorf("the stream holds %v, written were %v", stream, w.written)
	}
}

type walk struct {
	*fixture
	random  *rand.Rand
	claims  []*circulate.Claim
	seen    []circulate.ClaimedEntry
	written map[string]int
	number  int
}

func (w *walk) step() {
	w.Helper()
	ctx := context.Background()
	id := string(rune('a' + w.random.IntN(6)))
	switch w.random.IntN(14) {
	case 0, 1:
		if _, err := w.ring.Upsert(ctx, 0, []circulate.Registration{{ID: id, Record: fmt.Appendf(nil, "%d", w.random.IntN(3))}}); err != nil {
			w.Fatal(err)
		}
	case 2:
		if w.random.IntN(3) == 0 {
			if _, err := w.ring.Deregister(ctx, 0, []string{id}); err != nil {
				w.Fatal(err)
			}
		}
	case 3, 4, 5:
		b := w.batch([]string{alice, bob}[w.random.IntN(2)], 1+w.random.IntN(3))
		for i := range b.Claims {
			w.claims = append(w.claims, &b.Claims[i])
		}
	case 6, 7, 8:
		w.giveBack()
	case 9:
		w.seen = append(w.seen, w.oldest()...)
	case 10, 11:
		if len(w.seen) > 0 {
			h := w.seen[w.random.IntN(len(w.seen))]
			switch w.random.IntN(4) {
			case 0:
				w.first(h) // and then it dies
			default:
				w.requeueWhole(h)
			}
		}
	case 12:
		if _, err := w.ring.Park(ctx, 0, circulate.ReasonPaused, []string{id}); err != nil {
			w.Fatal(err)
		}
	case 13:
		if err := w.ring.Account(id).Resume(ctx, circulate.Resumption{}); err != nil && !errors.Is(err, circulate.ErrNotRegistered) {
			w.Fatal(err)
		}
		if err := w.ring.Account(id).Nudge(ctx, circulate.Nudge{}); err != nil && !errors.Is(err, circulate.ErrNotRegistered) && !errors.Is(err, circulate.ErrParked) {
			w.Fatal(err)
		}
	}
}

func (w *walk) requeueWhole(h circulate.ClaimedEntry) {
	w.Helper()
	if _, _, err := w.ring.Requeue(context.Background(), 0, h); err != nil {
		w.Fatal(err)
	}
}

// giveBack returns, progresses or releases one of the claims that any actor ever had.
// Most of them are lost by then.
func (w *walk) giveBack() {
	w.Helper()
	if len(w.claims) == 0 {
		return
	}
	c := w.claims[w.random.IntN(len(w.claims))]
	w.number++
	m := message(strconv.Itoa(w.number))
	switch w.random.IntN(6) {
	case 0:
		if _, err := w.ring.Release(context.Background(), 0, []*circulate.Claim{c}); err != nil {
			w.Fatal(err)
		}
	case 1:
		err := w.ring.Progress(context.Background(), c, circulate.Page{Messages: []circulate.Message{m}})
		if err == nil {
			w.written[c.ID+"/"+m.ID]++
		} else if !errors.Is(err, circulate.ErrClaimLost) {
			w.Fatal(err)
		}
	default:
		item := circulate.Return{Claim: c, Messages: []circulate.Message{m}, Failures: w.random.IntN(2)}
		if w.random.IntN(2) == 0 {
			item.Due = soon(c)
		}
		if w.random.IntN(10) == 0 {
			item.Park = "gone"
		}
		outcomes, err := w.ring.Return(context.Background(), 0, []circulate.Return{item})
		if err != nil {
			w.Fatal(err)
		}
		if outcomes[0] == circulate.Written {
			w.written[c.ID+"/"+m.ID]++
		}
	}
}
