package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// chat is the kind of the suite's sends.
const chat = "chat"

// outbox is a fixture with sends.
type outbox struct {
	*fixture
	sends circulate.Sends
	steps int // names of steps
}

func (f *fixture) outbox(accounts ...string) *outbox {
	f.Helper()
	f.register(accounts...)
	return &outbox{fixture: f, sends: f.ring.Sends()}
}

// text is a send to a peer.
func text(account, peer, words string) circulate.Send {
	return circulate.Send{ID: circulate.NewSendID(account), Account: account, Kind: chat, Peer: peer, Type: "text", Data: fmt.Appendf(nil, "%q", words)}
}

// queue queues a send and returns its id.
func (o *outbox) queue(s circulate.Send) string {
	o.Helper()
	queued, isNew, err := o.sends.Queue(context.Background(), s, "", circulate.SendBounds{})
	if err != nil || !isNew || queued.ID != s.ID || queued.State != circulate.SendQueued {
		o.Fatalf("queued %+v, %v, %v", queued, isNew, err)
	}
	return s.ID
}

func (o *outbox) step() string {
	o.steps++
	return fmt.Sprint("step", o.steps)
}

// attempt attempts what is due, and expects that.
func (o *outbox) attempt(replica string, want ...string) []circulate.Attempt {
	o.Helper()
	attempts, _, err := o.sends.Attempt(context.Background(), 0, circulate.AttemptOrder{
		Replica: replica, Step: o.step(), Kinds: []string{chat}, Most: 10, Lasts: time.Minute,
	})
	if err != nil {
		o.Fatal(err)
	}
	var got []string
	for _, a := range attempts {
		got = append(got, a.ID)
		if a.State != circulate.SendAttempting || a.Replica != replica || a.Fence == "" {
			o.Errorf("attempts %+v", a)
		}
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		o.Fatalf("attempts %q, want %q", got, want)
	}
	o.consistent()
	return attempts
}

// settle settles an attempt, and expects whether it was the send's.
func (o *outbox) settle(want bool, a circulate.Attempt, s circulate.Settlement) {
	o.Helper()
	s.ID, s.Fence = a.ID, a.Fence
	settled, err := o.sends.Settle(context.Background(), []circulate.Settlement{s})
	if err != nil || settled[0] != want {
		o.Fatalf("settled %v, %v; want %v", settled, err, want)
	}
	o.consistent()
}

func (o *outbox) accept(a circulate.Attempt) {
	o.Helper()
	o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptAccepted})
}

// is expects the state of a send.
func (o *outbox) is(id string, want circulate.SendState) circulate.Send {
	o.Helper()
	s, err := o.sends.Look(context.Background(), id)
	if err != nil || s.State != want {
		o.Fatalf("send %s is %s, %v; want %s", id, s.State, err, want)
	}
	return s
}

// sweep sweeps, with these replicas alive, and expects what became unknown.
func (o *outbox) sweep(grace time.Duration, alive []string, unknown ...string) circulate.SweptSends {
	o.Helper()
	swept, err := o.sends.Sweep(context.Background(), 0, 100, grace, alive)
	if err != nil || !slices.Equal(swept.Unknown, unknown) {
		o.Fatalf("swept %+v, %v; want %q unknown", swept, err, unknown)
	}
	o.consistent()
	return swept
}

// passed makes everything that ends by itself have ended.
func (o *outbox) passed() {
	o.Helper()
	for _, member := range o.strings("ZRANGE", o.key("sends:ends"), 0, -1) {
		o.do("ZADD", o.key("sends:ends"), 1, member)
	}
}

// asks has a group ask for events, or no longer ask.
func (o *outbox) asks(group string, tell bool) {
	o.Helper()
	if err := o.ring.Streams().TellEvents(context.Background(), 0, group, tell); err != nil {
		o.Fatal(err)
	}
}

// told returns the events that crew was told, the oldest first.
func (o *outbox) told() (told []string) {
	o.Helper()
	for _, found := range o.events(crew) {
		e, err := found.SendEvent()
		if err != nil {
			o.Fatal(err)
		}
		if found.Message.Type != "send."+e.State {
			o.Errorf("%s of a send that is %s", found.Message.Type, e.State)
		}
		told = append(told, found.Message.Type+" "+e.ID)
	}
	return told
}

// events returns the events that a group was told, the oldest first.
func (o *outbox) events(group string) (events []circulate.Found) {
	o.Helper()
	found, err := o.ring.Streams().Messages(context.Background(), 0, circulate.StreamStart, 1000)
	if err != nil {
		o.Fatal(err)
	}
	for _, f := range found {
		if f.Event && f.Only == group {
			events = append(events, f)
		}
	}
	return events
}

// finds has a message of a peer found, which lets it be answered.
func (o *outbox) finds(account string, w circulate.Answerable) {
	o.Helper()
	ctx := context.Background()
	if err := o.ring.Account(account).Nudge(ctx, circulate.Nudge{}); err != nil {
		o.Fatal(err)
	}
	for _, c := range o.batch(alice, 100).Claims {
		item := circulate.Return{Claim: &c, Due: soon(&c), Mark: circulate.MarkOK}
		if c.ID == account {
			m := message("m")
			m.Answerable = &w
			item.Kind, item.Messages = chat, []circulate.Message{m}
		}
		o.ret(circulate.Written, item)
	}
	o.consistent()
}

