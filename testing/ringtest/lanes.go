package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

func (f *fixture) registerIn(p circulate.Priority, ids ...string) {
	f.Helper()
	for _, id := range ids {
		f.upsert(circulate.Created, circulate.Registration{ID: id, Record: []byte("{}"), Priority: p})
	}
}

// lanes has more accounts waiting in each lane than can be taken. Urgent ones
// come first, and of any sixteen turns one is low's and three are normal's, in
// batches of every size.
func lanes(f *fixture) {
	const each = 64
	for i := range each {
		f.registerIn(circulate.Low, fmt.Sprintf("l%02d", i))
		f.registerIn(circulate.Normal, fmt.Sprintf("n%02d", i))
		f.registerIn(circulate.Urgent, fmt.Sprintf("u%02d", i))
	}
	var order []byte
	last := map[byte]string{}
	for n := 1; len(order) < each; n = n%7 + 1 {
		for _, c := range f.batch(alice, n).Claims {
			lane := c.ID[0]
			if c.ID <= last[lane] {
				f.Errorf("%s after %s", c.ID, last[lane])
			}
			last[lane] = c.ID
			order = append(order, lane)
		}
	}
	if order[0] != 'u' {
		f.Errorf("the first is of lane %c", order[0])
	}
	for from := range order[:len(order)-16] {
		turns := string(order[from : from+16])
		if l, n := strings.Count(turns, "l"), strings.Count(turns, "n"); l != 1 || n != 3 {
			f.Fatalf("of sixteen turns %d are low's and %d normal's: %s", l, n, order)
		}
	}
	// What is left is all claimed, the low one last.
	rest := f.batch(alice, 1000).Claims
	if len(rest)+len(order) != 3*each || rest[len(rest)-1].ID[0] != 'l' {
		f.Errorf("%d and %d were claimed, the last is %s", len(order), len(rest), rest[len(rest)-1].ID)
	}
	f.conserved()
}

// lanesOfDue: what is due is claimed in one order, whether it comes by message_queue or at once,
// and after what waits.
func lanesOfDue(f *fixture) {
	f.registerIn(circulate.Low, "l1", "l2")
	f.registerIn(circulate.Normal, "n1", "n2", "n3")
	f.registerIn(circulate.Urgent, "u1", "u2")
	later := func(claims []*circulate.Claim) {
		f.Helper()
		for _, c := range claims {
			f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c)})
		}
	}
	due := func(ids ...string) {
		f.Helper()
		for i, id := range ids {
			f.do("ZADD", f.key("schedule"), f.now().Add(time.Duration(i-8)*time.Second).UnixMilli(), id) // not yet late
		}
	}
	later(f.claim(alice, "u1", "u2", "n1", "n2", "n3", "l1", "l2"))
	for _, lane := range [][]string{{"l2", "l1"}, {"n3", "n1", "n2"}, {"u2", "u1"}} {
		due(lane...)
		later(f.claim(alice, lane...))
	}
	f.do("DEL", f.key("turns")) // else it may be another lane's turn
	due("n2", "l1", "u2", "n1", "u1", "l2")
	later(f.claim(alice, "u2", "u1", "n2", "n1", "l1", "l2"))

	due("n1")
	f.ret(circulate.Written, circulate.Return{Claim: f.claim(alice, "n1")[0]})
	due("n3", "n2")
	f.placed("n1", circulate.Waiting)
	later(f.claim(alice, "n1", "n3", "n2"))

	due("n2", "nobody", "n1")
	later(f.claim(alice, "n2", "n1"))
	if n := f.number("EXISTS", f.key("message_queue")); n != 0 {
		f.Error("something is left in message_queue")
	}

	due("n3", "n1")
	f.do("SET", f.key("processing_list"), "spoilt")
	later(f.claim(alice, "n3", "n1"))
	f.conserved()
}

