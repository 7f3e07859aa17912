package api

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

const reader = "reader0000"

// finds registers an account whose check finds messages, numbered from 0.
func (f *fixture) finds(id string, n int) {
	f.Helper()
	ctx := context.Background()
	f.call("POST", "/v1/accounts", fmt.Sprintf(`{"id":%q,"kind":"plain"}`, id), 201, nil)
	shard := f.ring.ShardOf(id)
	batch, err := f.ring.Claim(ctx, shard, "replica001", 100, 0)
	if err != nil || len(batch.Claims) != 1 {
		f.Fatal(batch, err)
	}
	messages := make([]circulate.Message, n)
	for i := range messages {
		messages[i] = circulate.Message{ID: fmt.Sprint(i), Data: []byte(`{"n":1}`)}
	}
	_, err = f.ring.Return(ctx, shard, []circulate.Return{{Claim: &batch.Claims[0], Kind: "plain", Messages: messages, Park: "done"}})
	if err != nil {
		f.Fatal(err)
	}
}

// buries lets a group read all messages and handle none of them. All become dead letters.
func (f *fixture) buries(name string) {
	f.Helper()
	ctx := context.Background()
	for shard := range f.ring.Shards() {
		if _, err := f.ring.Streams().EnsureGroup(ctx, shard, name, circulate.StreamStart); err != nil {
			f.Fatal(err)
		}
		lease, _, err := group.Of(f.ring).Member(name, reader, time.Minute).Lease(ctx, shard)
		if err != nil || lease == nil {
			f.Fatal(lease, err)
		}
		batch, err := group.Of(f.ring).Read(ctx, lease, group.MaxRead, 1<<20, false)
		if err != nil {
			f.Fatal(err)
		}
		for _, m := range batch.Messages {
			if _, err := group.Of(f.ring).Bury(ctx, lease, group.Pending{Position: m.Position, Deliveries: 8}, "answered 400 Bad Request"); err != nil {
				f.Fatal(err)
			}
		}
	}
}

func TestGroupsAreReadListedAndRemoved(t *testing.T) {
	f := newFixture(t, nil)
	f.finds("a", 3)
	f.finds("b", 2)
	if got := f.errorReply("POST", "/v1/groups/crm/read", `{}`, 404); !strings.Contains(got.Detail, `{"from": "start"}, creates it`) {
		t.Errorf("of a new group: %s", got.Detail)
	}
	var batch GroupBatch
	f.call("POST", "/v1/groups/crm/read", `{"from":"start","limit":4}`, 200, &batch)
	if len(batch.Messages) != 4 || batch.Consumer == "" || batch.Messages[0].Handle == "" || batch.Messages[0].Delivery != 1 || batch.Messages[0].Kind != "plain" {
		t.Fatalf("%+v", batch)
	}
	round := fmt.Sprintf(`{"consumer":%q,"wait":"1ms","acknowledge":[%q,%q]}`, batch.Consumer, batch.Messages[0].Handle, batch.Messages[1].Handle)
	f.call("POST", "/v1/groups/crm/read", round, 200, &batch)
	if batch.Acknowledged != 2 || len(batch.Messages) != 3 {
		t.Errorf("%+v", batch)
	}
	f.call("POST", "/v1/groups/crm/read", round, 200, &batch)
	if batch.Acknowledged != 0 || len(batch.Messages) != 3 {
		t.Errorf("the same round once more: %+v", batch)
	}
	var list GroupList
	f.call("GET", "/v1/groups", "", 200, &list)
	if len(list.Groups) != 1 || list.Groups[0].Name != "crm" || list.Groups[0].Pending != 3 || !slices.Equal(list.Groups[0].Consumers, []string{batch.Consumer}) {
		t.Errorf("%+v", list)
	}
	f.call("DELETE", "/v1/groups/crm", "", 409, nil)
	got := f.call("POST", "/v1/groups/crm/read", fmt.Sprintf(`{"consumer":%q,"leave":true}`, batch.Consumer), 200, nil)
	if !strings.Contains(got.body, `"messages":[]`) {
		t.Errorf("left: %s", got.body)
	}
	f.call("DELETE", "/v1/groups/crm", "", 204, nil)
	f.call("DELETE", "/v1/groups/crm", "", 404, nil)
	if got := f.call("GET", "/v1/groups", "", 200, nil); got.body != "{\"groups\":[]}\n" {
		t.Errorf("none: %q", got.body)
	}
	if f.logs.Len() > 0 {
		t.Errorf("callers' mistakes were logged: %s", f.logs)
	}
}

