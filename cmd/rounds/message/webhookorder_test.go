package message

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// holdsUp lets a webhook's group read all messages. A process reports that the first message
// of each account waits.
func holdsUp(t *testing.T, ring *circulate.Ring, process, name string, accounts int) {
	t.Helper()
	ctx := context.Background()
	report := document.Report{Endpoint: name, Status: 400, Outcome: "rejected", At: time.Now(), Breaker: "closed", Most: 34, Accounts: accounts}
	seen := make(map[string]bool)
	for shard := range ring.Shards() {
		if _, err := ring.Streams().EnsureGroup(ctx, shard, WebhookGroup+name, circulate.StreamStart); err != nil {
			t.Fatal(err)
		}
		lease, _, err := group.Of(ring).Member(WebhookGroup+name, reader, time.Minute).Lease(ctx, shard)
		if err != nil || lease == nil {
			t.Fatal(lease, err)
		}
		batch, err := group.Of(ring).Read(ctx, lease, group.MaxRead, 1<<20, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range batch.Messages {
			if !seen[m.Account] {
				report.Waiting = append(report.Waiting, document.Waiting{Account: m.Account, Shard: shard, Position: m.Position, Failed: 3, Next: time.Now(), Why: "answered 400"})
			}
			seen[m.Account] = true
		}
	}
	if err := document.Of(ring).Endpoints().Report(ctx, process, []document.Report{report}); err != nil {
		t.Fatal(err)
	}
}

func TestWebhookOrders(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newWorld(t, server, 4)
		if _, err := r.RetryWebhook(ctx, "crm", ""); !errors.Is(err, ErrNoWebhook) {
			t.Errorf("of none: %v", err)
		}
		for _, id := range []string{"a", "b", "c"} {
			stream(t, r, ring, id, 2)
		}
		holdsUp(t, ring, "process001", "crm", 3)
		said := group.Condition{Deferred: "secret CRM: is nowhere"}
		if _, err := group.Of(ring).Member(WebhookGroup+"crm", reader, time.Minute).Join(ctx, said); err != nil {
			t.Fatal(err)
		}
		if w, err := r.Webhook(ctx, "crm"); err != nil || w.Deferred != said.Deferred {
			t.Errorf("puts off: %+v, %v", w, err)
		}
		if all, err := r.Webhooks(ctx); err != nil || len(all) != 1 || all[0].Deferred != said.Deferred {
			t.Errorf("puts off: %+v, %v", all, err)
		}
		_, position, _, err := document.Of(ring).Endpoints().Orders(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		if done, err := r.RetryWebhook(ctx, "crm", "a"); err != nil || done != (WebhookRetry{Processes: 1, Accounts: 1}) {
			t.Errorf("%+v, %v", done, err)
		}
		if done, err := r.RetryWebhook(ctx, "crm", ""); err != nil || done != (WebhookRetry{Processes: 1, Accounts: 3}) {
			t.Errorf("%+v, %v", done, err)
		}
		if _, err := r.RetryWebhook(ctx, "crm", "z"); !errors.Is(err, ErrNoneWaits) {
			t.Errorf("of no account: %v", err)
		}
		orders, position, _, err := document.Of(ring).Endpoints().Orders(ctx, position)
		if err != nil || len(orders) != 2 || orders[0] != (document.Order{Endpoint: "crm", Action: document.Retry, Account: "a"}) || orders[1].Account != "" {
			t.Errorf("orders %v, %v", orders, err)
		}

		if _, err := r.SkipWebhook(ctx, "crm", WebhookChoice{}); !errors.Is(err, ErrSeveralWait) {
			t.Errorf("several: %v", err)
		}
		if _, err := r.SkipWebhook(ctx, "crm", WebhookChoice{Account: "z"}); !errors.Is(err, ErrNoneWaits) {
			t.Errorf("of no account: %v", err)
		}
		done, err := r.SkipWebhook(ctx, "crm", WebhookChoice{Account: "b"})
		if err != nil || len(done.Skipped) != 1 || done.Skipped[0].Account != "b" || done.Gone != 0 {
			t.Errorf("%+v, %v", done, err)
		}
		done, err = r.SkipWebhook(ctx, "crm", WebhookChoice{All: true}) // the last report still names b, which was skipped already
		if err != nil || len(done.Skipped) != 2 || done.Gone != 1 || done.Left != 0 {
			t.Errorf("%+v, %v", done, err)
		}
		letters := walkDead(t, r, DeadQuery{Limit: 10, Group: "webhook.crm"})
		if len(letters) != 3 || letters[0].Error != "skipped by an operator: answered 400" {
			t.Errorf("%+v", letters)
		}
		orders, _, _, err = document.Of(ring).Endpoints().Orders(ctx, position)
		if err != nil || len(orders) != 2 || orders[0] != (document.Order{Endpoint: "crm", Action: document.Refresh, Account: "b"}) {
			t.Errorf("orders %v, %v", orders, err)
		}

		// More accounts wait than the process reports by name.
		holdsUp(t, ring, "process001", "crm", 600)
		if _, err := r.SkipWebhook(ctx, "crm", WebhookChoice{Account: "z"}); !errors.Is(err, ErrNotNamed) {
			t.Errorf("of an account that is not named: %v", err)
		}
		if _, err := ring.Endpoints().Disable(ctx, "crm", "answered 410 Gone"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.RetryWebhook(ctx, "crm", ""); !errors.Is(err, ErrWebhookDisabled) {
			t.Errorf("of one that is disabled: %v", err)
		}
		if w, err := r.EnableWebhook(ctx, "crm"); err != nil || w.Disabled != nil || w.Standing == nil {
			t.Errorf("%+v, %v", w, err)
		}
		if err := document.Of(ring).Endpoints().Withdraw(ctx, "process001"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.RetryWebhook(ctx, "crm", ""); !errors.Is(err, ErrWebhookIdle) {
			t.Errorf("where nobody delivers: %v", err)
		}
	})
}

func TestStandingOfSeveralProcesses(t *testing.T) {
	now := time.UnixMilli(1795226313819)
	s := standingOf([]document.Report{
		{Status: 204, Outcome: "delivered", At: now, Delivered: now, Breaker: "closed", Most: 34},
		{Status: 400, Outcome: "rejected", At: now.Add(-time.Minute), Breaker: "open", Until: now.Add(time.Minute), Most: 34, Accounts: 3, Messages: 7,
			Waiting: []document.Waiting{{Account: "b", Failed: 2, Next: now.Add(time.Hour)}, {Account: "a", Failed: 9, Next: now.Add(2 * time.Hour)}}},
		{Breaker: "half-open", Accounts: 1, Messages: 1, Waiting: []document.Waiting{{Account: "c", Next: now.Add(time.Second)}}},
	})
	if s.Processes != 3 || s.LastStatus != 204 || !s.LastAttempt.Equal(now) || !s.LastDelivered.Equal(now) || s.Breaker != "open" || !s.Until.Equal(now.Add(time.Minute)) ||
		s.Accounts != 4 || s.Messages != 8 || s.Attempt != 9 || s.MaxDeliveries != 34 || !s.Next.Equal(now.Add(time.Second)) || s.Waiting[0].Account != "c" || s.namesAll() {
		t.Errorf("%+v", s)
	}
	if standingOf(nil) != nil {
		t.Error("nobody says anything")
	}
}

func TestDecodeWebhookChoice(t *testing.T) {
	for text, want := range map[string]WebhookChoice{
		"": {}, " ": {}, "{}": {}, `{"account":null}`: {}, `{"account":"a b"}`: {Account: "a b"}, `{"all":true}`: {All: true},
	} {
		if got, err := DecodeWebhookChoice([]byte(text), true); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, fields := range map[string]int{
		`{"account":1}`: 1, `{"account":""}`: 1, `{"all":1,"accounts":["a"]}`: 2, `{"account":"a","all":true}`: 1, `[]`: 1, `{`: 1,
	} {
		var faults strict.Faults
		if _, err := DecodeWebhookChoice([]byte(text), true); !errors.As(err, &faults) || len(faults) != fields {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := DecodeWebhookChoice([]byte(`{"all":true}`), false); err == nil {
		t.Error("a retry has no all")
	}
}
