package poller

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

func TestRecentForgets(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var r recent
	expect := func(after time.Duration, want ...accounts.Recent) {
		t.Helper()
		if got := r.report(begin.Add(after)); !reflect.DeepEqual(got, want) {
			t.Errorf("after %v: got %+v, want %+v", after, got, want)
		}
	}
	expect(0)
	r.add(recentSort{"feed", "moved"}, begin)
	expect(time.Second, accounts.Recent{Name: "feed", Code: "moved", PerMinute: 2})
	for i := range 100 {
		r.add(recentSort{name: "http"}, begin.Add(20*time.Second+time.Duration(i)*100*time.Millisecond))
	}
	expect(30*time.Second, accounts.Recent{Name: "http", PerMinute: 200}, accounts.Recent{Name: "feed", Code: "moved", PerMinute: 2})
	expect(59*time.Second, accounts.Recent{Name: "http", PerMinute: 101}, accounts.Recent{Name: "feed", Code: "moved", PerMinute: 1})
	expect(61 * time.Second)
	r.add(recentSort{name: "http"}, begin.Add(time.Hour))
	expect(time.Hour, accounts.Recent{Name: "http", PerMinute: 2})
}

func TestRecentIsBounded(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var r recent
	for i := range 2 * recentApart {
		r.add(recentSort{name: fmt.Sprint(i)}, now)
	}
	r.add(recentSort{name: "7"}, now)
	got := r.report(now)
	if len(r.now) != recentApart || len(got) != recentTold || got[0].Name != "7" {
		t.Errorf("%d sorts are counted, %+v is reported", len(r.now), got)
	}
}
