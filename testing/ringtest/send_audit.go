package ringtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// sendAudited spoils the places of sends in one way after the other. An audit of sends
// finds each, and mends it. So does the audit of the whole shard.
func sendAudited(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a", "b", "gone")
	o.finds("a", circulate.Answerable{Peer: "anna", For: time.Hour, Count: 3})
	unknown := o.queue(text("a", "ben", "0"))
	o.settle(true, o.attempt(alice, unknown)[0], circulate.Settlement{Outcome: circulate.AttemptUnknown})
	under := o.queue(text("a", "cleo", "1"))
	o.attempt(alice, under)
	first, second := o.queue(text("a", "anna", "1")), o.queue(text("a", "anna", "2"))
	member := func(key, of string) string {
		f.Helper()
		all := f.strings("ZRANGE", f.key("sends:"+key), 0, -1)
		i := slices.IndexFunc(all, func(m string) bool { return strings.HasSuffix(m, of) && !strings.HasPrefix(m, "t") })
		if i < 0 {
			f.Fatalf("%s has no %s", key, of)
		}
		return all[i]
	}
	audit := func(mend bool, want ...circulate.SendFinding) {
		f.Helper()
		found, err := o.sends.Audit(ctx, 0, mend)
		for i := range want {
			want[i].Mended = mend
		}
		if err != nil || !slices.Equal(found, want) {
			f.Errorf("found %+v, %v; want %+v", found, err, want)
		}
	}
	spoil := func(what func(), want ...circulate.SendFinding) {
		f.Helper()
		var law []string
		for _, w := range want {
			law = append(law, "misplaced "+strings.ReplaceAll(w.Of, "\x00", " "))
		}
		what()
		audit(false, want...)
		f.audit(false, law...)
		audit(true, want...)
		f.audit(false)
		audit(true)
		o.consistent()
	}
	audit(false)
	line := "a\x00anna"
	f.do("ZREM", f.key("sends:index"), member("index", second))
	f.audit(true, "misplaced "+second)
	audit(false)
	spoil(func() { f.do("ZREM", f.key("sends:index"), member("index", unknown)) }, circulate.SendFinding{Kind: circulate.SendLost, Of: unknown})
	timed := func(group, id string) string {
		m := member("index", id)
		return "t" + group + m[len(m)-circulate.SendPlaceLength:]
	}
	spoil(func() { f.do("ZREM", f.key("sends:index"), timed("q", second)) }, circulate.SendFinding{Kind: circulate.SendLost, Of: second})
	spoil(func() { f.do("ZADD", f.key("sends:index"), 0, timed("e", unknown)) }, circulate.SendFinding{Kind: circulate.SendStray, Of: unknown})
	spoil(func() { f.do("ZREM", f.key("sends:due"), member("due", line)) }, circulate.SendFinding{Kind: circulate.SendLost, Of: first})
	spoil(func() { f.do("ZREM", f.key("sends:line"), member("line", second)) }, circulate.SendFinding{Kind: circulate.SendLost, Of: second})
	spoil(func() { f.do("ZADD", f.key("sends:due"), 0, chat+"\t0000000000001b\x00anna") }, circulate.SendFinding{Kind: circulate.SendStray, Of: "b\x00anna"})
	spoil(func() { f.do("ZADD", f.key("sends:line"), 0, "a\x00ben\x000000000001"+unknown) }, circulate.SendFinding{Kind: circulate.SendStray, Of: unknown})
	spoil(func() { f.do("HDEL", f.key("windows"), line) }, circulate.SendFinding{Kind: circulate.SendNoRecord, Of: "a"})
	spoil(func() { f.do("HDEL", f.key("sends"), unknown) }, circulate.SendFinding{Kind: circulate.SendNoRecord, Of: unknown})
	spoil(func() { f.do("HSET", f.key("sends"), circulate.NewSendID("a")[:8]+strings.Repeat("X", 24), "garbage") },
		circulate.SendFinding{Kind: circulate.SendNoRecord, Of: circulate.NewSendID("a")[:8] + strings.Repeat("X", 24)})
	o.attempt(bob, first)
	o.queue(text("gone", "anna", "1"))
	spoil(func() {
		f.do("HDEL", f.key("tickets"), "gone")
		f.do("HDEL", f.key("accounts"), "gone")
		f.do("ZREM", f.key("schedule"), "gone")
	},
		circulate.SendFinding{Kind: circulate.SendOrphan, Of: "gone"})
}
