package concern_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/faketime"
)

type world struct {
	*faketime.World
	redis concern.Redis
}

// expect expects exactly these concerns, in their order.
func (w *world) expect(codes ...concern.Code) concern.Concerns {
	w.Helper()
	l, err := concern.Collect(w.Context(), w.sources())
	if err != nil {
		w.Fatal(err)
	}
	var got []concern.Code
	for _, c := range l.Concerns {
		got = append(got, c.Code)
	}
	if !slices.Equal(got, codes) {
		w.Errorf("got %v, want %v", got, codes)
	}
	return l
}

func (w *world) sources() concern.Sources {
	return concern.Sources{
		Ring: w.Ring, Registry: accounts.NewRegistry(w.Ring, nil), DeadAfter: 10 * time.Second,
		Redis: func(context.Context) concern.Redis { return w.redis },
	}
}

// report lets the processes of a service report themselves.
func (w *world) report() {
	w.Helper()
	text := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			w.Fatal(err)
		}
		return text
	}
	about := text(accounts.ProcessReport{Version: "v1", Since: time.Now().Add(-time.Hour)})
	if _, err := w.Ring.Roster().Attend(w.Context(), circulate.Process{Name: "p1", Roles: "poller,monitor,delivery"}, about); err != nil {
		w.Fatal(err)
	}
	if _, err := w.Ring.Heartbeat(w.Context(), "replica000", text(accounts.Report{Kinds: []string{"feed"}}), time.Minute); err != nil {
		w.Fatal(err)
	}
	if err := document.Of(w.Ring).Endpoints().Report(w.Context(), "p1", []document.Report{{Endpoint: "crm", Outcome: "delivered", Status: 200}}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) tell(watched concern.Watched) {
	w.Helper()
	if err := watched.Tell(w.Context(), w.Ring); err != nil {
		w.Fatal(err)
	}
}

// What people say about a concern holds for its code or its subject, until its time, and until the
// concern begins anew if they have only seen it.
func TestSilencedAndSeen(t *testing.T) {
	faketime.Run(t, 2, func(fw *faketime.World) {
		w := &world{World: fw}
		w.report()
		w.redis = concern.Redis{{Node: "r1", Code: "appendonly"}, {Node: "r2", Code: "appendonly"}}
		silences, ctx := concern.SilencesOf(w.Ring), w.Context()
		find := func(node string) (found concern.Concern, healthyButFor bool) {
			l, err := concern.Collect(ctx, w.sources())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range l.Concerns {
				if c.Code == concern.RedisAppendOnly && (node == "" || c.Subject == node) {
					return c, l.Healthy
				}
			}
			t.Fatalf("no concern about %s: %+v", node, l.Concerns)
			return found, false
		}
		if c, _ := find(""); c.Count != 2 || c.Silenced != nil || c.Seen != nil {
			t.Errorf("nobody has said anything: %+v", c)
		}
		if err := silences.Silence(ctx, concern.RedisAppendOnly, "r1", time.Now().Add(time.Hour), "eve", "a test"); err != nil {
			t.Fatal(err)
		}
		if c, _ := find("r1"); c.Silenced == nil || c.Silenced.By != "eve" || c.Silenced.Reason != "a test" || c.Count != 0 {
			t.Errorf("silent: %+v", c)
		}
		if c, _ := find("r2"); c.Silenced != nil {
			t.Errorf("another server: %+v", c)
		}
		if codes, err := silences.Silenced(ctx); err != nil || len(codes) != 0 {
			t.Errorf("all of a code are silent: %v, %v", codes, err)
		}
		if err := silences.Silence(ctx, concern.RedisAppendOnly, "", time.Now().Add(time.Hour), "eve", "a test"); err != nil {
			t.Fatal(err)
		}
		if codes, err := silences.Silenced(ctx); err != nil || !slices.Equal(codes, []concern.Code{concern.RedisAppendOnly}) {
			t.Errorf("silent codes: %v, %v", codes, err)
		}
		if c, _ := find(""); c.Count != 2 || c.Silenced == nil {
			t.Errorf("both: %+v", c)
		}
		time.Sleep(time.Hour)
		if c, _ := find(""); c.Silenced != nil {
			t.Errorf("after its end: %+v", c)
		}
		if err := silences.Acknowledge(ctx, concern.RedisAppendOnly, "", "eve", "seen"); err != nil {
			t.Fatal(err)
		}
		if c, _ := find(""); c.Seen == nil || c.Seen.Note != "seen" || c.Silenced != nil {
			t.Errorf("seen: %+v", c)
		}
		for _, want := range []bool{true, false} {
			if there, err := silences.Unsilence(ctx, concern.RedisAppendOnly, ""); err != nil || there != want {
				t.Error(there, err)
			}
		}
		if c, _ := find(""); c.Seen != nil {
			t.Errorf("forgotten: %+v", c)
		}
		var faults accounts.Faults
		for want, err := range map[string]error{
			"code":   silences.Silence(ctx, "odd", "", time.Now().Add(time.Hour), "eve", "why"),
			"reason": silences.Silence(ctx, concern.Overdue, "", time.Now().Add(time.Hour), "eve", " "),
			"until":  silences.Silence(ctx, concern.Overdue, "", time.Now().Add(31*24*time.Hour), "eve", "why"),
			"until ": silences.Silence(ctx, concern.Overdue, "", time.Now(), "eve", "why"),
		} {
			if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != strings.TrimSpace(want) {
				t.Errorf("%s: %v", want, err)
			}
		}
	})
}

