package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// find lets an account find messages with these ids.
func (f *fixture) find(account string, ids ...string) {
	f.Helper()
	ctx := context.Background()
	shard := f.ring.ShardOf(account)
	if _, err := f.ring.Register(ctx, shard, []circulate.Registration{{ID: account, Record: []byte(`{"id":"x","kind":"plain"}`)}}); err != nil {
		f.Fatal(err)
	}
	if err := f.ring.Account(account).Nudge(ctx, circulate.Nudge{}); err != nil {
		f.Fatal(err)
	}
	batch, err := f.ring.Claim(ctx, shard, "replica001", 100, 0)
	items, wrote := make([]circulate.Return, len(batch.Claims)), false
	for i := range items {
		items[i] = circulate.Return{Claim: &batch.Claims[i], Due: time.Now().Add(time.Hour), Kind: "plain"}
		if batch.Claims[i].ID != account {
			continue // it is due as well
		}
		wrote = true
		for _, id := range ids {
			items[i].Messages = append(items[i].Messages, circulate.Message{ID: id, Type: "note", Time: time.UnixMilli(1_700_000_000_123), Data: json.RawMessage(`{"n":1}`)})
		}
	}
	if err != nil || !wrote {
		f.Fatalf("claim of %s: %+v, %v", account, batch.Claims, err)
	}
	if outcomes, err := f.ring.Return(ctx, shard, items); err != nil || slices.ContainsFunc(outcomes, func(o circulate.Outcome) bool { return o != circulate.Written }) {
		f.Fatalf("return of %s: %v, %v", account, outcomes, err)
	}
	// Messages of the same millisecond are in the order of their shards. Wait, so that the
	// next ones are later.
	written, err := f.ring.Now(ctx, shard)
	for now := written; err == nil && now.UnixMilli() == written.UnixMilli(); {
		now, err = f.ring.Now(ctx, shard)
	}
	if err != nil {
		f.Fatal(err)
	}
}

func idsOf(list MessageList) string {
	var ids []string
	for _, m := range list.Messages {
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, " ")
}

func TestMessages(t *testing.T) {
	f := newFixture(t, nil)
	var empty MessageList
	got := f.call("GET", "/v1/messages", "", 200, &empty)
	if !strings.HasPrefix(got.body, `{"messages":[],"next":"`) {
		t.Errorf("empty: %s", got.body)
	}
	f.find("a", "a1", "a2")
	f.redis.SetClock(func() time.Time { return time.Now().Add(time.Second) }) // in the same millisecond the shard would decide
	f.find("b", "b1")
	var list MessageList
	got = f.call("GET", "/v1/messages?limit=2", "", 200, &list)
	if idsOf(list) != "a1 a2" || list.Next == "" {
		t.Fatalf("first page: %s", got.body)
	}
	m := list.Messages[0]
	if m.Account != "a" || m.Kind != "plain" || m.Type != "note" || string(m.Data) != `{"n":1}` || m.Shard != f.ring.ShardOf("a") || m.Position == "" {
		t.Errorf("message: %+v", m)
	}
	if !strings.Contains(got.body, `"time":"2023-11-14T22:13:20.123Z"`) {
		t.Errorf("time: %s", got.body)
	}
	var next MessageList
	f.call("GET", "/v1/messages?after="+list.Next, "", 200, &next)
	if idsOf(next) != "b1" {
		t.Errorf("second page: %s", idsOf(next))
	}
	f.call("GET", "/v1/messages?after="+empty.Next, "", 200, &next)
	if idsOf(next) != "a1 a2 b1" {
		t.Errorf("after an empty page: %s", idsOf(next))
	}
	var now MessageList
	f.call("GET", "/v1/messages?after=now", "", 200, &now)
	f.find("c", "c1")
	f.call("GET", "/v1/messages?after="+now.Next, "", 200, &next)
	if idsOf(now) != "" || idsOf(next) != "c1" {
		t.Errorf("from now: %q, then %q", idsOf(now), idsOf(next))
	}
}

