package api

import (
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/activity"
)

func TestActivity(t *testing.T) {
	f := newFixture(t, nil)
	now, err := f.ring.Now(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	tally := activity.NewTally()
	of := &activity.Subject{Kind: "feed", Host: "news.example.org", Labels: []string{"team=press"}}
	shards := f.ring.Shards()
	tally.Checked(of, activity.Check{Account: "loud", Shards: shards, Messages: 7, Timed: true, Late: 2 * time.Second, Took: 250 * time.Millisecond})
	tally.Checked(of, activity.Check{Account: "slow", Shard: shards - 1, Shards: shards, Failed: true, Timed: true, Late: 4 * time.Second, Took: 9 * time.Second})
	at := now.Add(-3 * time.Minute)
	tally.Mark(activity.Mark{At: at, Kind: activity.MarkBulk, Subject: "pause", Count: 3})
	tally.Mark(activity.Mark{At: at, Kind: 'Z', Subject: "of a newer program"})
	if err := activity.NewKeeper(f.ring).Add(t.Context(), at, tally.Take()); err != nil {
		t.Fatal(err)
	}
	var a Activity
	f.call("GET", "/v1/activity?from=10m&step=1m&of=account:loud&figure=messages", "", 200, &a)
	if len(a.Noisiest) != 1 || a.Noisiest[0].Name != "loud" || a.Noisiest[0].Messages != 7 || len(a.Slowest) != 2 || a.Slowest[0].Name != "slow" || a.Slowest[0].Longest != 9 {
		t.Errorf("noisiest %+v, slowest %+v", a.Noisiest, a.Slowest)
	}
	if len(a.Hosts) != 1 || a.Hosts[0].Failures != 1 || a.Hosts[0].Lateness != 3 || len(a.Labels) != 1 || a.Labels[0].Name != "team=press" || len(a.Kinds) != 1 {
		t.Errorf("hosts %+v, labels %+v, kinds %+v", a.Hosts, a.Labels, a.Kinds)
	}
	sum := func(v Values) (n float64) {
		for _, one := range v {
			if one == one { // not NaN
				n += one
			}
		}
		return n
	}
	if sum(a.Whole.Messages) != 7 || sum(a.Whole.Checks) != 1 || sum(a.Whole.Lateness) != 2 || sum(a.Hosts[0].Curve) != 7 || len(a.Whole.Checks) != a.Points {
		t.Errorf("%+v", a.Whole)
	}
	if len(a.Rows) != shards || sum(a.Rows[shards-1].Latest) != 4 || len(a.Marks) != 1 || a.Marks[0].What != "bulk" || a.Marks[0].Count != 3 {
		t.Errorf("rows %+v, marks %+v", a.Rows, a.Marks)
	}
	for query, field := range map[string]string{
		"from=yesterday": "query.from", "from=1000h": "query.from", "to=x": "query.to", "step=7s": "query.step", "step=-1m": "query.step",
		"of=news": "query.of", "of=host:": "query.of", "of=other:x": "query.of", "figure=x": "query.figure",
	} {
		if reply := f.call("GET", "/v1/activity?"+query, "", 422, nil); !strings.Contains(reply.body, `"`+field+`"`) {
			t.Errorf("%s: %s", query, reply.body)
		}
	}
}
