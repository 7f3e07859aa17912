package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
)

// A group that asks reads events beside messages. Nobody else sees any: neither another group, nor a
// list of messages, however small its pages.
func TestEventsAreForGroupsThatAsk(t *testing.T) {
	f := newFixture(t, sends(false))
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain","cadence":"every 0"}`, 201, nil)
	var crm, plain GroupBatch
	f.call("POST", "/v1/groups/crm/read", `{"from":"start","events":true}`, 200, &crm)
	f.call("POST", "/v1/groups/plain/read", `{"from":"start"}`, 200, &plain)
	if got := f.errorReply("POST", "/v1/groups/crm/read", `{"events":true}`, 422); !strings.Contains(fmt.Sprint(got.Errors[0]), "must be given together with from") {
		t.Errorf("without from: %+v", got)
	}
	var list GroupList
	f.call("GET", "/v1/groups", "", 200, &list)
	if len(list.Groups) != 2 || !list.Groups[0].Events || list.Groups[1].Events {
		t.Errorf("groups %+v", list)
	}

	find := func(id string) {
		t.Helper()
		shard := f.ring.ShardOf("a")
		batch, err := f.ring.Claim(f.Context(), shard, "replica001", 1, 0)
		if err != nil || len(batch.Claims) != 1 {
			t.Fatal(batch, err)
		}
		_, err = f.ring.Return(f.Context(), shard, []circulate.Return{{Claim: &batch.Claims[0], Kind: "plain", Messages: []circulate.Message{{ID: id, Type: "text", Data: []byte(`{"n":1}`)}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"1", "2", "3"}
	for _, id := range want {
		for n := range 3 {
			f.send("a", id+fmt.Sprint(n), `{"to":"anna","data":{"text":"hello"}}`, 202, nil)
			f.settle(f.attempt(), circulate.AttemptRejected, "nobody")
		}
		find(id)
	}

	f.call("POST", "/v1/groups/crm/read", fmt.Sprintf(`{"consumer":%q}`, crm.Consumer), 200, &crm)
	if len(crm.Messages) != 12 {
		t.Fatalf("the group that asked got %+v", crm.Messages)
	}
	event := crm.Messages[0]
	if !event.Event || event.Type != "send.rejected" || event.Account != "a" || event.Time.IsZero() || !strings.Contains(string(event.Data), `"code":"nobody"`) || strings.Contains(string(event.Data), "hello") {
		t.Errorf("event %+v: %s", event, event.Data)
	}
	f.call("POST", "/v1/groups/plain/read", fmt.Sprintf(`{"consumer":%q}`, plain.Consumer), 200, &plain)
	if len(plain.Messages) != 3 || plain.Messages[0].Event {
		t.Errorf("the group that did not ask got %+v", plain.Messages)
	}
	for _, limit := range []int{1, 2, 3, 100} {
		var got []string
		for path := fmt.Sprintf("/v1/messages?limit=%d", limit); ; {
			var page MessageList
			f.call("GET", path, "", 200, &page)
			for _, m := range page.Messages {
				got = append(got, m.ID)
			}
			if len(page.Messages) == 0 {
				break
			}
			path = fmt.Sprintf("/v1/messages?limit=%d&after=%s", limit, page.Next)
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d list %q", limit, got)
		}
	}
	var newest MessageList
	f.call("GET", "/v1/messages?before=now&limit=2", "", 200, &newest)
	if len(newest.Messages) != 2 || newest.Messages[0].ID != "3" || newest.Messages[1].ID != "2" {
		t.Errorf("the newest are %+v", newest.Messages)
	}
	f.send("a", "k", fmt.Sprintf(`{"reply_to":%q,"data":{"text":"hello"}}`, event.Handle), 422, nil)

	// A consumer that begins without asking ends it.
	f.call("POST", "/v1/groups/crm/read", fmt.Sprintf(`{"consumer":%q,"from":"start"}`, crm.Consumer), 200, nil)
	var after GroupList
	f.call("GET", "/v1/groups", "", 200, &after)
	if len(after.Groups) != 2 || after.Groups[0].Events {
		t.Errorf("groups %+v", after)
	}
}