// A service is watched from its beginning to its end: concerns that begin show, concerns
// that end are gone, and outdated ones do not show as current.
func TestCollect(t *testing.T) {
	faketime.Run(t, 2, func(fw *faketime.World) {
		w := &world{World: fw}
		w.waits("webhook.crm", 6)
		w.waits("own", 1) // and the seventh of the other
		time.Sleep(15 * time.Minute)
		if l := w.expect(concern.NoReplica, concern.NoMonitor); l.Healthy || !l.Watched.IsZero() {
			w.Errorf("%+v", l)
		}
		w.report()
		w.tell(concern.Watched{Counted: &concern.Counted{Registered: 3, Waiting: 2, Overdue: 1}})
		if l := w.expect(); !l.Healthy || !l.Watched.Equal(time.Now()) || !l.Now.Equal(time.Now()) {
			w.Errorf("%+v", l)
		}
		w.redis = concern.Redis{{Node: "n", Code: "appendonly"}}
		late := concern.Watched{
			Counted: &concern.Counted{Registered: 3, Waiting: 2, Overdue: 300},
			Groups:  &concern.Groups{All: []concern.Group{{Name: "webhook.crm", Messages: 7, Oldest: 900}, {Name: "own", Messages: 1, Oldest: 900}}},
			Dead:    &concern.Dead{Letters: 2, Age: concern.Age{Seconds: 200}},
		}
		began := time.Now()
		w.tell(late)
		w.expect(concern.RedisAppendOnly, concern.Overdue, concern.GroupLagging, concern.DeadLetters)
		if _, err := w.Ring.Endpoints().Disable(w.Context(), "crm", "410"); err != nil {
			w.Fatal(err)
		}
		l := w.expect(concern.WebhookDisabled, concern.RedisAppendOnly, concern.Overdue, concern.GroupLagging, concern.DeadLetters)
		if c := l.Concerns[0]; c.Subject != "crm" || c.Messages != 7 || c.Seconds != 900 || c.Value != "410" || c.Link != "/delivery" {
			w.Errorf("%+v", c)
		}
		if c := l.Concerns[3]; c.Subject != "own" || c.Count != 0 {
			w.Errorf("%+v", c)
		}
		if _, err := w.Ring.Endpoints().Enable(w.Context(), "crm"); err != nil {
			w.Fatal(err)
		}
		w.redis = nil
		time.Sleep(100 * time.Second)
		w.report()
		l = w.expect(concern.Overdue, concern.GroupLagging) // the dead letters were looked at long before
		for _, c := range l.Concerns {
			since, asOf := began.Add(-3*time.Minute), began // overdue since two minutes after the longest was due
			if c.Code == concern.GroupLagging {
				since, asOf = began.Add(-13*time.Minute), time.Time{} // the group was looked at just now
			}
			if !c.AsOf.Equal(asOf) || !c.Since.Equal(since) {
				w.Errorf("as of %v, since %v; told %v: %+v", c.AsOf, c.Since, l.Watched, c)
			}
		}
		time.Sleep(20 * time.Second)
		w.report()
		w.expect(concern.Overdue) // within two minutes a group may have read everything
		time.Sleep(180 * time.Second)
		w.report()
		w.expect(concern.WatchOld)
		w.tell(concern.Watched{Counted: &concern.Counted{}})
		w.expect()
		time.Sleep(time.Minute)
		w.expect(concern.NoReplica, concern.NoMonitor, concern.ProcessSilent)
	})
}

