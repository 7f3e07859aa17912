package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// most lets accounts of the kind plain send so many answers within a window.
func most(n int) func(*Options) {
	return func(o *Options) {
		sends(true)(o)
		inner := o.Sending
		o.Sending = func(kind string, config json.RawMessage) Sending {
			s := inner(kind, config)
			s.Most = n
			if prepare := s.Prepare; prepare != nil {
				s.Prepare = func(o *Outgoing, answers *circulate.Message) error {
					if answers != nil && strings.HasPrefix(answers.ID, "group") {
						return accounts.Fault{Field: "reply_to", Reason: "is of a group"}
					}
					return prepare(o, answers)
				}
			}
			return s
		}
	}
}

func TestConversations(t *testing.T) {
	f := newFixture(t, most(3))
	f.call("POST", "/v1/accounts", `{"id":"w","kind":"web","config":{"url":"x"},"cadence":"every 1h"}`, 201, nil)
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain","cadence":"every 1h"}`, 201, nil)
	read := func(account, query string) (c Conversations) {
		t.Helper()
		f.call("GET", "/v1/accounts/"+account+"/conversations"+query, "", 200, &c)
		return c
	}
	if got := f.call("GET", "/v1/accounts/w/conversations", "", 200, nil); strings.TrimSpace(got.body) != `{"types":[],"peers":[],"entries":[]}` {
		t.Errorf("an account that cannot send: %s", got.body)
	}
	var none Schedule
	if f.call("GET", "/v1/accounts/w/schedule", "", 200, &none); none.Answers != nil {
		t.Errorf("an account that cannot send: %+v", none.Answers)
	}
	if c := read("a", ""); len(c.Types) != 2 || !c.Windowed || len(c.Peers) > 0 || len(c.Entries) > 0 || c.Peer != "" {
		t.Errorf("at first: %+v", c)
	}
	due, err := f.ring.Claim(t.Context(), f.ring.ShardOf("w"), "replica001", 100, 0) // a new account is due
	for i := range due.Claims {
		if err == nil {
			_, err = f.ring.Return(t.Context(), f.ring.ShardOf("w"), []circulate.Return{{Claim: &due.Claims[i], Due: time.Now().Add(time.Hour)}})
		}
	}
	if err != nil {
		t.Fatal(err)
	}

	clock := time.Now()
	later := func(d time.Duration) {
		clock = clock.Add(d)
		at := clock
		f.redis.SetClock(func() time.Time { return at })
	}
	window := func(peer string) *circulate.Answerable {
		return &circulate.Answerable{Peer: peer, For: time.Hour, Count: 3, Token: "sealed"}
	}
	later(time.Second)
	f.answerable("a", "1", window("writer of 1"))
	later(time.Second)
	f.answerable("a", "2", window("writer of 2"))
	later(time.Second)
	f.answerable("a", "group", nil)
	later(time.Second)
	f.send("a", "k1", `{"to":"writer of 1","data":{"text":"to one"}}`, 202, nil)
	f.settle(f.attempt(), circulate.AttemptUnknown, "cut")
	f.send("a", "typing", `{"to":"writer of 1","type":"typing","data":{"text":"x"}}`, 202, nil) // no entry
	f.settle(f.attempt(), circulate.AttemptAccepted, "")
	f.send("a", "k2", `{"to":"nobody yet","data":{"text":"waits"},"when":"open"}`, 202, nil)
	f.send("a", "k3", `{"to":"nobody yet","data":{"text":"waits too"},"when":"open"}`, 202, nil)

	c := read("a", "")
	if len(c.Peers) != 3 || c.Peers[0].Peer != c.Peer || c.Peers[2].Peer != "writer of 2" {
		t.Fatalf("got %+v", c)
	}
	one := read("a", "?peer=writer+of+1")
	if one.Peer != "writer of 1" || len(one.Entries) != 2 || one.Entries[0].Message == nil || one.Entries[0].Message.ID != "1" || one.Entries[1].Send == nil || one.Entries[1].Send.State != "unknown" {
		t.Errorf("got %+v", one)
	}
	for _, p := range one.Peers {
		switch w := p.Window; p.Peer {
		case "writer of 1":
			if w == nil || !w.Open || w.Left == nil || *w.Left != 2 || w.Most != 3 || w.Until.IsZero() || p.Waiting != 0 || p.ReplyTo != fmt.Sprint(one.Entries[0].Message.Shard, ":", one.Entries[0].Message.Position) {
				t.Errorf("got %+v, window %+v", p, w)
			}
		case "nobody yet":
			if w != nil || p.Waiting != 2 || !p.Closed || p.ReplyTo != "" {
				t.Errorf("got %+v", p)
			}
		}
	}
	if empty := read("a", "?peer=stranger"); empty.Peer != "stranger" || len(empty.Entries) > 0 || len(empty.Peers) != 3 {
		t.Errorf("got %+v", empty)
	}
	var s Schedule
	got := f.call("GET", "/v1/accounts/a/schedule", "", 200, &s)
	if a := s.Answers; a == nil || a.Unknown != 1 || a.Since.IsZero() || a.Windows != 2 || len(a.Peers) != 3 || a.Peers[0].Peer != "nobody yet" || !a.Peers[0].Closed || a.Peers[0].Waiting != 2 {
		t.Errorf("got %s", got.body)
	}
	if all := f.call("GET", "/v1/accounts/a/conversations", "", 200, nil); strings.Contains(got.body+all.body, "sealed") {
		t.Error("it shows the token of a window")
	}

	later(2 * time.Hour)
	for _, p := range read("a", "").Peers {
		if p.Window != nil && p.Window.Open {
			t.Errorf("after its end: %+v", p)
		}
	}
	f.call("GET", "/v1/accounts/none/conversations", "", 404, nil)
}

// A conversation has the latest entries alone.
func TestConversationsAreBounded(t *testing.T) {
	f := newFixture(t, sends(false))
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain","cadence":"every 1h"}`, 201, nil)
	at := time.Now()
	for i := range 70 {
		f.redis.SetClock(func() time.Time { return at.Add(time.Duration(i) * time.Second) })
		f.send("a", fmt.Sprint(i), fmt.Sprintf(`{"to":"anna","data":{"text":"%d"}}`, i), 202, nil)
		f.send("a", fmt.Sprint("to ", i), fmt.Sprintf(`{"to":"peer %d","data":{"text":"x"}}`, i), 202, nil)
	}
	var c Conversations
	f.call("GET", "/v1/accounts/a/conversations?peer=anna", "", 200, &c)
	if len(c.Entries) != entriesMost || string(c.Entries[0].Send.Data) != `{"text":"20"}` || string(c.Entries[entriesMost-1].Send.Data) != `{"text":"69"}` || len(c.Peers) != peersMost {
		t.Errorf("%d entries, %d peers, the first is %s", len(c.Entries), len(c.Peers), c.Entries[0].Send.Data)
	}
}