// lanesOfSteps follows an account of each lane through the steps that put it back. A
// nudged account goes to the urgent lane once.
func lanesOfSteps(f *fixture) {
	ctx := context.Background()
	f.registerIn(circulate.Low, "l")
	f.registerIn(circulate.Normal, "n", "o")
	f.registerIn(circulate.Urgent, "u")
	c := f.claim(alice, "u", "n", "o", "l")
	if n, err := f.ring.Release(ctx, 0, c); n != 4 || err != nil {
		f.Fatal(n, err)
	}
	f.waiting(1, 2, 1)
	c = f.claim(alice, "u", "n", "o", "l")
	for i := range c {
		f.ret(circulate.Written, circulate.Return{Claim: c[i]})
	}
	f.waiting(1, 2, 1)
	c = f.claim(alice, "u", "n", "o", "l")
	for i := range c {
		f.ret(circulate.Written, circulate.Return{Claim: c[i], Due: soon(c[i])})
	}
	if err := f.ring.Account("l").Nudge(ctx, circulate.Nudge{}); err != nil {
		f.Fatal(err)
	}
	if v := f.look("l"); v.Rule != circulate.RuleNudged || v.Priority != circulate.Low {
		f.Errorf("rule %c priority %c of a nudged account", v.Rule, v.Priority)
	}
	nudged := f.claim(alice, "l")[0]
	if nudged.Rule != circulate.RuleNudged {
		f.Errorf("rule %c of the claim of a nudged account", nudged.Rule)
	}
	if n := f.number("EXISTS", f.key("turns")); n != 1 {
		f.Error("a nudged account went through the lane of its own")
	}
	if err := f.ring.Account("l").Nudge(ctx, circulate.Nudge{}); err != nil {
		f.Fatal(err)
	}
	f.ret(circulate.Written, circulate.Return{Claim: nudged, Due: soon(nudged), Rule: 'c'})
	f.waiting(1, 0, 0)
	c = f.claim(alice, "l")
	f.ret(circulate.Written, circulate.Return{Claim: c[0], Rule: 'c'})
	f.waiting(0, 0, 1)
	if v := f.look("l"); v.Rule != 'c' {
		f.Errorf("rule %c, want c", v.Rule)
	}
	// A change of the record may change the lane.
	f.upsert(circulate.Updated, circulate.Registration{ID: "l", Record: []byte("other"), Priority: circulate.Urgent})
	if b := f.batch(alice, 10); len(b.Claims) != 1 || b.Void != 1 {
		f.Fatalf("claimed %+v", b)
	}
	if v := f.look("l"); v.Priority != circulate.Urgent {
		f.Errorf("priority %c", v.Priority)
	}
	f.conserved()
}

// waiting expects so many entries in the lanes, urgent first.
func (f *fixture) waiting(want ...int) {
	f.Helper()
	var got []int
	for _, lane := range []string{"message_queue:urgent", "message_queue", "message_queue:low"} {
		got = append(got, f.number("LLEN", f.key(lane)))
	}
	if !slices.Equal(got, want) {
		f.Errorf("waiting %v, want %v", got, want)
	}
	count := f.counted()
	if count.Waiting != want[0]+want[1]+want[2] || count.Urgent != want[0] || count.Low != want[2] {
		f.Errorf("counted %+v, want %v", count, want)
	}
}