// Documents of other programs and versions are no concerns, and no error.
func TestCollectDespiteStrangers(t *testing.T) {
	faketime.Run(t, 2, func(fw *faketime.World) {
		w := &world{World: fw}
		for _, text := range []string{"[]", `{"counted":7}`, "{", `{"groups":{"all":[{"name":1}]}}`} {
			if _, err := document.Of(w.Ring).Notices().Post(w.Context(), "watch", []byte(text)); err != nil {
				w.Fatal(err)
			}
			w.report()
			w.expect(concern.WatchOld)
		}
		w.Do("HSET", "{rounds:webhooks}:reports", "p2", "no report")
		w.Do("ZADD", "{rounds:webhooks}:reporters", time.Now().UnixMilli(), "p2")
		if _, err := w.Ring.Heartbeat(w.Context(), "replica001", []byte("no report"), time.Minute); err != nil {
			w.Fatal(err)
		}
		w.expect(concern.WatchOld)
	})
}

// Nobody is silent because Redis was away: heartbeats have until deadAfter after its return.
// A process that was silent before stays silent.
func TestNobodyIsSilentBecauseRedisWasAway(t *testing.T) {
	for name, away := range map[string]time.Duration{"a minute": time.Minute, "so long that all are forgotten": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			faketime.Run(t, 2, func(fw *faketime.World) {
				w := &world{World: fw}
				w.report()
				w.tell(concern.Watched{})
				if _, err := w.Ring.Roster().Attend(w.Context(), circulate.Process{Name: "p2", Roles: "api"}, nil); err != nil {
					w.Fatal(err)
				}
				time.Sleep(15 * time.Second)
				w.report()
				w.tell(concern.Watched{})
				w.expect(concern.ProcessSilent)
				time.Sleep(time.Second)
				w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
				for range away / time.Second {
					if _, err := concern.Collect(w.Context(), w.sources()); err == nil {
						w.Fatal("Redis answered")
					}
					time.Sleep(time.Second)
				}
				w.Miniredis().SetError("")
				still := []concern.Code{concern.ProcessSilent}
				if away > 10*time.Minute {
					still = nil // p2, too
				}
				w.expect(still...)
				time.Sleep(9 * time.Second)
				w.expect(still...)
				time.Sleep(2 * time.Second)
				w.expect(append([]concern.Code{concern.NoReplica, concern.NoMonitor}, still...)...)
			})
		})
	}
}

// Redis comes back with a snapshot from long before, or with nothing. The processes live all
// the same, and have deadAfter to say so.
func TestNobodyIsDeadBecauseRedisCameBackWithLess(t *testing.T) {
	const replicasKey, rosterKey = "rounds:replicas", "{rounds:replicas}:processes"
	for name, lose := range map[string]func(w *world){
		"a snapshot": func(w *world) {
			before := time.Now().Add(-5 * time.Minute).UnixMilli()
			for _, key := range []string{replicasKey, rosterKey, rosterKey + ":seen"} {
				for _, member := range w.Do("ZRANGE", key, 0, -1).([]any) {
					w.Do("ZADD", key, before, member)
				}
			}
		},
		"nothing": func(w *world) { w.Do("DEL", replicasKey, rosterKey, rosterKey+":seen") },
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Run(t, 2, func(fw *faketime.World) {
				w := &world{World: fw}
				w.report()
				w.tell(concern.Watched{})
				w.expect()
				w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
				if _, err := concern.Collect(w.Context(), w.sources()); err == nil {
					w.Fatal("Redis answered")
				}
				time.Sleep(time.Second)
				w.Miniredis().SetError("")
				lose(w)
				w.expect()
				time.Sleep(2 * time.Second)
				w.report()
				w.expect()
				time.Sleep(10 * time.Second)
				w.expect(concern.NoReplica, concern.NoMonitor, concern.ProcessSilent)
			})
		})
	}
}

// While Redis is away, nobody learns that all is well.
func TestCollectFails(t *testing.T) {
	faketime.Run(t, 2, func(fw *faketime.World) {
		w := &world{World: fw}
		w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		if l, err := concern.Collect(w.Context(), w.sources()); err == nil || l.Healthy {
			w.Errorf("got %+v, %v", l, err)
		}
		w.Miniredis().SetError("")
	})
}
