package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

// sends makes accounts of the kind plain send texts. An answer goes to the peer that its message
// names.
func sends(windowed bool) func(*Options) {
	return func(o *Options) {
		o.Sending = func(kind string, _ json.RawMessage) Sending {
			if kind != "plain" {
				return Sending{}
			}
			return Sending{Types: []string{"text", "typing"}, Windowed: windowed, Fleeting: []string{"typing"}, Prepare: func(o *Outgoing, answers *circulate.Message) error {
				var data struct{ Text string }
				if _ = json.Unmarshal(o.Data, &data); data.Text == "" {
					return errors.Join(accounts.Fault{Field: "data.text", Reason: "must not be empty"})
				}
				if answers != nil && o.Peer == "" {
					o.Peer = "writer of " + answers.ID
				}
				return nil
			}}
		}
	}
}

// send makes a request to send.
func (f *fixture) send(account, key, body string, status int, v any) reply {
	f.Helper()
	r := f.request("POST", "/v1/accounts/"+account+"/sends", body)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	got := f.do(r)
	if got.status != status {
		f.Fatalf("send %s: %d, want %d: %s", body, got.status, status, got.body)
	}
	if v != nil {
		if err := json.Unmarshal([]byte(got.body), v); err != nil {
			f.Fatal(err)
		}
	}
	return got
}

// attempt begins the attempts that may begin.
func (f *fixture) attempt() []circulate.Attempt {
	f.Helper()
	var all []circulate.Attempt
	for shard := range f.ring.Shards() {
		attempts, _, err := f.ring.Sends().Attempt(f.Context(), shard, circulate.AttemptOrder{
			Replica: "replica001", Step: fmt.Sprint("step ", time.Now().UnixNano(), shard), Kinds: []string{"plain"}, Most: 100, Lasts: time.Minute,
		})
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, attempts...)
	}
	return all
}

// settle ends attempts.
func (f *fixture) settle(attempts []circulate.Attempt, as circulate.SendOutcome, code string) {
	f.Helper()
	for _, a := range attempts {
		done, err := f.ring.Sends().Settle(f.Context(), []circulate.Settlement{{ID: a.ID, Fence: a.Fence, Outcome: as, Code: code, Text: "in words"}})
		if err != nil || !done[0] {
			f.Fatal(done, err)
		}
	}
}

func TestSend(t *testing.T) {
	f := newFixture(t, sends(false))
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	f.call("POST", "/v1/accounts", `{"id":"w","kind":"web","config":{"url":"x"}}`, 201, nil)
	body := `{"to":"anna","data":{"text":"hello"}}`
	var first, again Send
	got := f.send("a", "k1", body, 202, &first)
	if first.Account != "a" || first.To != "anna" || first.Type != "text" || first.State != "queued" || first.Queued.IsZero() || first.When != "now" || string(first.Data) != `{"text":"hello"}` {
		t.Errorf("queued: %s", got.body)
	}
	if at := got.header.Get("Location"); at != "/v1/sends/"+first.ID {
		t.Errorf("Location %q", at)
	}
	f.send("a", "k1", `{"data": {"text": "hello"}, "type": "text", "to": "anna"}`, 202, &again)
	if again.ID != first.ID {
		t.Errorf("the same key and body: another send, %+v", again)
	}
	var p problemBody
	f.send("a", "k1", `{"to":"anna","data":{"text":"bye"}}`, 409, &p)
	if len(p.Errors) != 1 || p.Errors[0].Location != "header.Idempotency-Key" {
		t.Errorf("another body: %+v", p)
	}
	f.send("a", "k2", `{"to":"anna","data":{"text":"bye"}}`, 202, &again)
	if again.ID == first.ID {
		t.Error("another key: the same send")
	}
	// A repetition is known even if nothing of the kind can be sent any more.
	f.call("PUT", "/v1/accounts/a", `{"kind":"web","config":{"url":"x"}}`, 200, nil)
	f.send("a", "k1", body, 202, &again)
	if again.ID != first.ID {
		t.Errorf("after the account changed: %+v", again)
	}
	f.send("a", "k3", body, 422, &p)
	if !strings.Contains(p.Detail, "cannot send") {
		t.Errorf("a kind that cannot send: %+v", p)
	}
	f.send("w", "k1", body, 422, nil)
	f.send("nobody", "k1", body, 404, nil)
	f.call("GET", "/v1/sends/"+first.ID, "", 200, &again)
	if again.State != "queued" || again.To != "anna" {
		t.Errorf("got %+v", again)
	}
	if f.logs.Len() > 0 {
		t.Errorf("callers' mistakes were logged: %s", f.logs)
	}
}

