package poller_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// newer is a checker that older replicas do not have.
type newer struct{ scripted }

func (*newer) Kind() string { return "newer" }

// Accounts of a kind that only one of two replicas knows are checked, whichever replica their
// shards belong to. Nothing that the other replica does counts against them. The same holds
// for a cadence that a replica cannot read.
func TestWhatAReplicaDoesNotKnowIsLeftToOthers(t *testing.T) {
	inFakeTime(t, func(w *world) {
		ids := names("n", 20)
		for _, id := range ids {
			w.registerRecord(id, `{"id":"`+id+`","kind":"newer","cadence":"every 1m"}`)
			w.strike(id, 1)
		}
		other := w.another()
		known := &newer{scripted{seen: make(map[string][]call)}}
		// Every shard is the older replica's part.
		oldName, newName := circulate.NewReplica(), circulate.NewReplica()
		for alive := []string{oldName, newName}; circulate.Preferred(0, alive) != oldName || circulate.Preferred(1, alive) != oldName; alive[1] = newName {
			newName = circulate.NewReplica()
		}
		old := w.start(poller.Config{Replica: oldName})
		time.Sleep(10 * time.Minute)
		for _, id := range ids {
			if v := w.look(id); v.Place != circulate.Scheduled || v.Failures != 0 || v.Strikes != 1 || v.Error == "" {
				t.Fatalf("%s is %s with %d failures, %d strikes, %q", id, v.Place, v.Failures, v.Strikes, v.Error)
			}
		}
		if n := w.counted("rounds_put_back_total", "unknown_kind"); n < 200 || n > 20*20 {
			t.Errorf("they were given back %v times in ten minutes", n)
		}
		stop := other.startChecking(poller.Config{Replica: newName}, known, testLog(w.T))
		time.Sleep(10 * time.Minute)
		for _, id := range ids {
			if n := len(known.calls(id)); n < 8 {
				t.Errorf("%s was checked %d times in ten minutes", id, n)
			}
			if v := w.look(id); v.Place == circulate.Parked || v.Failures != 0 || v.Strikes != 0 {
				t.Errorf("%s is %s with %d failures, %d strikes", id, v.Place, v.Failures, v.Strikes)
			}
		}
		stop()
		old()
	})
}

// dated is a checker of a version that knows one field of its config, or also a later one.
type dated struct {
	scripted
	later bool
}

func (c *dated) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	config := strict.ReadConfig(r.Config)
	config.Take("url")
	if c.later {
		config.Take("quiet")
	}
	if err := config.Err(); err != nil {
		return poller.Result{}, poller.ConfigError(err)
	}
	return c.scripted.Check(ctx, r)
}

// An older replica leaves what it does not know to others, and never parks it: a cadence, a
// kind, a field of the record, a field of the config. Nothing counts against the account. A
// newer replica beside it checks on time what it knows.
func TestWhatLaterVersionsWriteIsNeverParked(t *testing.T) {
	inFakeTime(t, func(w *world) {
		reasons := map[string]string{"cadence": "unknown_cadence: ", "kind": "unknown_kind: ", "field": "unknown_field: ", "config": "unknown_field: config.quiet"}
		for id, record := range map[string]string{
			"cadence": `{"id":"cadence","kind":"scripted","cadence":"moon 28d"}`,
			"kind":    `{"id":"kind","kind":"newer","cadence":"every 1m"}`,
			"field":   `{"id":"field","kind":"scripted","cadence":"every 1m","quiet":["22:00","07:00"],"revision":[2,1,2]}`,
			"config":  `{"id":"config","kind":"scripted","cadence":"every 1m","config":{"url":"a","quiet":1}}`,
		} {
			w.registerRecord(id, record)
			w.strike(id, 1)
		}
		w.register("known", "every 1m")
		other := w.another()
		defer w.startChecking(poller.Config{}, &dated{scripted: scripted{seen: make(map[string][]call)}}, testLog(w.T))()
		time.Sleep(time.Hour)
		for id, reason := range reasons {
			if v := w.look(id); v.Place != circulate.Scheduled || v.Failures != 0 || v.Strikes != 1 || !strings.HasPrefix(v.Error, reason) {
				w.Errorf("%s is %s with %d failures, %d strikes, %q", id, v.Place, v.Failures, v.Strikes, v.Error)
			}
		}
		if n := w.counted("rounds_put_back_total", "unknown_field"); n < 2*60 || n > 2*2*60+4 {
			w.Errorf("accounts with unknown fields were returned %v times in an hour", n)
		}
		newer := &dated{scripted{seen: make(map[string][]call)}, true}
		defer other.startChecking(poller.Config{}, newer, testLog(w.T))()
		time.Sleep(time.Hour)
		// The older replica leaves the other accounts of the shard as well, so both replicas come
		// first equally often: 42 times in an hour, give or take 4. Chance decides each time, so
		// less than half of that means that the older replica stands in the way.
		if n := len(newer.calls("config")); n < 20 {
			w.Errorf("the newer replica checked the account %d times in an hour", n)
		}
		if v := w.look("config"); v.Failures != 0 || v.Place == circulate.Parked {
			w.Errorf("beside a newer replica it is %s with %d failures, %q", v.Place, v.Failures, v.Error)
		}
	})
}

// The same holds if the third party holds the account's calls: nothing counts against the account.
func TestAHeldAccountThatThisVersionDoesNotKnow(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			return poller.Result{}, &poller.CheckError{Kind: poller.Unsupported, Code: "unknown_field", Message: "config.quiet: unknown field"}
		}
		w.registerHeld("a", "30", "every 0")
		stop := w.startHolding(poller.Config{})
		defer stop()
		time.Sleep(time.Hour)
		if v := w.look("a"); v.Place != circulate.Scheduled || v.Failures != 0 || !strings.HasPrefix(v.Error, "unknown_field: ") {
			w.Errorf("it is %s with %d failures, %q", v.Place, v.Failures, v.Error)
		}
	})
}

func TestConfigError(t *testing.T) {
	read := func(config string) error {
		r := strict.ReadConfig(json.RawMessage(config))
		r.Text("url")
		return r.Err()
	}
	for config, want := range map[string]poller.ErrorKind{
		`{}`: poller.ConfigInvalid, `[]`: poller.ConfigInvalid, `{"url":7}`: poller.ConfigInvalid,
		`{"url":"a","b":1}`: poller.Unsupported, `{"url":7,"b":1}`: poller.Unsupported,
	} {
		if got := poller.ConfigError(read(config)); got.Kind != want || got.Message == "" || got.Unwrap() == nil {
			t.Errorf("%s: %v", config, got)
		}
	}
}
