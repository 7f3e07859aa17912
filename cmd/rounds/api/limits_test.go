package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/circulate/limit"
)

func TestLimits(t *testing.T) {
	f := newFixture(t, nil)
	if got := f.call("GET", "/v1/limits", "", 200, nil); !strings.Contains(got.body, `"limits":[],"more":0,"paused":[],"more_paused":0,"down":[],"more_down":0`) {
		t.Errorf("none: %s", got.body)
	}
	ledger := limit.NewLedger()
	for _, of := range []limit.Limit{{Name: "feed/slow.example", Every: time.Minute, Burst: 1}, {Name: "http", Concurrency: 3, Lease: time.Minute}} {
		asks := limit.Asks{Limit: of}
		for i := range 3 {
			asks.Asks = append(asks.Asks, limit.Ask{CheckID: fmt.Sprint(of.Name, i)})
		}
		answers, err := limit.Of(f.ring).Acquire(t.Context(), []limit.Asks{asks})
		if err != nil || answers[0].Err != nil {
			t.Fatal(err, answers)
		}
		ledger.Note(of, answers[0])
	}
	if err := limit.BoardOf(f.ring).Report(t.Context(), "replica001", ledger.Seen(time.Now())); err != nil {
		t.Fatal(err)
	}
	for _, corp := range []string{"ww1", "ww2"} {
		if _, err := credential.Of(f.ring).PauseOwner(t.Context(), "wecom-kf|"+corp+"|https://qyapi.example", "45009", time.Hour, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := limit.TroublesOf(f.ring).Do(t.Context(), []limit.TroubleStep{
		{Name: "http/down.example", What: limit.Failed, Cause: "http_503"}, {Name: limit.Via("http/far.example", "berlin"), What: limit.Failed, Cause: "connect"},
		{Name: "http/busy.example", What: limit.Paused, Wait: time.Minute, Cause: "http_429"},
	}); err != nil {
		t.Fatal(err)
	}
	var list LimitList
	f.call("GET", "/v1/limits", "", 200, &list)
	if len(list.Limits) != 2 || len(list.Paused) != 2 || list.Now.IsZero() {
		t.Fatalf("%+v", list)
	}
	slow, all := list.Limits[0], list.Limits[1]
	if slow.Kind != "feed" || slow.Key != "slow.example" || slow.Every != 60 || slow.Burst != 1 || slow.Taken != 1 || slow.Asked != 3 || slow.Denied != 2 || slow.Waiting != 2 || slow.Until.Before(list.Now) {
		t.Errorf("%+v", slow)
	}
	if all.Name != "http" || all.Key != "" || all.Concurrency != 3 || all.Running != 3 || all.Denied != 0 || !all.Until.IsZero() {
		t.Errorf("%+v", all)
	}
	if p := list.Paused[0]; p.Kind != "wecom-kf" || !strings.HasPrefix(p.Name, "ww") || p.At != "https://qyapi.example" || p.Reason != "45009" || p.Until.Before(list.Now) {
		t.Errorf("%+v", p)
	}
	if len(list.Down) != 3 || list.DownToo != 0 {
		t.Fatalf("down: %+v", list)
	}
	for _, d := range list.Down {
		switch {
		case d.Kind != "http" || d.Since.After(list.Now.Add(time.Second)) || !d.Next.After(d.Since):
			t.Errorf("%+v", d)
		case d.Key == "down.example" && (d.State != "down" || d.Cause != "http_503"), d.Key == "far.example" && (d.Way != "berlin" || d.Name != "http/far.example (via berlin)"), d.Key != "far.example" && d.Way != "",
			d.Key == "busy.example" && (d.State != "paused" || d.Next.Before(list.Now.Add(50*time.Second))):
			t.Errorf("%+v", d)
		}
	}
	f.call("GET", "/v1/limits?limit=1", "", 200, &list)
	if len(list.Limits) != 1 || list.More != 1 || len(list.Paused) != 1 || list.PausedToo != 1 || len(list.Down) != 1 || list.DownToo != 2 {
		t.Errorf("one: %+v", list)
	}
	f.call("GET", "/v1/limits?limit=201", "", 422, nil)
}

func TestCredentials(t *testing.T) {
	f := newFixture(t, nil)
	store := credential.Of(f.ring)
	settle := func(name string, s credential.Settlement) {
		t.Helper()
		ref := credential.Ref{Owner: "wecom-kf|" + name + "|https://qyapi.example", Name: "secret of " + name}
		known, err := store.Take(t.Context(), ref, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if held, err := store.Settle(t.Context(), ref, known.Fence, s); err != nil || !held {
			t.Fatal(held, err)
		}
	}
	settle("valid", credential.Settlement{As: credential.Fetched, Value: []byte("a sealed value"), For: time.Hour, Refresh: time.Minute})
	settle("due", credential.Settlement{As: credential.Fetched, Value: []byte("a sealed value"), For: time.Hour, Refresh: time.Millisecond})
	settle("refused", credential.Settlement{As: credential.Refused, Reason: "40001", For: time.Hour})
	settle("failed", credential.Settlement{As: credential.Failed, Reason: "dns", For: time.Minute})
	settle("paused", credential.Settlement{As: credential.Fetched, Value: []byte("a sealed value"), For: time.Hour, Refresh: time.Minute})
	if _, err := store.PauseOwner(t.Context(), "wecom-kf|paused|https://qyapi.example", "45009", time.Hour, time.Minute); err != nil {
		t.Fatal(err)
	}
	now, err := f.ring.Now(t.Context(), 0)
	for began := now; err == nil && now.Sub(began) < 2*time.Millisecond; { // until one is due
		now, err = f.ring.Now(t.Context(), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]Credential)
	pages := 0
	for cursor := ""; ; pages++ {
		var list CredentialList
		got := f.call("GET", "/v1/credentials?limit=2"+cursor, "", 200, &list)
		if strings.Contains(got.body, "sealed") || strings.Contains(got.body, "secret of") {
			t.Errorf("a value or a name: %s", got.body)
		}
		for _, c := range list.Credentials {
			seen[c.Name] = c
		}
		if list.Next == "" {
			break
		}
		cursor = "&cursor=" + list.Next
	}
	if len(seen) != 5 || pages < 2 {
		t.Fatalf("on %d pages: %+v", pages+1, seen)
	}
	for name, c := range seen {
		if c.State != name || c.Kind != "wecom-kf" || c.ID == "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := seen["valid"]; c.Fetched.IsZero() || c.Expires.Before(c.Refresh) || c.Refresh.Before(c.Fetched) || !c.Retry.IsZero() {
		t.Errorf("%+v", c)
	}
	if c := seen["refused"]; c.Reason != "40001" || c.Retry.IsZero() || !c.Expires.IsZero() {
		t.Errorf("%+v", c)
	}
	if c := seen["paused"]; c.Reason != "45009" || c.Retry.IsZero() || c.Expires.IsZero() {
		t.Errorf("%+v", c)
	}
	for _, cursor := range []string{"x", "-1", "0", "01", "99999999"} {
		f.call("GET", "/v1/credentials?cursor="+cursor, "", 422, nil)
	}
}
