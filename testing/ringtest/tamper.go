package ringtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// badSequences are texts that ticket_seq may hold after somebody has changed it.
var badSequences = []string{"abc", "", "1.5", "-7", "9223372036854775807", "99999999999999"}

// sequenceSpoilt spoils ticket_seq before each step that takes tickets. Each step must be
// done all the same, and no account may be lost or get a ticket that it had before.
func sequenceSpoilt(f *fixture) {
	ctx := context.Background()
	had := make(map[string]bool)
	for _, bad := range badSequences {
		id := "a" + bad
		step := func(name string, do func() error) {
			f.Helper()
			f.do("SET", f.key("ticket_seq"), bad)
			if err := do(); err != nil {
				f.Errorf("ticket_seq %q, %s: %v", bad, name, err)
			}
			if held := f.text("HGET", f.key("tickets"), id); had[held[:14]] {
				f.Errorf("ticket_seq %q, %s: ticket %s twice", bad, name, held[:14])
			} else {
				had[held[:14]] = true
			}
			f.conserved()
		}
		var c *circulate.Claim
		claim := func() error { c = f.claim(alice, id)[0]; return nil }
		step("register", func() error { f.register(id); return nil })
		step("claim", claim)
		step("progress", func() error {
			return f.ring.Progress(ctx, c, circulate.Page{Kind: "feed", Messages: []circulate.Message{message("1")}})
		})
		step("release", func() error {
			if n, err := f.ring.Release(ctx, 0, []*circulate.Claim{c}); n != 1 || err != nil {
				return fmt.Errorf("released %d: %w", n, err)
			}
			return nil
		})
		step("claim", claim)
		step("return", func() error { f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c)}); return nil })
		step("park", func() error { _, err := f.ring.Park(ctx, 0, "gone", []string{id}); return err })
	}
}

// sequenceLost loses the sequence of a shard that issued more tickets than any mark made
// of the time could cover.
func sequenceLost(f *fixture) {
	f.register("a", "b")
	highest := func() string {
		return max(f.text("HGET", f.key("tickets"), "a")[:14], f.text("HGET", f.key("tickets"), "b")[:14])
	}
	turn := func() {
		for _, c := range f.claim(alice, "a", "b") {
			f.ret(circulate.Written, circulate.Return{Claim: c})
		}
	}
	// These are a thousand million tickets; the next one moves the mark with it.
	last := f.number("INCRBY", f.key("ticket_seq"), 1_000_000_000)
	f.do("INCRBY", f.key("ticket_seq"), 4095-last%4096)
	turn()
	for range 3 {
		before := highest()
		f.do("DEL", f.key("ticket_seq"))
		for _, c := range f.claim(alice, "a", "b") {
			if c.Ticket() <= before {
				f.Fatalf("ticket %s after %s", c.Ticket(), before)
			}
			f.ret(circulate.Written, circulate.Return{Claim: c})
		}
	}
}

// ticketsShared has accounts of one batch, which share a ticket, go different ways, beside
// accounts with tickets of their own, as older versions give to each. No account takes
// another's ticket for its own.
func ticketsShared(f *fixture) {
	f.register("a", "b", "c", "d", "e")
	items := make([]circulate.Return, 0, 6)
	add := func(claims ...*circulate.Claim) {
		for _, c := range claims {
			items = append(items, circulate.Return{Claim: c, Due: soon(c)})
		}
	}
	add(f.claim(alice, "a")...)
	add(f.claim(alice, "b")...)
	add(f.claim(alice, "c", "d", "e")...)
	if a, b := items[0].Claim.Ticket(), items[1].Claim.Ticket(); a == b {
		f.Errorf("two batches have the ticket %s", a)
	}
	for _, h := range f.oldest() {
		if h.Entry.ID == "c" {
			f.requeue(circulate.Moved, h)
		}
	}
	add(f.claim(bob, "c")...)
	f.ret(circulate.Written, circulate.Return{Claim: items[3].Claim})
	d := circulate.Entry{Stamp: items[3].Claim.Due, ID: "d"}
	d.Ticket, _ = strconv.ParseInt(items[4].Claim.Ticket(), 10, 64)
	f.do("RPUSH", f.key("message_queue"), d.String()) // void, although it is the ticket of e
	if b := f.batch(bob, 1); b.Void != 1 || len(b.Claims) != 0 {
		f.Errorf("of d's old entry: %d void, %d claims", b.Void, len(b.Claims))
	}
	f.conserved()
	outcomes, err := f.ring.Return(context.Background(), 0, items)
	if want := "[written written fenced fenced written written]"; err != nil || fmt.Sprint(outcomes) != want {
		f.Errorf("%v, %v, want %s", outcomes, err, want)
	}
	f.conserved()
	f.claim(bob, "d")
}