func TestSendFaults(t *testing.T) {
	f := newFixture(t, sends(false))
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	text := `"data":{"text":"x"}`
	for _, c := range []struct {
		key, body string
		status    int
		locations []string
	}{
		{"k", `{"to":"anna"}`, 422, []string{"body.data.text"}},
		{"k", `{` + text + `}`, 422, []string{"body.to"}},
		{"k", `{"to":"anna","type":"song",` + text + `,"reply_to":"x"}`, 422, []string{"body.type", "body.reply_to"}},
		{"k", `{"to":"anna",` + text + `,"reply_to":"0:1-1"}`, 422, []string{"body.reply_to"}},
		{"k", `{"to":"anna",` + text + `,"reply_to":"3.900:1-1"}`, 422, []string{"body.reply_to"}},
		{"k", `{"to":"anna",` + text + `,"when":"soon","expires":"soon","colour":"red"}`, 422, []string{"body.colour", "body.when", "body.expires"}},
		{"k", `{"to":"anna",` + text + `,"expires":"2001-01-01T00:00:00Z"}`, 422, []string{"body.expires"}},
		{"k", `{"to":"an\u0007na",` + text + `}`, 422, []string{"body.to"}},
		{"k", `{"to":"anna","data":{"text":"` + strings.Repeat("x", circulate.MaxSendData) + `"}}`, 422, []string{"body.data"}},
		{"k", `{"to":`, 400, []string{"body"}},
		{"k", ``, 400, nil},
		{"", `{"to":"anna",` + text + `}`, 422, []string{"header.Idempotency-Key"}},
		{strings.Repeat("k", 256), `{"to":"anna",` + text + `}`, 422, []string{"header.Idempotency-Key"}},
	} {
		var p problemBody
		f.send("a", c.key, c.body, c.status, &p)
		if c.locations != nil && !slices.Equal(p.locations(), c.locations) {
			t.Errorf("%.80s: faults at %v, want %v", c.body, p.locations(), c.locations)
		}
	}
	for _, id := range []string{"x", circulate.NewSendID("a"), strings.Repeat("0", 64)} {
		f.call("GET", "/v1/sends/"+id, "", 404, nil)
		f.call("POST", "/v1/sends/"+id+"/cancel", "", 404, nil)
		f.call("POST", "/v1/sends/"+id+"/retry", "", 404, nil)
		f.call("POST", "/v1/sends/"+id+"/resolve", `{"state":"accepted"}`, 404, nil)
	}
	if p := f.errorReply("POST", "/v1/sends/x/resolve", `{"state":"queued","attempts":0}`, 422); !slices.Equal(p.locations(), []string{"body.attempts", "body.state"}) {
		t.Errorf("resolve: %+v", p)
	}
	if p := f.errorReply("GET", "/v1/sends?state=lost&limit=0", "", 422); !slices.Equal(p.locations(), []string{"query.limit", "query.state[0]"}) {
		t.Errorf("list: %+v", p)
	}
	if p := f.errorReply("GET", "/v1/sends?cursor=x", "", 422); !slices.Equal(p.locations(), []string{"query.cursor"}) {
		t.Errorf("list: %+v", p)
	}
	f.call("GET", "/v1/sends?account=nobody", "", 404, nil)
}

// A send that answers a message takes from it what the kind needs. The message may be named by its
// shard and position, and by the handle that a consumer group gets.
func TestSendAnswersAMessage(t *testing.T) {
	f := newFixture(t, sends(false))
	f.find("a", "m1", "m2")
	f.find("b", "m3")
	var page MessageList
	f.call("GET", "/v1/messages", "", 200, &page)
	for i, m := range page.Messages {
		ref := fmt.Sprintf("%d:%s", m.Shard, m.Position)
		var s Send
		f.send(m.Account, ref, `{"reply_to":"`+ref+`","data":{"text":"hello"}}`, 202, &s)
		if s.To != "writer of "+m.ID || s.ReplyTo != ref {
			t.Errorf("an answer to message %d: %+v", i, s)
		}
		other := map[string]string{"a": "b", "b": "a"}[m.Account]
		f.send(other, ref, `{"reply_to":"`+ref+`","data":{"text":"hello"}}`, 422, nil)
	}
	var read struct {
		Consumer string
		Messages []struct{ Handle, Account string }
	}
	f.call("POST", "/v1/groups/bot/read", `{"from":"start"}`, 200, &read)
	if len(read.Messages) != 3 {
		t.Fatalf("the group got %+v", read)
	}
	for _, m := range read.Messages {
		f.send(m.Account, "of group "+m.Handle, `{"reply_to":"`+m.Handle+`","data":{"text":"hello"}}`, 202, nil)
	}
}

