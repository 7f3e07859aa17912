package concern_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// waits makes a consumer group for which so many messages wait that come now.
func (w *world) waits(name string, messages int) {
	w.Helper()
	for shard := range w.Ring.Shards() {
		if _, err := w.Ring.Streams().EnsureGroup(w.Context(), shard, name, circulate.StreamEnd); err != nil {
			w.Fatal(err)
		}
	}
	for i := range messages {
		w.Do("XADD", w.Key(0, "messages"), "*", "account", "a", "kind", "k", "id", fmt.Sprint(i), "type", "t", "time", "", "data", "{}")
	}
}

// reads has a consumer read and acknowledge so many messages of a group.
func (w *world) reads(name string, messages int) {
	w.Helper()
	lease, _, err := group.Of(w.Ring).Member(name, "consumer00", time.Minute).Lease(w.Context(), 0)
	if err != nil || lease == nil {
		w.Fatal(lease, err)
	}
	batch, err := group.Of(w.Ring).Read(w.Context(), lease, messages, 1<<20, false)
	if err != nil {
		w.Fatal(err)
	}
	for _, m := range batch.Messages {
		if _, err := group.Of(w.Ring).Acknowledge(w.Context(), 0, name, []string{m.Position}); err != nil {
			w.Fatal(err)
		}
	}
}

// lags returns the concern about groups that lag, which must be the only one.
func (w *world) lags() concern.Concern {
	w.Helper()
	l := w.expect(concern.GroupLagging)
	if len(l.Concerns) == 0 {
		w.FailNow()
	}
	return l.Concerns[0]
}

// A group that a monitor told of is judged as it is now: it lags two minutes after its oldest
// message came, since a moment that stays, and no longer than until that is read or the group is
// removed.
func TestAGroupIsJudgedAsItIsNow(t *testing.T) {
	faketime.Run(t, 2, func(fw *faketime.World) {
		w := &world{World: fw}
		w.waits("crm", 3)
		came := time.Now()
		time.Sleep(100 * time.Second)
		w.report()
		w.tell(concern.Watched{
			Counted: &concern.Counted{Registered: 3},
			Groups:  &concern.Groups{All: []concern.Group{{Name: "crm", Messages: 3, Oldest: 100}}},
		})
		time.Sleep(19 * time.Second)
		w.report()
		w.expect()
		for range 3 {
			time.Sleep(time.Second)
			w.report()
			if c := w.lags(); !c.Since.Equal(came.Add(2*time.Minute)) || !c.AsOf.IsZero() || c.Seconds != time.Since(came).Seconds() || c.Value != concern.NoConsumer {
				t.Errorf("it came %v: %+v", came, c)
			}
		}
		w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		if _, err := w.Ring.Now(w.Context(), 0); err == nil {
			t.Fatal("Redis answered")
		}
		time.Sleep(time.Second)
		w.Miniredis().SetError("")
		w.report()
		if c := w.lags(); c.Value != "" {
			t.Errorf("just after an outage: %+v", c)
		}
		if _, err := group.Of(w.Ring).Member("crm", "consumer00", time.Minute).Join(w.Context(), group.Condition{Deferred: "no table"}); err != nil {
			t.Fatal(err)
		}
		if c := w.lags(); c.Value != "no table" {
			t.Errorf("%+v", c)
		}
		w.reads("crm", 2)
		if c := w.lags(); c.Messages != 1 {
			t.Errorf("%+v", c)
		}
		w.reads("crm", 1)
		w.expect()

		w.waits("crm", 1)
		w.tell(concern.Watched{
			Counted: &concern.Counted{Registered: 3},
			Groups:  &concern.Groups{All: []concern.Group{{Name: "crm", Messages: 1}}},
		})
		time.Sleep(119 * time.Second)
		w.report()
		w.expect()
		time.Sleep(time.Second)
		w.report()
		w.expect() // the last report is too old by now
		w.tell(concern.Watched{
			Counted: &concern.Counted{Registered: 3},
			Groups:  &concern.Groups{All: []concern.Group{{Name: "crm", Messages: 1, Oldest: 120}}},
		})
		w.lags()
		if _, err := group.Of(w.Ring).Remove(w.Context(), "crm"); err != nil {
			t.Fatal(err)
		}
		w.expect()
	})
}

// A webhook whose secret is missing says so with its messages, however short they have waited.
func TestAWebhookSaysWhyItIsNotReady(t *testing.T) {
	faketime.Run(t, 1, func(fw *faketime.World) {
		w := &world{World: fw}
		w.waits("webhook.crm", 4)
		w.report()
		if err := document.Of(w.Ring).Endpoints().Report(w.Context(), "p1", []document.Report{{Endpoint: "crm", Messages: 4}}); err != nil {
			t.Fatal(err)
		}
		if _, err := group.Of(w.Ring).Member("webhook.crm", "consumer00", time.Minute).Join(w.Context(), group.Condition{Deferred: "secret CRM: not found"}); err != nil {
			t.Fatal(err)
		}
		w.tell(concern.Watched{Counted: &concern.Counted{}, Groups: &concern.Groups{All: []concern.Group{{Name: "webhook.crm", Messages: 4}}}})
		time.Sleep(5 * time.Second)
		l := w.expect(concern.WebhookRefused)
		if c := l.Concerns[0]; c.Value != "secret CRM: not found" || !c.AsOf.IsZero() || !c.Since.Equal(time.Now().Add(-5*time.Second)) {
			t.Errorf("%+v", c)
		}
	})
}

// Only the groups that wait longest are looked at again. The others are as they were told, and
// say of when.
func TestFewGroupsAreLookedAtAgain(t *testing.T) {
	faketime.Run(t, 1, func(fw *faketime.World) {
		w := &world{World: fw}
		began := time.Now().Add(-time.Minute).UTC()
		told := &concern.Groups{}
		for i := range 10 {
			told.All = append(told.All, concern.Group{Name: fmt.Sprint("g", i), Messages: 1, Oldest: float64(600 + i), Since: began})
		}
		w.report()
		w.tell(concern.Watched{Counted: &concern.Counted{}, Groups: told})
		at := time.Now()
		time.Sleep(5 * time.Second)
		w.report()
		// None of them exists. Two are not asked for.
		if c := w.lags(); c.Count != 2 || c.Subject != "g1" || !c.Since.Equal(began) || !c.AsOf.Equal(at) {
			t.Errorf("%+v", c)
		}
	})
}
