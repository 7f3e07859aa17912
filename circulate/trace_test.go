package circulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// tracedBy returns a traceparent.
func tracedBy(n int) string { return fmt.Sprintf("00-%032x-%016x-01", n, n) }

// The trace of a page goes with its messages, and with no others: those of the same step, of a page
// before, or of an account that remembers.
func TestMessagesHaveTheTraceOfTheirPage(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		ring := openRing(t, server, 1)
		register(t, ring, "a", "b", "c", "d", "e")
		groups := group.Of(ring)
		if _, err := groups.Ensure(ctx, "g", func(int) string { return circulate.StreamStart }); err != nil {
			t.Fatal(err)
		}
		batch, err := ring.Claim(ctx, 0, alice, 10, 0)
		if err != nil || len(batch.Claims) != 5 {
			t.Fatal(len(batch.Claims), err)
		}
		claims := make(map[string]*circulate.Claim)
		for i := range batch.Claims {
			claims[batch.Claims[i].ID] = &batch.Claims[i]
		}
		page := func(ids ...string) (page []circulate.Message) {
			for _, id := range ids {
				page = append(page, circulate.Message{ID: id})
			}
			return page
		}
		remember := circulate.Remember{Messages: 100, For: time.Hour}
		for id, p := range map[string]circulate.Page{
			"d": {Kind: "feed", Messages: page("d1"), Trace: tracedBy(4), Remember: remember},
			"e": {Kind: "feed", Messages: page("e1")},
		} {
			if err := ring.Progress(ctx, claims[id], p); err != nil {
				t.Fatal(err)
			}
		}
		due := batch.Now.Add(time.Hour)
		items := []circulate.Return{
			{Claim: claims["a"], Kind: "feed", Due: due, Messages: page("a1"), Trace: tracedBy(1)},
			{Claim: claims["b"], Kind: "feed", Due: due, Messages: page("b1")}, // of the same kind, without a trace
			{Claim: claims["c"], Kind: "feed", Due: due, Messages: page("c1"), Trace: tracedBy(3), Cursor: []byte("c")},
			{Claim: claims["d"], Kind: "feed", Due: due, Messages: page("d1", "d2"), Trace: tracedBy(5), Remember: remember},
			{Claim: claims["e"], Kind: "feed", Due: due, Messages: page("e2", "e3"), Trace: tracedBy(6)},
		}
		outcomes, err := ring.Return(ctx, 0, items)
		if err != nil || strings.Contains(fmt.Sprint(outcomes), circulate.Fenced.String()) {
			t.Fatal(outcomes, err)
		}
		want := map[string]string{"a1": tracedBy(1), "b1": "", "c1": tracedBy(3), "d1": tracedBy(4), "d2": tracedBy(5), "e1": "", "e2": tracedBy(6), "e3": tracedBy(6)}
		check := func(how string, found []circulate.Found) {
			t.Helper()
			if len(found) != len(want) {
				t.Errorf("%s: %d messages, want %d", how, len(found), len(want))
			}
			for _, m := range found {
				if m.Trace != want[m.Message.ID] || m.Only != "" || m.Event || m.Kind != "feed" {
					t.Errorf("%s: %s has the trace %q, want %q: %+v", how, m.Message.ID, m.Trace, want[m.Message.ID], m)
				}
			}
		}
		found, err := ring.Streams().Messages(ctx, 0, circulate.StreamStart, 100)
		if err != nil {
			t.Fatal(err)
		}
		check("an observer", found)
		begun, err := groups.Member("g", alice, time.Minute).Begin(ctx, 0)
		if err != nil || begun.Lease == nil {
			t.Fatal(begun, err)
		}
		read, err := groups.Read(ctx, begun.Lease, 100, 1<<20, false)
		if err != nil {
			t.Fatal(err)
		}
		check("a consumer", read.Messages)
	})
}

// The trace of a send goes with its attempts and its events, and stays through every step.
func TestASendHasTheTraceOfItsCaller(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		ring := openRing(t, server, 1)
		register(t, ring, "a")
		groups := group.Of(ring)
		if _, err := groups.Ensure(ctx, "g", func(int) string { return circulate.StreamStart }); err != nil {
			t.Fatal(err)
		}
		if err := groups.TellEvents(ctx, "g", true); err != nil {
			t.Fatal(err)
		}
		sends := ring.Sends()
		for peer, trace := range map[string]string{"anna": tracedBy(7), "ben": ""} {
			send := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: peer, Type: "text", Data: []byte(`"x"`), Trace: trace}
			queued, _, err := sends.Queue(ctx, send, "key of "+peer, circulate.SendBounds{})
			if err != nil || queued.Trace != trace {
				t.Fatalf("queued with the trace %q, %v", queued.Trace, err)
			}
			send.ID, send.Trace = circulate.NewSendID("a"), tracedBy(8)
			if again, isNew, err := sends.Queue(ctx, send, "key of "+peer, circulate.SendBounds{}); err != nil || isNew || again.Trace != trace {
				t.Errorf("a repetition has the trace %q, %v", again.Trace, err)
			}
		}
		attempts, _, err := sends.Attempt(ctx, 0, circulate.AttemptOrder{Replica: alice, Step: "1", Kinds: []string{"chat"}, Most: 10, Lasts: time.Minute, WithFile: time.Minute})
		if err != nil || len(attempts) != 2 {
			t.Fatal(len(attempts), err)
		}
		want := map[string]string{"anna": tracedBy(7), "ben": ""}
		for _, a := range attempts {
			if a.Trace != want[a.Peer] {
				t.Errorf("the attempt for %s has the trace %q", a.Peer, a.Trace)
			}
			if _, err := sends.Settle(ctx, []circulate.Settlement{{ID: a.ID, Fence: a.Fence, Outcome: circulate.AttemptAccepted}}); err != nil {
				t.Fatal(err)
			}
			ended, err := sends.Look(ctx, a.ID)
			if err != nil || ended.Trace != want[a.Peer] || string(ended.Data) != `"x"` || ended.State != circulate.SendAccepted {
				t.Errorf("ended as %+v, %v", ended, err)
			}
		}
		begun, err := groups.Member("g", alice, time.Minute).Begin(ctx, 0)
		if err != nil || begun.Lease == nil {
			t.Fatal(begun, err)
		}
		read, err := groups.Read(ctx, begun.Lease, 100, 1<<20, false)
		if err != nil || len(read.Messages) != 2 {
			t.Fatal(read, err)
		}
		for _, e := range read.Messages {
			told, err := e.SendEvent()
			if err != nil || !e.Event || e.Trace != want[told.To] {
				t.Errorf("the event of %s has the trace %q, %v", told.To, e.Trace, err)
			}
		}
		if _, _, err := sends.Queue(ctx, circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: "c", Trace: tracedBy(9) + "x"}, "", circulate.SendBounds{}); err == nil {
			t.Error("a trace that is too long was stored")
		}
	})
}