// What is outside its window is refused, or waits for the next message.
func TestSendOutsideTheWindow(t *testing.T) {
	f := newFixture(t, sends(true))
	f.find("a", "m0")
	body := `{"to":"anna","data":{"text":"hello"}%s}`
	var p problemBody
	f.send("a", "k1", fmt.Sprintf(body, ""), 409, &p)
	if !strings.Contains(p.Detail, "none is known") || !slices.Equal(p.locations(), []string{"body.when"}) {
		t.Errorf("no window: %+v", p)
	}
	var s Send
	f.send("a", "k1", fmt.Sprintf(body, `,"when":"open"`), 202, &s)
	if s.When != "open" || len(f.attempt()) != 0 {
		t.Errorf("it does not wait: %+v", s)
	}
	f.answerable("a", "m1", &circulate.Answerable{Peer: "anna", For: time.Hour, Count: 2, Token: "sealed"})
	begun := f.attempt()
	if len(begun) != 1 || begun[0].ID != s.ID || begun[0].Token != "sealed" {
		t.Fatalf("after a message: %+v", begun)
	}
	f.settle(begun, circulate.AttemptAccepted, "")
	f.send("a", "typing", `{"to":"anna","type":"typing","data":{"text":"on"}}`, 202, nil) // takes nothing from the window
	f.settle(f.attempt(), circulate.AttemptAccepted, "")
	f.send("a", "k2", fmt.Sprintf(body, ""), 202, nil)
	f.send("a", "k3", fmt.Sprintf(body, ""), 409, &p)
	if !strings.Contains(p.Detail, "as often as the third party allows until 2") {
		t.Errorf("used up: %+v", p)
	}
	f.settle(f.attempt(), circulate.AttemptAccepted, "")
	f.redis.SetClock(func() time.Time { return time.Now().Add(2 * time.Hour) })
	f.send("a", "k4", fmt.Sprintf(body, ""), 409, &p)
	if !strings.Contains(p.Detail, "could be answered until 2") {
		t.Errorf("over: %+v", p)
	}
}

// answerable lets an account find a message that says until when its writer may be answered.
func (f *fixture) answerable(account, id string, window *circulate.Answerable) {
	f.Helper()
	if err := f.ring.Account(account).Nudge(f.Context(), circulate.Nudge{}); err != nil {
		f.Fatal(err)
	}
	shard := f.ring.ShardOf(account)
	batch, err := f.ring.Claim(f.Context(), shard, "replica001", 100, 0)
	if err != nil || len(batch.Claims) != 1 {
		f.Fatal(batch, err)
	}
	if _, err := f.ring.Return(f.Context(), shard, []circulate.Return{{Claim: &batch.Claims[0], Kind: "plain", Due: time.Now().Add(time.Hour),
		Messages: []circulate.Message{{ID: id, Data: json.RawMessage(`{}`), Answerable: window}}}}); err != nil {
		f.Fatal(err)
	}
}

// Too many sends are refused with the time to try again.
func TestTooManySends(t *testing.T) {
	f := newFixture(t, sends(false))
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	for i := range circulate.DefaultWaitingSends {
		_, _, err := f.ring.Sends().Queue(t.Context(), circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "plain", Peer: fmt.Sprint(i), Type: "text"}, "", circulate.SendBounds{})
		if err != nil {
			t.Fatal(err)
		}
	}
	var p problemBody
	got := f.send("a", "k1", `{"to":"anna","data":{"text":"hello"}}`, 429, &p)
	if got.header.Get("Retry-After") != "10" || !strings.Contains(p.Detail, "of the account wait") {
		t.Errorf("got %v: %+v", got.header, p)
	}
}

// The settings say how many sends may wait.
func TestFewSendsMayWait(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		sends(false)(o)
		o.SendBounds = circulate.SendBounds{Account: 2, All: 300}
	})
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	for i, status := range []int{202, 202, 429} {
		f.send("a", fmt.Sprint("k", i), `{"to":"anna","data":{"text":"hello"}}`, status, nil)
	}
}