func history(f *fixture) {
	now, err := f.ring.Now(context.Background(), 0)
	if err != nil {
		f.Fatal(err)
	}
	f.register("a")
	fresh := func(at time.Time) bool { return at.Sub(now) > -2*time.Second && at.Sub(now) < time.Minute }
	if v := f.look("a"); !fresh(v.History.Succeeded) || len(v.History.Marks) != 0 || v.Rule != circulate.RuleRegistered {
		f.Errorf("%+v of a new account", v)
	}
	// As if it had been registered long ago.
	f.do("HSET", f.key("tickets"), "a", f.text("HGET", f.key("tickets"), "a")[:16]+"00000000--------")
	for i, mark := range []circulate.Mark{'a', 'b', 0, 'c', 'd', 'e', 'f', 'g', 'h', 'i'} {
		c := f.claim(alice, "a")[0]
		f.ret(circulate.Written, circulate.Return{Claim: c, Mark: mark, Rule: 'x', Error: "error " + string(mark), Cursor: []byte(strings.Repeat("c", i))})
	}
	v := f.look("a")
	// The eighth mark stays free for an account that no check has succeeded with.
	if string(v.History.Marks) != "ihgfedc" || v.History.Succeeded.Unix() != 0 || v.Rule != 'x' {
		f.Errorf("history %q %v rule %c", v.History.Marks, v.History.Succeeded, v.Rule)
	}
	if v.Error != "error i" || !fresh(v.ErrorAt) {
		f.Errorf("error %q at %v", v.Error, v.ErrorAt)
	}
	c := f.claim(alice, "a")[0]
	if string(c.Cursor) != "ccccccccc" || c.Rule != 'x' {
		f.Errorf("cursor %q rule %c", c.Cursor, c.Rule)
	}
	if err := f.ring.Progress(context.Background(), c, circulate.Page{Cursor: []byte("p")}); err != nil {
		f.Fatal(err)
	}
	f.ret(circulate.Written, circulate.Return{Claim: c, Error: strings.Repeat("é", 100), Mark: 't'})
	if v := f.look("a"); v.Error != strings.Repeat("é", 58)+"…" || v.Rule != 'x' {
		f.Errorf("error %q rule %c", v.Error, v.Rule)
	}
	f.ret(circulate.Written, circulate.Return{Claim: f.claim(alice, "a")[0], Mark: circulate.MarkOK})
	v = f.look("a")
	if string(v.History.Marks) != "+tihgfed" || !fresh(v.History.Succeeded) || v.Error != "" {
		f.Errorf("history %q %v error %q after a success", v.History.Marks, v.History.Succeeded, v.Error)
	}
	for _, mark := range "jklmnopq" {
		f.ret(circulate.Written, circulate.Return{Claim: f.claim(alice, "a")[0], Mark: circulate.Mark(mark)})
	}
	if v := f.look("a"); string(v.History.Marks) != "qponmlkj" {
		f.Errorf("history %q long after a success", v.History.Marks)
	}
	// A change of the record keeps it.
	f.upsert(circulate.Updated, circulate.Registration{ID: "a", Record: []byte("other")})
	if v := f.look("a"); string(v.History.Marks) != "qponmlkj" {
		f.Errorf("history %q after a change", v.History.Marks)
	}
}

func probe(f *fixture) {
	ctx := context.Background()
	f.register("a", "b")
	for _, c := range f.claim(alice, "a", "b") {
		f.ret(circulate.Written, circulate.Return{Claim: c, Failures: 16, State: "r3@1", Park: "retry budget: 16", Mark: 't', Error: "timeout"})
	}
	outcomes, err := f.ring.Probe(ctx, 0, []circulate.Resumption{{ID: "a"}, {ID: "none"}})
	if err != nil || string(outcomes) != "rn" {
		f.Fatalf("%q, %v", outcomes, err)
	}
	c := f.claim(alice, "a")[0]
	if c.Failures != 16 || c.State != "r3@1" || c.Rule != circulate.RuleProbed {
		f.Errorf("%d failures, state %q, rule %c of one that is probed", c.Failures, c.State, c.Rule)
	}
	f.placed("a", circulate.Claimed)
	outcomes, err = f.ring.ResumeAll(ctx, 0, []circulate.Resumption{{ID: "a"}, {ID: "b"}})
	if err != nil || string(outcomes) != "cr" {
		f.Fatalf("%q, %v", outcomes, err)
	}
	c = f.claim(alice, "b")[0]
	if c.Failures != 0 || c.State != "" || c.Rule != circulate.RuleResumed {
		f.Errorf("%d failures, state %q, rule %c of one that was resumed", c.Failures, c.State, c.Rule)
	}
	f.conserved()
}