func TestDeadLetters(t *testing.T) {
	f := newFixture(t, nil)
	f.finds("a", 3)
	f.finds("b/c", 2)
	f.buries("crm")
	var letters []DeadLetter
	for next := ""; ; {
		var list DeadList
		f.call("GET", "/v1/dead?group=crm&limit=2"+next, "", 200, &list)
		letters = append(letters, list.Dead...)
		if list.Next == "" {
			break
		}
		next = "&cursor=" + list.Next
	}
	if len(letters) != 5 {
		t.Fatalf("%+v", letters)
	}
	if l := letters[0]; l.DeadID == "" || l.Group != "crm" || l.Error != "answered 400 Bad Request" || l.Deliveries != 8 || l.Origin == "" || l.Account == "" || string(l.Data) != `{"n":1}` {
		t.Errorf("%+v", l)
	}
	if got := f.call("GET", "/v1/dead?group=other", "", 200, nil); got.body != "{\"dead\":[],\"total\":5}\n" {
		t.Errorf("none: %q", got.body)
	}
	var letter DeadLetter
	f.call("GET", "/v1/dead/"+letters[1].DeadID, "", 200, &letter)
	if !reflect.DeepEqual(letter, letters[1]) {
		t.Errorf("%+v, in the list %+v", letter, letters[1])
	}
	f.call("GET", "/v1/dead/0:1-1", "", 404, nil)
	var replayed Replayed
	body := fmt.Sprintf(`{"ids":[%q,"0:1-1"]}`, letters[0].DeadID)
	f.call("POST", "/v1/dead:replay", body, 200, &replayed)
	if replayed != (Replayed{Replayed: 1, NotFound: 1}) {
		t.Errorf("%+v", replayed)
	}
	var dropped Dropped
	f.call("POST", "/v1/dead:drop", fmt.Sprintf(`{"ids":[%q,%q]}`, letters[0].DeadID, letters[1].DeadID), 200, &dropped)
	if dropped != (Dropped{Dropped: 1, NotFound: 1}) {
		t.Errorf("%+v", dropped)
	}
	f.call("POST", "/v1/dead:replay", `{"group":"crm"}`, 200, &replayed)
	if replayed.Replayed != 3 || replayed.Next != "" {
		t.Errorf("%+v", replayed)
	}
	f.buries("crm") // those that were replayed
	f.call("POST", "/v1/dead:drop", `{"group":"crm"}`, 200, &dropped)
	if dropped != (Dropped{Dropped: 4}) {
		t.Errorf("all of a group: %+v", dropped)
	}
	f.call("POST", "/v1/dead:drop", `{"group":"crm"}`, 200, &dropped)
	if dropped != (Dropped{}) {
		t.Errorf("none is left: %+v", dropped)
	}
}

func TestGetMessage(t *testing.T) {
	f := newFixture(t, nil)
	f.finds("a", 2)
	f.buries("crm")
	var list MessageList
	f.call("GET", "/v1/messages", "", 200, &list)
	if len(list.Messages) != 2 {
		t.Fatalf("%+v", list)
	}
	var got DeliveredMessage
	ref := fmt.Sprintf("%d:%s", list.Messages[0].Shard, list.Messages[0].Position)
	f.call("GET", "/v1/messages/"+ref, "", 200, &got)
	if !reflect.DeepEqual(got.Message, list.Messages[0]) || got.Written.IsZero() || len(got.Deliveries) != 1 || got.Uncertain {
		t.Fatalf("%+v", got)
	}
	if d := got.Deliveries[0]; d.Group != "crm" || d.State != "dead" || d.DeadID == "" || d.Error != "answered 400 Bad Request" || d.Deliveries != 8 {
		t.Errorf("%+v", d)
	}
	// A caller who is bound to labels sees only messages of accounts with them, and no groups.
	bound := f.as(f.key(key.New{Name: "press", Role: access.Viewer, Labels: access.Labels{"team": "press"}}))
	bound.call("GET", "/v1/messages/"+ref, "", 404, nil)
	f.call("PUT", "/v1/accounts/a", `{"id":"a","kind":"plain","labels":{"team":"press"}}`, 200, nil)
	got = DeliveredMessage{}
	f.api.sight.known = nil // otherwise it counts for some seconds
	bound.call("GET", "/v1/messages/"+ref, "", 200, &got)
	if got.ID != list.Messages[0].ID || got.Deliveries != nil {
		t.Errorf("bound to labels: %+v", got)
	}
}