// mistypedBetween spoils one key before a claim that uses every lane, and before a return
// that writes to every key. Neither may have done a part of it when it finds the key: done
// again, once the key is set aside, the return still holds every claim.
func mistypedBetween(f *fixture) {
	ctx := context.Background()
	spoil := func(name string) {
		f.do("DEL", f.key(name))
		if name == "turns" {
			f.do("LPUSH", f.key(name), "spoilt")
		} else {
			f.do("SET", f.key(name), "spoilt")
		}
	}
	conserved := func(name string) {
		f.Helper()
		if is := f.text("TYPE", f.key(name)); is == "string" && name != "turns" {
			f.do("DEL", f.key(name)) // the step has nothing to do with it
		}
		f.conserved()
	}
	for _, name := range strings.Fields(`schedule message_queue message_queue:urgent message_queue:low message_queue:by_kind turns kinds changes
		cursors failures strikes nudges states set_aside errors parked park_reasons messages`) {
		ids := []string{"u " + name, "n " + name, "l " + name}
		for i, lane := range []circulate.Priority{circulate.Urgent, circulate.Normal, circulate.Low} {
			f.registerIn(lane, ids[i])
		}
		if name != "schedule" { // there they are
			spoil(name)
		}
		b, c := f.batch(alice, 10), make([]*circulate.Claim, 3)
		for i := range b.Claims {
			c[slices.Index(ids, b.Claims[i].ID)] = &b.Claims[i]
		}
		if len(b.Claims) != 3 {
			f.Fatalf("with %s spoilt, %d accounts could be claimed", name, len(b.Claims))
		}
		conserved(name)
		spoil(name)
		page := []circulate.Message{message(name)}
		outcomes, err := f.ring.Return(ctx, 0, []circulate.Return{
			{Claim: c[0], Messages: page, Cursor: []byte(strings.Repeat("c", 99)), State: "s"},
			{Claim: c[1], Due: soon(c[1]), Failures: 1, Error: "e", Mark: '?'},
			{Claim: c[2], Park: "gone"},
		})
		if err != nil || fmt.Sprint(outcomes) != "[written written written]" {
			f.Errorf("with %s spoilt: %v, %v", name, outcomes, err)
		}
		conserved(name)
		if n, err := f.ring.Deregister(ctx, 0, ids); err != nil || n != 3 {
			f.Errorf("deregistered %d, %v", n, err)
		}
	}
}

// repliesApart claims accounts whose ids and cursors look like what stands between them in
// a reply, and have every length.
func repliesApart(f *fixture) {
	cursors := make(map[string]string)
	var ids []string
	for i, text := range []string{"7", "7 7 ", "12|1234567890123|----------|x", "日本", strings.Repeat("9", 256), strings.Repeat("é", 128), " ", "54 32 "} {
		for k, cursor := range []string{"", "32 ", "\x00\xff\r\n", strings.Repeat("7", 44), "00000000000001un|", strings.Repeat("8 ", 40)} {
			id := string(rune('a'+k)) + text
			id = id[:min(len(id), 255)] + string(rune('a'+i))
			if i == 5 {
				id = text // as long as can be
			}
			if _, twice := cursors[id]; !twice {
				cursors[id], ids = cursor, append(ids, id)
			}
		}
	}
	slices.Sort(ids) // as what is due at once is claimed
	f.register(ids...)
	for range 3 {
		items := make([]circulate.Return, 0, len(ids))
		for _, c := range f.claim(alice, ids...) {
			items = append(items, circulate.Return{Claim: c, Cursor: []byte(cursors[c.ID]), Rule: circulate.RuleSlot})
		}
		outcomes, err := f.ring.Return(context.Background(), 0, items)
		if err != nil || slices.Contains(outcomes, circulate.Fenced) {
			f.Fatal(outcomes, err)
		}
	}
	for _, c := range f.claim(bob, ids...) {
		if string(c.Cursor) != cursors[c.ID] || c.Rule != circulate.RuleSlot || c.Due.IsZero() {
			f.Errorf("%q: cursor %q and rule %c, want %q", c.ID, c.Cursor, c.Rule, cursors[c.ID])
		}
	}
	f.conserved()
}

