package ringtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/circulate/group"
)

// groupSkip: a message that somebody gives up on becomes a dead letter, whoever reads the
// shard, and its consumer finds it gone.
func groupSkip(f *fixture) {
	ctx := context.Background()
	f.group(circulate.StreamStart)
	l := f.lease(alice)
	positions := f.add("a/1", "b/1", "a/2")
	f.read(l, "a/1", "b/1", "a/2")
	f.add("a/3") // not read yet
	skip := func(position, account string) string {
		f.Helper()
		letter, err := group.Of(f.ring).Skip(ctx, 0, crew, position, account, "skipped: "+strings.Repeat("é", 1000))
		if err != nil {
			f.Fatal(err)
		}
		return letter
	}
	if letter := skip(positions[0], "b"); letter != "" {
		f.Errorf("another account's message was skipped to %q", letter)
	}
	letter := skip(positions[0], "a")
	if letter == "" || skip(positions[0], "a") != "" {
		f.Errorf("skipped to %q, and again", letter)
	}
	if skip(f.messagesEnd(), "a") != "" {
		f.Error("a message that nobody had was skipped")
	}
	f.pending(l, 1, 1)
	letters, err := group.Of(f.ring).DeadLetters(ctx, 0, circulate.StreamStart, 10)
	if err != nil || len(letters) != 1 {
		f.Fatalf("%d dead letters, %v", len(letters), err)
	}
	d := letters[0]
	if d.Position != letter || d.Account != "a" || d.Message.ID != "1" || d.Group != crew || d.Deliveries != 1 || d.Origin != positions[0] ||
		!strings.HasPrefix(d.Error, "skipped: éé") || len(d.Error) > 1024 {
		f.Errorf("dead letter %+v", d)
	}
	// Its consumer goes on with the messages that are still there.
	again, _, err := group.Of(f.ring).Redeliver(ctx, l, []group.Pending{{Position: positions[0], Deliveries: 2}, {Position: positions[2], Deliveries: 2}}, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.named(again.Messages, "a/2")
	f.read(l, "a/3")
	// A trimmed message leaves nothing, and is not pending any more.
	f.do("XDEL", f.key("messages"), positions[1])
	if skip(positions[1], "b") != "" {
		f.Error("a message that was trimmed became a dead letter")
	}
	f.pending(l, 2, 1)
	for _, bad := range []func() error{
		func() error { _, err := group.Of(f.ring).Skip(ctx, 0, "a b", "1-1", "a", ""); return err },
		func() error { _, err := group.Of(f.ring).Skip(ctx, 0, crew, "x", "a", ""); return err },
	} {
		if err := bad(); err == nil || circulate.Unknown(err) {
			f.Errorf("bad input: %v", err)
		}
	}
}

// messagesEnd returns the position of the last message.
func (f *fixture) messagesEnd() string {
	f.Helper()
	last, err := f.ring.Streams().Last(context.Background(), 0)
	if err != nil {
		f.Fatal(err)
	}
	return last
}

// endpointOrders: each process finds the orders since it looked last.
func endpointOrders(f *fixture) {
	ctx := context.Background()
	board := document.Of(f.ring).Endpoints()
	look := func(after string, want ...document.Order) string {
		f.Helper()
		orders, next, now, err := board.Orders(ctx, after)
		if err != nil || now.IsZero() || len(orders) != len(want) {
			f.Fatalf("after %q: %v, at %v, %v; want %v", after, orders, now, err, want)
		}
		for i := range want {
			if orders[i] != want[i] {
				f.Errorf("after %q: %v, want %v", after, orders[i], want[i])
			}
		}
		return next
	}
	tell := func(o document.Order) {
		f.Helper()
		if err := board.Tell(ctx, o); err != nil {
			f.Fatal(err)
		}
	}
	early := look(look("")) // nothing was ever ordered
	one := document.Order{Endpoint: "crm", Action: document.Retry, Account: "a|b\n"}
	two := document.Order{Endpoint: "crm", Action: document.Refresh}
	tell(one)
	late := look("") // an order from before does not concern a process that starts now
	tell(two)
	look(look(early, one, two))
	late = look(look(late, two))
	if err := board.Tell(ctx, document.Order{Action: document.Retry}); err == nil || circulate.Unknown(err) {
		f.Errorf("an order to no endpoint: %v", err)
	}
	// Redis has lost the orders: those from then on count.
	f.do("DEL", "{"+f.ns+":webhooks}:orders")
	late = look(late)
	tell(one)
	look(late, one)
}

// endpointReports: what live processes report of their endpoints.
func endpointReports(f *fixture) {
	ctx := context.Background()
	board := document.Of(f.ring).Endpoints()
	report := func(process string, reports ...document.Report) {
		f.Helper()
		if err := board.Report(ctx, process, reports); err != nil {
			f.Fatal(err)
		}
	}
	all := func(want map[string]int) map[string][]document.Report {
		f.Helper()
		got, now, err := board.Reports(ctx)
		if err != nil || now.IsZero() {
			f.Fatal(err)
		}
		for name, n := range want {
			if len(got[name]) != n {
				f.Errorf("%s: %+v, want %d reports", name, got[name], n)
			}
		}
		return got
	}
	all(map[string]int{"crm": 0})
	report(alice, document.Report{Endpoint: "crm", Status: 400, Waiting: []document.Waiting{{Account: "a", Position: "1-1", Failed: 3}}}, document.Report{Endpoint: "audit"})
	report(bob, document.Report{Endpoint: "crm", Status: 204})
	all(map[string]int{"crm": 2, "audit": 1})
	report(alice, document.Report{Endpoint: "crm", Status: 500, Breaker: "open", Waiting: []document.Waiting{{Account: "a", Position: "1-1", Failed: 4}}})
	all(map[string]int{"crm": 2, "audit": 0})
	if err := board.Withdraw(ctx, bob); err != nil {
		f.Fatal(err)
	}
	got := all(map[string]int{"crm": 1})
	if r := got["crm"][0]; r.Status != 500 || r.Breaker != "open" || len(r.Waiting) != 1 || r.Waiting[0].Failed != 4 {
		f.Errorf("%+v", r)
	}
	for process, status := range map[string]int{alice: 500, bob: 503} {
		if err := board.Tried(ctx, process, map[string][]document.Attempt{"crm": {{Status: status, Outcome: "failed", Answer: "busy"}}, "audit": {{Status: 204}}}); err != nil {
			f.Fatal(err)
		}
	}
	f.do("HSET", "{"+f.ns+":webhooks}:attempts", "later", "no JSON")
	if made, err := board.Attempts(ctx, "crm"); err != nil || len(made) != 2 || made[0].Status+made[1].Status != 1003 || made[0].Answer != "busy" {
		f.Errorf("%+v, %v", made, err)
	}
	if err := board.Tried(ctx, alice, map[string][]document.Attempt{"crm": {{Answer: strings.Repeat("x", 3<<20)}}}); err == nil {
		f.Error("attempts of any size are stored")
	}

	// A process that went silent no longer counts, and a report that cannot be read is
	// left out.
	key := "{" + f.ns + ":webhooks}:"
	f.do("HSET", key+"reports", bob, "no JSON")
	f.do("ZADD", key+"reporters", f.number("ZSCORE", key+"reporters", alice), bob)
	f.do("ZADD", key+"reporters", 1, alice)
	all(map[string]int{"crm": 0})
}

func deadLetters(f *fixture) {
	ctx := context.Background()
	f.group(circulate.StreamStart)
	if _, err := f.ring.Streams().EnsureGroup(ctx, 0, "audit", circulate.StreamStart); err != nil {
		f.Fatal(err)
	}
	l := f.lease(alice)
	positions := f.add("a/1", "a/2", "a/3")
	f.read(l, "a/1", "a/2", "a/3")
	for i, want := range []bool{true, true, false} { // the last one again
		p := group.Pending{Position: positions[min(i, 1)], Deliveries: 8}
		if buried, err := group.Of(f.ring).Bury(ctx, l, p, "bad "+strings.Repeat("é", 1000)); buried != want || err != nil {
			f.Errorf("bury %d: %v, %v", i, buried, err)
		}
	}
	f.pending(l, 1)
	letters, err := group.Of(f.ring).DeadLetters(ctx, 0, circulate.StreamStart, 10)
	if err != nil || len(letters) != 2 {
		f.Fatalf("%d dead letters, %v", len(letters), err)
	}
	d := letters[0]
	if d.Account != "a" || d.Message.ID != "1" || string(d.Message.Data) != `{"n":1}` || d.Group != crew || d.Deliveries != 8 ||
		d.Origin != positions[0] || !strings.HasPrefix(d.Error, "bad éé") || len(d.Error) > 1024 {
		f.Errorf("dead letter %+v", d)
	}
	if n, err := group.Of(f.ring).DropDead(ctx, 0, letters[1].Position, letters[1].Position); n != 1 || err != nil {
		f.Errorf("dropped %d, %v", n, err)
	}
	position, err := group.Of(f.ring).ReplayDead(ctx, 0, d.Position)
	if err != nil || position == "" {
		f.Fatalf("replayed to %q, %v", position, err)
	}
	if again, err := group.Of(f.ring).ReplayDead(ctx, 0, d.Position); again != "" || err != nil {
		f.Errorf("replayed twice: %q, %v", again, err)
	}
	f.read(l, "a/1")
	f.pending(l, 1, 1)
	audit, _, err := group.Of(f.ring).Member("audit", bob, time.Minute).Lease(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	batch, err := group.Of(f.ring).Read(ctx, audit, 10, 1<<20, false)
	if err != nil || !slices.Equal(batch.Others, []string{position}) {
		f.Errorf("another group is told of %v, %v; want %q", batch.Others, err, position)
	}
	f.named(batch.Messages, "a/1", "a/2", "a/3")
	found, err := f.ring.Streams().Messages(ctx, 0, circulate.StreamStart, 10)
	if err != nil || len(found) != 4 || found[3].Only != crew || found[3].First != positions[0] || found[0].Only+found[0].First != "" {
		f.Errorf("a replayed letter: %+v, %v", found, err)
	}
	// A replayed letter that dies again is the same as before.
	if _, err := group.Of(f.ring).Bury(ctx, l, group.Pending{Position: position, Deliveries: 1}, "worse"); err != nil {
		f.Fatal(err)
	}
	letters, err = group.Of(f.ring).DeadLetters(ctx, 0, circulate.StreamStart, 10)
	if err != nil || len(letters) != 1 || letters[0].Error != "worse" || letters[0].Group != crew || letters[0].Origin != position {
		f.Errorf("after a replay: %+v, %v", letters, err)
	}
	if _, err := group.Of(f.ring).ReplayDead(ctx, 0, letters[0].Position); err != nil {
		f.Fatal(err)
	}
	if found, err := f.ring.Streams().Messages(ctx, 0, position, 10); err != nil || len(found) != 1 || found[0].Only != crew || found[0].First != positions[0] {
		f.Errorf("replayed twice: %+v, %v", found, err)
	}
}