// typed lets an account find a message of a type.
func (f *fixture) typed(account, id, kind string) {
	f.Helper()
	key := f.ring.Streams().Keys(f.ring.ShardOf(account)).Messages
	conn, err := f.redis.Conn(f.Context(), key)
	if err != nil {
		f.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do("XADD", key, "*", "account", account, "kind", "plain", "id", id, "type", kind, "time", "", "data", "{}"); err != nil {
		f.Fatal(err)
	}
}

// Pages back from the newest message, and pages on from where the first one began, leave nothing
// out and show nothing twice.
func TestMessagesFromTheNewestBack(t *testing.T) {
	f := newFixture(t, nil)
	f.find("a", "a1", "a2", "a3")
	f.find("b", "b1", "b2")
	f.find("a", "a4")
	var first, older, last, newer MessageList
	f.call("GET", "/v1/messages?before=now&limit=2", "", 200, &first)
	if idsOf(first) != "a4 b2" || !first.More || first.End == "" {
		t.Fatalf("the newest: %+v", first)
	}
	f.call("GET", "/v1/messages?limit=3&before="+first.Next, "", 200, &older)
	if idsOf(older) != "b1 a3 a2" || !older.More {
		t.Errorf("older: %+v", older)
	}
	f.call("GET", "/v1/messages?before="+older.Next, "", 200, &last)
	if idsOf(last) != "a1" || last.More {
		t.Errorf("the oldest: %+v", last)
	}
	f.call("GET", "/v1/messages?after="+older.End, "", 200, &newer)
	if idsOf(newer) != "b2 a4" {
		t.Errorf("newer than the second page: %s", idsOf(newer))
	}
	f.find("b", "b3")
	f.call("GET", "/v1/messages?after="+first.End, "", 200, &newer)
	if idsOf(newer) != "b3" {
		t.Errorf("since the first page: %s", idsOf(newer))
	}
	var one MessageList
	f.call("GET", "/v1/messages?before=now&account=a&limit=2", "", 200, &one)
	if idsOf(one) != "a4 a3" {
		t.Errorf("of one account: %s", idsOf(one))
	}
	var rest MessageList
	f.call("GET", "/v1/messages?before="+one.Next+"&account=a", "", 200, &rest)
	if idsOf(rest) != "a2 a1" || rest.More {
		t.Errorf("its older ones: %+v", rest)
	}
}

func TestMessagesAreFiltered(t *testing.T) {
	f := newFixture(t, nil)
	f.find("a", "a1", "a2")
	f.find("b", "b1")
	f.typed("a", "event", "event")
	for query, want := range map[string]string{
		"account=a":                        "a1 a2 event",
		"account=a&limit=1":                "a1",
		"account=a&type=event":             "event",
		"type=note":                        "a1 a2 b1",
		"type=note&before=now":             "b1 a2 a1",
		"type=event&limit=1&before=now":    "event",
		"kind=plain&account=b":             "b1",
		"kind=feed":                        "",
		"account=nobody&before=now":        "",
		"account=a%00&type=%3Cscript%3Eon": "",
	} {
		var list MessageList
		f.call("GET", "/v1/messages?"+query, "", 200, &list)
		if idsOf(list) != want || list.Next == "" {
			t.Errorf("%s: %q, want %q", query, idsOf(list), want)
		}
	}
	// A page goes on where it stopped, also in the middle of what was read for it.
	var list MessageList
	f.call("GET", "/v1/messages?type=note&limit=2", "", 200, &list)
	if idsOf(list) != "a1 a2" || !list.More {
		t.Errorf("a part: %+v", list)
	}
	var rest MessageList
	f.call("GET", "/v1/messages?type=note&limit=2&after="+list.Next, "", 200, &rest)
	if idsOf(rest) != "b1" || rest.More {
		t.Errorf("the rest: %+v", rest)
	}
}

func TestFollowFiltered(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.PollInterval = time.Hour })
	f.find("a", "a1")
	f.find("b", "b1")
	e := f.follow("?account=a&type=note", "")
	first := e.wantMessage("a1")
	f.typed("a", "event", "event")
	f.find("b", "b2")
	f.find("a", "a2")
	e.wantMessage("a2")
	e.cancel()
	e = f.follow("?type=event", first.id)
	e.wantMessage("event")
	e.cancel()

	r := f.request("GET", "/v1/messages?before=now", "")
	r.Header.Set("Accept", "text/event-stream")
	if got := f.do(r); got.status != 422 || !strings.Contains(got.body, "query.before") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// events reads a stream of server-sent events.
type events struct {
	*testing.T
	cancel  context.CancelFunc
	scanner *bufio.Scanner
}

type event struct {
	id      string
	message Message
	comment bool
}

func (f *fixture) follow(query, lastID string) *events {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := f.request("GET", "/v1/messages"+query, "").WithContext(ctx)
	r.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	response, err := f.server.Client().Do(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		cancel()
		_ = response.Body.Close()
	})
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		f.Fatalf("%d %v", response.StatusCode, response.Header)
	}
	return &events{T: f.T, cancel: cancel, scanner: bufio.NewScanner(response.Body)}
}