func TestSendsEnd(t *testing.T) {
	f := newFixture(t, sends(false))
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	queue := func(key string) (s Send) {
		t.Helper()
		f.send("a", key, `{"to":"`+key+`","data":{"text":"hello"}}`, 202, &s)
		return s
	}
	do := func(s Send, what, body string, status int) Send {
		t.Helper()
		var after Send
		if status >= 400 {
			f.call("POST", "/v1/sends/"+s.ID+"/"+what, body, status, nil)
			f.call("GET", "/v1/sends/"+s.ID, "", 200, &after)
			return after
		}
		f.call("POST", "/v1/sends/"+s.ID+"/"+what, body, status, &after)
		return after
	}
	// A queued send can be canceled, and nothing else.
	s := queue("canceled")
	do(s, "retry", "", 409)
	do(s, "resolve", `{"state":"accepted"}`, 409)
	if got := do(s, "cancel", "", 200); got.State != "canceled" {
		t.Errorf("canceled: %+v", got)
	}
	do(s, "cancel", "", 200)
	do(s, "retry", "", 409)

	// A rejected one is sent again if somebody says so.
	s = queue("rejected")
	f.settle(f.attempt(), circulate.AttemptRejected, "93000")
	if got := do(s, "cancel", "", 409); got.State != "rejected" || got.Code != "93000" || got.Reason != "in words" || got.Attempts != 1 || got.Replica != "replica001" {
		t.Errorf("rejected: %+v", got)
	}
	do(s, "resolve", `{"state":"accepted"}`, 409)
	do(s, "retry", `{"attempts":2}`, 409)
	do(s, "retry", `{"expires":"2001-01-01T00:00:00Z"}`, 409)
	if got := do(s, "retry", `{"attempts":1}`, 200); got.State != "queued" || got.Code != "" {
		t.Errorf("again: %+v", got)
	}
	f.settle(f.attempt(), circulate.AttemptAccepted, "")
	if got := do(s, "retry", "", 409); got.State != "accepted" || got.Attempts != 2 {
		t.Errorf("accepted: %+v", got)
	}

	// An unknown one is resolved, or sent again.
	for want, order := range map[string][2]string{
		"accepted": {"resolve", `{"state":"accepted","vendor_id":"v1","reason":"seen on the phone"}`},
		"rejected": {"resolve", `{"state":"rejected"}`},
		"queued":   {"retry", ""},
	} {
		s = queue("unknown " + want)
		f.settle(f.attempt(), circulate.AttemptUnknown, "cut")
		if got := do(s, "cancel", "", 409); got.State != "unknown" || len(f.attempt()) != 0 {
			t.Errorf("unknown: %+v", got)
		}
		got := do(s, order[0], order[1], 200)
		if got.State != want || want == "accepted" && (got.VendorID != "v1" || got.Reason != "seen on the phone") {
			t.Errorf("%v: %+v", order, got)
		}
	}

	// An expired one needs another time.
	var late Send
	f.send("a", "late", `{"to":"late","data":{"text":"x"},"expires":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`, 202, &late)
	f.settle(f.attempt(), circulate.AttemptRejected, "no")
	f.redis.SetClock(func() time.Time { return time.Now().Add(2 * time.Hour) })
	do(late, "retry", "", 409)
	if got := do(late, "retry", `{"expires":"2100-01-01T00:00:00Z"}`, 200); got.State != "queued" || got.Expires.Year() != 2100 {
		t.Errorf("another time: %+v", got)
	}
}

