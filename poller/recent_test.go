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
	r.add(recentSort{"feed", "moved"}, "a", begin)
	expect(time.Second, accounts.Recent{Name: "feed", Code: "moved", PerMinute: 2, Account: "a"})
	for i := range 100 {
		r.add(recentSort{name: "http"}, "", begin.Add(20*time.Second+time.Duration(i)*100*time.Millisecond))
	}
	expect(30*time.Second, accounts.Recent{Name: "http", PerMinute: 200}, accounts.Recent{Name: "feed", Code: "moved", PerMinute: 2, Account: "a"})
	expect(59*time.Second, accounts.Recent{Name: "http", PerMinute: 101}, accounts.Recent{Name: "feed", Code: "moved", PerMinute: 1, Account: "a"})
	expect(61 * time.Second)
	r.add(recentSort{name: "http"}, "", begin.Add(time.Hour))
	expect(time.Hour, accounts.Recent{Name: "http", PerMinute: 2})
}

func TestRecentIsBounded(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var r recent
	for i := range 2 * recentApart {
		r.add(recentSort{name: fmt.Sprint(i)}, "", now)
	}
	r.add(recentSort{name: "7"}, "", now)
	got := r.report(now)
	if len(r.now) != recentApart || len(got) != recentTold || got[0].Name != "7" {
		t.Errorf("%d sorts are counted, %+v is reported", len(r.now), got)
	}
}

// The log has an example of each sort of warnings once.
func TestFirsts(t *testing.T) {
	var f firsts
	for i, want := range []bool{true, false, true} {
		if got := f.first(recentSort{"http", fmt.Sprint(i / 2)}); got != want {
			t.Errorf("%d: %t", i, got)
		}
	}
	for i := range 2 * recentApart {
		f.first(recentSort{name: fmt.Sprint(i)})
	}
	if len(f.seen) != recentApart {
		t.Errorf("%d sorts are remembered", len(f.seen))
	}
}

// How busy a replica is depends on what each of its shards brings, and so on its part of them.
func TestAReplicaIsBusyByItsPartOfTheShards(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		part float64
		rate int
		busy bool
	}{
		{0, 1900, false}, {0, 2100, true}, {1, 1900, false}, {1, 2100, true},
		{0.1, 1900, true}, {0.1, 210, true}, {0.1, 190, false}, {1. / 64, 33, true}, {1. / 64, 29, false}, {1. / 64, 0, false},
	} {
		var m meter
		m.share(c.part)
		m.add(begin)
		busy := 0
		for i := range 5 * c.rate { // five seconds
			now := begin.Add(time.Duration(i) * time.Second / time.Duration(c.rate))
			m.add(now)
			if m.isBusy(now) {
				busy++
			}
		}
		if got := m.isBusy(begin.Add(5 * time.Second)); got != c.busy || c.busy && busy < 4*c.rate {
			t.Errorf("%d checks a second with %.2f of the shards: busy is %v, and was for %d of %d checks", c.rate, c.part, got, busy, 5*c.rate)
		}
	}
}