// all returns the sends that have a place in one of the lists by state.
func (o *outbox) all() []circulate.Send {
	o.Helper()
	var all []circulate.Send
	for _, group := range []circulate.SendGroup{circulate.GroupQueued, circulate.GroupAttempting, circulate.GroupUnknown, circulate.GroupEnded} {
		sends, next, err := o.sends.List(context.Background(), 0, group, "", "", 1000)
		if err != nil || next != "" {
			o.Fatal(next, err)
		}
		for _, s := range sends {
			if in := groupOf(s.State); in != group {
				o.Errorf("send %s is %s, and listed as %c", s.ID, s.State, group)
			}
		}
		all = append(all, sends...)
	}
	return all
}

func groupOf(state circulate.SendState) circulate.SendGroup {
	switch state {
	case circulate.SendQueued, circulate.SendAttempting, circulate.SendUnknown:
		return circulate.SendGroup(state)
	}
	return circulate.GroupEnded
}

// walked returns the sends of a group in their order, from pages of n.
func (f *fixture) walked(ring *circulate.Ring, group circulate.SendGroup, account string, n int) (ids []string) {
	f.Helper()
	var before circulate.Send
	for behind, pages := "", 0; ; pages++ {
		sends, next, err := ring.Sends().Oldest(context.Background(), group, account, behind, n)
		if err != nil || len(sends) > n || pages > 1000 {
			f.Fatalf("page %d has %d sends, %v", pages, len(sends), err)
		}
		for _, s := range sends {
			at, was := s.Queued, before.Queued
			if group == circulate.GroupEnded {
				at, was = s.Since, before.Since
			}
			if groupOf(s.State) != group || at.Before(was) || slices.Contains(ids, s.ID) {
				f.Errorf("%s, %s since %v, comes after %v or twice in group %c", s.ID, s.State, at, was, group)
			}
			ids, before = append(ids, s.ID), s
		}
		if behind = next; behind == "" {
			return ids
		}
	}
}

// consistent reads the shard itself, and expects each send in exactly the places that its
// state demands.
func (o *outbox) consistent() {
	o.Helper()
	all := o.all()
	if n := o.number("HLEN", o.key("sends")); n != len(all) {
		o.Errorf("%d records, and %d sends are listed", n, len(all))
	}
	line := o.strings("ZRANGE", o.key("sends:line"), 0, -1)
	due := o.strings("ZRANGE", o.key("sends:due"), 0, -1)
	ends := o.strings("ZRANGE", o.key("sends:ends"), 0, -1)
	var timed []string
	for _, s := range all {
		at := s.Queued
		if groupOf(s.State) == circulate.GroupEnded {
			at = s.Since
		}
		timed = append(timed, fmt.Sprintf("t%c%013d%s", groupOf(s.State), at.UnixMilli(), s.ID))
	}
	slices.Sort(timed)
	if got := o.strings("ZRANGEBYLEX", o.key("sends:index"), "[t", "(u"); !slices.Equal(got, timed) {
		o.Errorf("in the order of time are %q, want %q", got, timed)
	}
	heads := make(map[string]string) // of each peer
	for _, member := range line {
		peer := member[:strings.LastIndexByte(member, 0)]
		if heads[peer] == "" {
			heads[peer] = member[len(member)-circulate.SendIDLength:]
		}
	}
	placed, dues := 0, 0
	for _, s := range all {
		peer := s.Account + "\x00" + s.Peer
		count := func(in []string, text func(member string) bool) (n int) {
			for _, member := range in {
				if text(member) {
					n++
				}
			}
			return n
		}
		inLine := count(line, func(m string) bool { return strings.HasPrefix(m, peer+"\x00") && strings.HasSuffix(m, s.ID) })
		lined := 0
		if s.State == circulate.SendQueued || s.State == circulate.SendAttempting {
			lined = 1
		}
		if inLine != lined {
			o.Errorf("send %s is %s, and %d times in line", s.ID, s.State, inLine)
		}
		placed += inLine
		if s.State == circulate.SendAttempting && heads[peer] != s.ID {
			o.Errorf("send %s is attempted, and is not the first of its peer", s.ID)
		}
		if s.State == circulate.SendQueued && heads[peer] == s.ID {
			dues++
			if n := count(due, func(m string) bool { return strings.HasPrefix(m, s.Kind+"\t") && strings.HasSuffix(m, peer) }); n != 1 {
				o.Errorf("send %s is the first of its peer, and %d times due", s.ID, n)
			}
		}
		ending := 1
		if s.State == circulate.SendUnknown || s.State == circulate.SendQueued && s.Expires.IsZero() {
			ending = 0
		}
		if n := count(ends, func(m string) bool { return m == s.ID }); n != ending {
			o.Errorf("send %s is %s, and ends %d times by itself", s.ID, s.State, n)
		}
	}
	if placed != len(line) || dues != len(due) {
		o.Errorf("%d of %d places in line, and %d of %d due, are of no send", len(line)-placed, len(line), len(due)-dues, len(due))
	}
}
