package monitor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// If more accounts fail than a turn looks at, the others count as left out.
func TestFailingAccountsAboveTheMostAreLeftOut(t *testing.T) {
	process := redistest.Start(t) // the embedded one scans everything at once
	ring, err := circulate.Open(t.Context(), redistest.Connect(t, process), circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := process.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	do := func(command string, args ...any) any {
		t.Helper()
		reply, err := conn.Do(command, args...)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	const all = 5 * problemsPage
	for i := range all {
		id := fmt.Sprint("a", i)
		if _, err := ring.Account(id).Register(t.Context(), circulate.Registration{ID: id, Record: fmt.Appendf(nil, `{"id":%q,"kind":"feed","config":{"url":"https://a.example/"}}`, id)}); err != nil {
			t.Fatal(err)
		}
		ticket, _ := do("HGET", ring.Tag(0)+":tickets", id).([]byte)
		do("HSET", ring.Tag(0)+":tickets", id, string(ticket[:24])+"t+++++++"+string(ticket[32:]))
		do("HSET", ring.Tag(0)+":errors", id, fmt.Sprintf("%013d|http_404: Not Found", time.Now().UnixMilli()))
	}
	m, err := New(ring, Config{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for most, leaves := range map[int]bool{problemsPage: true, all: false} {
		turn := problemTurn{Monitor: m, store: ring.Failing(), gathering: problem.NewGathering(0), counted: make(map[string]bool)}
		looked, err := turn.failing(t.Context(), 0, all, most)
		if err != nil || looked < most || leaves == (looked == all) || turn.leftOut != all-looked {
			t.Errorf("of %d at most %d: looked at %d, left out %d, %v", all, most, looked, turn.leftOut, err)
		}
		if s := turn.gathering.Summary(time.Now(), turn.leftOut); s.Failing != looked || s.LeftOut != all-looked {
			t.Errorf("of %d at most %d: %+v", all, most, s.Counts)
		}
	}
}

// Nothing is left out where there is room for all, however few shards have them. Otherwise about the
// same part of each shard is looked at.
func TestSharesOfShards(t *testing.T) {
	for name, test := range map[string]struct {
		sizes, want []int
		most        int
	}{
		"room for all":  {[]int{600, 0, 0, 300}, []int{1000, 1000, 1000, 1000}, 1000},
		"half of all":   {[]int{1500, 0, 500}, []int{750, 1, 250}, 1000},
		"nothing there": {[]int{0, 0}, []int{10, 10}, 10},
	} {
		if got := shares(test.sizes, test.most); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