func TestWebhooks(t *testing.T) {
	f := newFixture(t, nil)
	if got := f.call("GET", "/v1/webhooks", "", 200, nil); got.body != "{\"webhooks\":[]}\n" {
		t.Errorf("none: %q", got.body)
	}
	f.buries("webhook.crm")
	if _, err := f.ring.Endpoints().Disable(context.Background(), "crm", "answered 410 Gone"); err != nil {
		t.Fatal(err)
	}
	var list WebhookList
	f.call("GET", "/v1/webhooks", "", 200, &list)
	if len(list.Webhooks) != 1 || !list.Webhooks[0].Disabled || list.Webhooks[0].Reason != "answered 410 Gone" || list.Webhooks[0].Since.IsZero() ||
		list.Webhooks[0].Group == nil || list.Webhooks[0].Group.Name != "webhook.crm" {
		t.Errorf("%+v", list)
	}
	for range 2 {
		var w Webhook
		f.call("POST", "/v1/webhooks/crm/enable", "", 200, &w)
		if w.Disabled || w.Name != "crm" || w.Group == nil {
			t.Errorf("%+v", w)
		}
	}
	f.call("POST", "/v1/webhooks/none/enable", "", 404, nil)
	f.call("GET", "/v1/webhooks/none", "", 404, nil)
	f.call("POST", "/v1/webhooks/crm/retry", "", 409, nil) // no process delivers
	f.call("POST", "/v1/webhooks/crm/skip", `{"all":true}`, 409, nil)
}

// says lets a process report the state of an endpoint.
func (f *fixture) says(r document.Report) {
	f.Helper()
	if err := document.Of(f.ring).Endpoints().Report(context.Background(), "process001", []document.Report{r}); err != nil {
		f.Fatal(err)
	}
}

func TestWebhooksThatDoNotTakeMessages(t *testing.T) {
	f := newFixture(t, nil)
	f.finds("a", 2)
	shard := f.ring.ShardOf("a")
	var batch GroupBatch
	f.call("POST", "/v1/groups/webhook.crm/read", `{"from":"start","limit":10}`, 200, &batch)
	now := time.Now().UTC().Round(time.Second)
	waiting := []document.Waiting{{Account: "a", Shard: shard, Position: batch.Messages[0].Position, Failed: 3, Behind: 1, Next: now.Add(time.Minute), Why: "webhook crm: answered 400"}}
	f.says(document.Report{Endpoint: "crm", Status: 400, Outcome: "rejected", At: now, Breaker: "closed", Most: 34, Accounts: 1, Messages: 2, Waiting: waiting})
	var list WebhookList
	f.call("GET", "/v1/webhooks", "", 200, &list)
	s := list.Webhooks[0].Standing
	if s == nil || s.LastStatus != 400 || s.LastOutcome != "rejected" || s.Attempt != 3 || s.MaxDeliveries != 34 || !s.NextTry.Equal(now.Add(time.Minute)) ||
		s.WaitingAccounts != 1 || s.WaitingMessages != 2 || s.Breaker != "closed" || s.Waiting != nil {
		t.Errorf("%+v", s)
	}
	var w Webhook
	f.call("GET", "/v1/webhooks/crm", "", 200, &w)
	if w.Standing == nil || len(w.Standing.Waiting) != 1 || w.Standing.Waiting[0].Attempt != 3 || w.Standing.Waiting[0].Error != "webhook crm: answered 400" {
		t.Errorf("%+v", w.Standing)
	}
	for process, attempts := range map[string][]document.Attempt{
		"process001": {{At: now, Status: 200, Outcome: "delivered"}, {At: now.Add(-time.Hour), Status: 400, Outcome: "rejected", Answer: "<b>", Took: time.Second, Address: "192.0.2.1:443"}},
		"process002": {{At: now.Add(-time.Minute), Outcome: "unreachable", Why: "refused", Account: "a"}},
	} {
		if err := document.Of(f.ring).Endpoints().Tried(t.Context(), process, map[string][]document.Attempt{"crm": attempts}); err != nil {
			t.Fatal(err)
		}
	}
	var tried WebhookAttempts
	f.call("GET", "/v1/webhooks/crm/attempts", "", 200, &tried)
	if a := tried.Attempts; len(a) != 3 || a[0].Error != "refused" || a[1].Answer != "<b>" || a[1].Took != 1 || a[1].Address != "192.0.2.1:443" || a[2].Outcome != "delivered" {
		t.Errorf("%+v", a)
	}
	f.call("GET", "/v1/webhooks/none/attempts", "", 404, nil)
	var retried WebhookRetried
	f.call("POST", "/v1/webhooks/crm/retry", "", 200, &retried)
	if retried != (WebhookRetried{Processes: 1, Accounts: 1}) {
		t.Errorf("%+v", retried)
	}
	f.call("POST", "/v1/webhooks/crm/retry", `{"account":"z"}`, 404, nil)
	f.call("POST", "/v1/webhooks/crm/skip", `{"account":"z"}`, 404, nil)
	var skipped WebhookSkipped
	f.call("POST", "/v1/webhooks/crm/skip", "", 200, &skipped)
	if len(skipped.Skipped) != 1 || skipped.Skipped[0].Account != "a" || skipped.Skipped[0].DeadID == "" {
		t.Errorf("%+v", skipped)
	}
	f.call("POST", "/v1/webhooks/crm/skip", "", 200, &skipped)
	if len(skipped.Skipped) != 0 || skipped.Gone != 1 {
		t.Errorf("once more: %+v", skipped)
	}
	f.says(document.Report{Endpoint: "crm", Accounts: 2, Waiting: append(waiting, waiting[0])})
	f.call("POST", "/v1/webhooks/crm/skip", "", 409, nil)
	var replayed Replayed
	f.call("POST", "/v1/dead:replay", `{"group":"webhook.crm"}`, 200, &replayed)
	if replayed.Replayed != 1 {
		t.Errorf("%+v", replayed)
	}
}