// The list has each send once, page by page, and only those that the parameters select.
func TestListSends(t *testing.T) {
	f := newFixture(t, sends(false))
	var want []string
	for i := range 5 {
		id := fmt.Sprintf("a%d", i)
		f.call("POST", "/v1/accounts", `{"id":"`+id+`","kind":"plain"}`, 201, nil)
		for n := range 3 {
			var s Send
			f.send(id, fmt.Sprint(n), fmt.Sprintf(`{"to":"p%d","data":{"text":"%d"}}`, n, n), 202, &s)
			want = append(want, s.ID)
		}
	}
	f.call("POST", "/v1/sends/"+want[0]+"/cancel", "", 200, nil)
	list := func(query string) (ids []string) {
		t.Helper()
		var before Send
		for cursor := ""; ; {
			var page SendList
			f.call("GET", "/v1/sends?limit=2"+query+"&cursor="+cursor, "", 200, &page)
			for _, s := range page.Sends {
				if s.Account == before.Account && s.Queued.Before(before.Queued) {
					t.Errorf("%s: %s is before %s, which is older", query, before.ID, s.ID)
				}
				ids, before = append(ids, s.ID), s
			}
			if cursor = page.Next; cursor == "" {
				return ids
			}
		}
	}
	same := func(got, want []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
	}
	if got := list(""); !same(got, want) {
		t.Errorf("all: got %d of %d", len(got), len(want))
	}
	if got := list("&account=a1"); !same(got, want[3:6]) {
		t.Errorf("of a1: %v, want %v", got, want[3:6])
	}
	if got := list("&account=a0&state=queued"); !same(got, want[1:3]) {
		t.Errorf("queued ones of a0: %v", got)
	}
	if got := list("&state=canceled&state=expired"); !slices.Equal(got, want[:1]) {
		t.Errorf("canceled: %v", got)
	}
	if got := list("&state=unknown"); got != nil {
		t.Errorf("unknown: %v", got)
	}
}

// The trail has who sent what to which account, and who said what became of it, without what was
// sent. A repetition is no second order.
func TestSendsAreInTheTrail(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		sends(false)(o)
		o.RequireKey = true
	})
	f.world()
	bot := f.as(f.key(key.New{Name: "bot", Role: access.Sender, Labels: access.Labels{"team": "press"}}))
	body := `{"to":"anna","data":{"text":"the secret plan"}}`
	var s Send
	bot.send("press-1", "k1", body, 202, &s)
	bot.send("press-1", "k1", body, 202, nil)
	bot.call("POST", "/v1/sends/"+s.ID+"/cancel", "", 200, nil)
	bot.call("POST", "/v1/sends/"+s.ID+"/retry", "", 409, nil)
	bot.call("GET", "/v1/sends/"+s.ID, "", 200, nil)
	bot.send("sales-1", "k1", body, 404, nil)
	admin := f.as(f.key(key.New{Name: "root", Role: access.Admin}))
	var page TrailPage
	got := admin.call("GET", "/v1/trail?by=bot", "", 200, &page)
	var lines []string
	for _, e := range page.Entries {
		lines = append(lines, fmt.Sprint(e.Action, " ", e.Outcome, " ", e.Account, " ", strings.ReplaceAll(e.Subject, s.ID, "ID")))
	}
	want := []string{"create-send refused sales-1 ", "retry-send refused press-1 send ID", "cancel-send done press-1 send ID", "create-send done press-1 send ID"}
	if !slices.Equal(lines, want) || strings.Contains(got.body, "secret plan") || strings.Contains(got.body, "anna") {
		t.Errorf("got %q", lines)
	}
	var other Send
	admin.send("sales-1", "k1", body, 202, &other)
	bot.call("GET", "/v1/sends/"+other.ID, "", 404, nil)
	bot.call("POST", "/v1/sends/"+other.ID+"/cancel", "", 404, nil)
	if got := bot.call("GET", "/v1/sends", "", 200, nil); strings.Contains(got.body, "sales-") || !strings.Contains(got.body, s.ID) {
		t.Errorf("the bot sees %s", got.body)
	}
	bot.call("GET", "/v1/sends?account=sales-1", "", 404, nil)
}

// on_unknown is a field of the record: hold is the default, and is not stored.
func TestOnUnknown(t *testing.T) {
	f := newFixture(t, nil)
	var a Account
	f.call("PUT", "/v1/accounts/a", `{"kind":"plain","on_unknown":"retry"}`, 201, &a)
	if a.Unknown != "retry" {
		t.Errorf("registered: %+v", a)
	}
	for _, text := range []string{`null`, `"hold"`} {
		a = Account{}
		f.call("PATCH", "/v1/accounts/a", `{"on_unknown":`+text+`}`, 200, &a)
		if a.Unknown != "" {
			t.Errorf("%s: %+v", text, a)
		}
	}
	if p := f.errorReply("PATCH", "/v1/accounts/a", `{"on_unknown":"drop"}`, 422); !slices.Equal(p.locations(), []string{"body.on_unknown"}) || p.Errors[0].Message != `must be "hold" or "retry"` {
		t.Errorf("another word: %+v", p)
	}
	if p := f.errorReply("PUT", "/v1/accounts/a", `{"kind":"plain","on_unknown":7}`, 422); p.Errors[0].Message != `must be "hold" or "retry"` {
		t.Errorf("a number: %+v", p)
	}
}