// streamExhausted has the stream refuse what a check found. The check is not written, and
// its account stays claimed.
func streamExhausted(f *fixture) {
	ctx := context.Background()
	f.register("a", "b")
	claims := f.claim(alice, "a", "b")
	f.do("XADD", f.key("messages"), "18446744073709551615-18446744073709551615", "account", "a")
	page := []circulate.Message{message("1")}
	items := []circulate.Return{{Claim: claims[0], Due: soon(claims[0])}, {Claim: claims[1], Due: soon(claims[1]), Messages: page, Cursor: []byte("next")}}
	if outcomes, err := f.ring.Return(ctx, 0, items); err == nil {
		f.Errorf("return: %v", outcomes)
	}
	if err := f.ring.Progress(ctx, claims[1], circulate.Page{Kind: "feed", Messages: page, Cursor: []byte("next")}); err == nil || errors.Is(err, circulate.ErrClaimLost) {
		f.Errorf("progress: %v", err)
	}
	f.placed("a", circulate.Claimed)
	f.placed("b", circulate.Claimed)
	f.do("DEL", f.key("messages"))
	for i := range items {
		f.ret(circulate.Written, items[i])
	}
	f.conserved()
}

func lookPastVoid(f *fixture) {
	f.register("a")
	f.claim(alice, "a")
	void := "00000000000001|0000000000001|" + bob + "|a"
	f.do("RPUSH", f.key("processing_list"), void)
	f.do("LPUSH", f.key("processing_list"), void)
	if v := f.look("a"); v.Place != circulate.Claimed || v.Replica != alice {
		f.Errorf("%s by %q, want claimed by %q", v.Place, v.Replica, alice)
	}
}

// leaseTokenTwice is a server that issued a token, lost that, and issued it to another
// consumer.
func leaseTokenTwice(f *fixture) {
	ctx := context.Background()
	f.group(circulate.StreamStart)
	mine := f.lease(alice)
	f.add("a/1")
	lease := f.text("HGET", f.key("leases"), crew)
	f.do("HSET", f.key("leases"), crew, strings.Replace(lease, alice, bob, 1))
	if b, err := group.Of(f.ring).Read(ctx, mine, 1, 1, false); !errors.Is(err, group.ErrLeaseLost) {
		f.Errorf("read %v under somebody else's lease: %v", b.Messages, err)
	}
	if held, err := group.Of(f.ring).Release(ctx, mine); held || err != nil {
		f.Errorf("release of somebody else's lease: %v, %v", held, err)
	}
}

// manySilent has more replicas forgotten at once than Lua can pass to a command.
func manySilent(f *fixture) {
	ctx := context.Background()
	const silent = 9000
	for from := 0; from < silent; from += 1000 {
		beats := []any{f.ns + ":replicas"}
		for i := range 1000 {
			beats = append(beats, 1, fmt.Sprintf("r%09d", from+i))
		}
		f.do("ZADD", beats...)
	}
	for range silent / 1000 {
		alive, err := f.ring.Heartbeat(ctx, alice, nil, time.Minute)
		if err != nil || !slices.Equal(alive, []string{alice}) {
			f.Fatalf("alive %q, %v", alive, err)
		}
	}
	if n := f.number("ZCARD", f.ns+":replicas"); n != 1 {
		f.Errorf("%d are remembered, want 1", n)
	}
}

// returnManyLost returns claims of a long list, most of which are not in it.
func returnManyLost(f *fixture) {
	ctx := context.Background()
	var ids []string
	for i := range 300 {
		ids = append(ids, fmt.Sprintf("%03d", i))
	}
	f.register(ids...)
	claims := f.claim(alice, ids...)
	for _, h := range f.oldest() { // the first hundred
		f.requeue(circulate.Moved, h)
	}
	items := make([]circulate.Return, 0, 20)
	for i := range 20 {
		items = append(items, circulate.Return{Claim: claims[95+i], Due: soon(claims[0])})
	}
	outcomes, err := f.ring.Return(ctx, 0, items)
	if err != nil {
		f.Fatal(err)
	}
	for i, o := range outcomes {
		if want := circulate.Outcome(min(1, (95+i)/100)); o != want {
			f.Errorf("%s: %v, want %v", ids[95+i], o, want)
		}
	}
	if n, err := f.ring.Release(ctx, 0, append(slices.Clone(claims[80:110]), claims[290])); n != 1 || err != nil {
		f.Errorf("released %d, want 1: %v", n, err)
	}
	f.conserved()
}