// next returns the next block: an event with a message, an id alone, or a comment.
func (e *events) next() (event, bool) {
	e.Helper()
	var got event
	seen := false
	for e.scanner.Scan() {
		line := e.scanner.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && seen:
			return got, true
		case name == "":
			got.comment = true
		case name == "id":
			got.id = value
		case name == "data":
			if err := json.Unmarshal([]byte(value), &got.message); err != nil {
				e.Fatalf("%v: %s", err, line)
			}
		case name != "retry":
			e.Fatalf("unexpected line %q", line)
		}
		seen = true
	}
	return got, false
}

func (e *events) wantMessage(id string) event {
	e.Helper()
	for {
		got, ok := e.next()
		if !ok {
			e.Fatalf("the stream ended before %s: %v", id, e.scanner.Err())
		}
		if got.message.ID == "" {
			continue
		}
		if got.message.ID != id || got.id == "" {
			e.Fatalf("got %+v, want %s", got, id)
		}
		return got
	}
}

func TestFollow(t *testing.T) {
	f := newFixture(t, nil)
	f.find("a", "a1", "a2")
	e := f.follow("", "")
	first := e.wantMessage("a1")
	e.wantMessage("a2")
	f.find("b", "b1") // while it follows
	last := e.wantMessage("b1")
	e.cancel()

	// A caller that reconnects misses no message and gets none twice.
	f.find("a", "a3")
	back := f.follow("?after=start", last.id)
	back.wantMessage("a3")
	back.cancel()
	back = f.follow("?after=now", first.id)
	back.wantMessage("a2")
	back.wantMessage("b1")
	back.wantMessage("a3")
	back.cancel()

	// This holds even for a caller without a message so far, because the opening event had its
	// position.
	e = f.follow("?after=now", "")
	opening, ok := e.next()
	if !ok || opening.id == "" || opening.message.ID != "" {
		t.Fatalf("opening: %+v", opening)
	}
	e.cancel()
	f.find("c", "c1")
	f.follow("", opening.id).wantMessage("c1")

	// The parameter after accepts the ids of events too.
	var list MessageList
	f.call("GET", "/v1/messages?after="+last.id, "", 200, &list)
	if idsOf(list) != "a3 c1" {
		t.Errorf("after an event: %s", idsOf(list))
	}
}

func TestFollowMany(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.PollInterval = time.Hour })
	var ids []string
	for i := range 394 {
		ids = append(ids, fmt.Sprint("m", i))
	}
	f.find("a", ids...)
	e := f.follow("", "")
	for _, id := range ids {
		e.wantMessage(id) // full pages follow each other at once
	}
}

func TestFollowHeartbeat(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.PollInterval, o.Heartbeat = time.Hour, time.Millisecond })
	e := f.follow("", "")
	if _, ok := e.next(); !ok {
		t.Fatal("no opening")
	}
	for range 3 {
		if got, ok := e.next(); !ok || !got.comment {
			t.Fatalf("%+v, %v", got, ok)
		}
	}
}

func TestFollowEnds(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.PollInterval = time.Hour })
	e := f.follow("", "")
	if _, ok := e.next(); !ok {
		t.Fatal("no opening")
	}
	// Shutdown waits for every request. Close ends those that would not end by themselves.
	f.server.Config.RegisterOnShutdown(f.api.Close)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.server.Config.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if got, ok := e.next(); ok || e.scanner.Err() != nil {
		t.Errorf("%+v, %v", got, e.scanner.Err())
	}
}

// If Redis fails, a follower's stream ends. The follower gets the error when it reconnects.
func TestFollowWithoutRedis(t *testing.T) {
	f := newFixture(t, nil)
	e := f.follow("", "")
	if _, ok := e.next(); !ok {
		t.Fatal("no opening")
	}
	f.redis.Miniredis().SetError("LOADING")
	for {
		if _, ok := e.next(); !ok {
			break
		}
	}
	if err := e.scanner.Err(); err != nil {
		t.Error(err)
	}
}

func TestFollowRefuses(t *testing.T) {
	f := newFixture(t, nil)
	r := f.request("GET", "/v1/messages", "")
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Last-Event-ID", "nonsense")
	if got := f.do(r); got.status != 422 || !strings.Contains(got.body, "header.Last-Event-ID") {
		t.Errorf("%d %s", got.status, got.body)
	}
	r = f.request(http.MethodHead, "/v1/messages", "")
	r.Header.Set("Accept", "text/event-stream")
	if got := f.do(r); got.status != 200 {
		t.Errorf("HEAD: %d", got.status)
	}
}

func TestFollowersAreLimited(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxFollowers = 1 })
	e := f.follow("", "")
	if _, ok := e.next(); !ok {
		t.Fatal("no opening")
	}
	request, err := http.NewRequest(http.MethodGet, f.server.URL+"/v1/messages", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	reply, err := f.server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusServiceUnavailable || reply.Header.Get("Retry-After") == "" {
		t.Errorf("a second follower: %s", reply.Status)
	}
}