func TestFaultsOfDelivery(t *testing.T) {
	f := newFixture(t, nil)
	for _, tt := range []struct {
		method, path, body string
		status             int
		locations          []string
	}{
		{"GET", "/v1/dead?limit=0", "", 422, []string{"query.limit"}},
		{"GET", "/v1/dead?cursor=x", "", 422, []string{"query.cursor"}},
		{"GET", "/v1/dead?state=x", "", 422, nil},
		{"POST", "/v1/dead:replay", `{}`, 422, []string{"body.ids"}},
		{"POST", "/v1/dead:replay", `{"ids":["x"],"all":true}`, 422, []string{"body.all"}},
		{"POST", "/v1/dead:replay", `{"ids":["x","0:1-1",""]}`, 422, []string{"body.ids[0]", "body.ids[2]"}},
		{"POST", "/v1/dead:replay", `{"group":"crm","cursor":"x"}`, 422, []string{"body.cursor"}},
		{"POST", "/v1/dead:replay", `[]`, 400, []string{"body"}},
		{"POST", "/v1/dead:drop", `{"group":"crm","ids":["0:1-1"]}`, 422, []string{"body.ids"}},
		{"POST", "/v1/dead:drop", `{"group":"crm","cursor":"x"}`, 422, []string{"body.cursor"}},
		{"GET", "/v1/dead/x", "", 422, []string{"path.id"}},
		{"GET", "/v1/messages/1-1", "", 422, []string{"path.ref"}},
		{"GET", "/v1/messages/0:1-1", "", 404, nil},
		{"GET", "/v1/messages?after=now&before=now", "", 422, []string{"query.before"}},
		{"GET", "/v1/messages?before=x", "", 422, []string{"query.before"}},
		{"POST", "/v1/dead:drop", ``, 400, nil},
		{"GET", "/v1/dead:drop", "", 405, nil},
		{"POST", "/v1/groups/crm/read", `{"from":"then","limit":1001,"wait":"11s","consumer":"x","acknowledge":["x"]}`, 422,
			[]string{"body.consumer", "body.from", "body.limit", "body.wait", "body.acknowledge[0]"}},
		{"POST", "/v1/groups/crm/read", `{"start":true}`, 422, []string{"body.start"}},
		{"POST", "/v1/groups/a%20b/read", `{}`, 422, []string{"path.name"}},
		{"DELETE", "/v1/groups/a%2Fb", "", 422, []string{"path.name"}},
		{"POST", "/v1/webhooks/crm/retry", `{"all":true,"account":1}`, 422, []string{"body.account", "body.all"}},
		{"POST", "/v1/webhooks/crm/skip", `{"all":true,"account":"a"}`, 422, []string{"body.all"}},
		{"POST", "/v1/webhooks/crm/skip", `[]`, 400, []string{"body"}},
	} {
		var p problemBody
		f.call(tt.method, tt.path, tt.body, tt.status, &p)
		if tt.locations != nil && !slices.Equal(p.locations(), tt.locations) {
			t.Errorf("%s %s %.60s: faults at %v, want %v", tt.method, tt.path, tt.body, p.locations(), tt.locations)
		}
	}
}
