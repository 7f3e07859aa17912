package accounts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// idSource is ids by shard, and how often a shard was read.
type idSource struct {
	mu    sync.Mutex
	ids   [][]string
	reads int
}

func (s *idSource) scan(_ context.Context, shard int, _ string, _ int) ([]circulate.CheckedAccount, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return checkedOf(s.ids[shard]), circulate.ScanDone, nil
}

func (s *idSource) fails(context.Context, int, string, int) ([]circulate.FailedAccount, string, error) {
	return nil, circulate.ScanDone, nil
}

func checkedOf(ids []string) []circulate.CheckedAccount {
	all := make([]circulate.CheckedAccount, len(ids))
	for i := range ids {
		all[i].ID = ids[i]
	}
	return all
}

func (s *idSource) put(shard int, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids[shard] = ids
}

func (s *idSource) read() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *idSource) index(most int) *IDIndex {
	return &IDIndex{shards: len(s.ids), scan: s.scan, fails: s.fails, most: most, usable: func() bool { return true }, known: make([]shardIDs, len(s.ids)), news: make(chan struct{})}
}

// The index finds what a look at each id finds.
func TestTheIndexFindsWhatALookAtEachIDFinds(t *testing.T) {
	ids := []string{"acme-news", "ACME/blog", "Zürich", "ZÜRICH-2", "a", "aa", "aaa", "x|y", "İstanbul", "news@acme.example", "straße"}
	for i := range 300 {
		ids = append(ids, fmt.Sprintf("feed-%07d", i*7919), fmt.Sprintf("Box-%d@Mail-%d.example", i, i%7))
	}
	for _, some := range [][]string{ids, ids[:1], ids[4:7], nil} {
		source := &idSource{ids: [][]string{slices.Clone(some)}}
		x := source.index(MaxIndex)
		if err := x.read(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for _, parts := range [][]string{{"a"}, {"AA"}, {"acme"}, {"ACME-NEWS"}, {"ü"}, {"zÜr"}, {"7919"}, {"box-1"}, {"@mail-3"}, {"i̇"}, {"ß"}, {"|"}, {"\x00"}, {"none"}, {"acme", "box-2", "a"}, {"example"}} {
			s := Selector{Parts: parts}
			want := s.passes(slices.Sorted(slices.Values(some)))
			got, ok := x.find(0, &s)
			if !ok || !slices.Equal(got, want) {
				t.Errorf("%q in %d ids: %q, %t, want %q", parts, len(some), got, ok, want)
			}
		}
	}
}

// What is older than a minute is not used, and nothing is kept or read for nobody.
func TestTheIndexIsUpToDateWhileItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &idSource{ids: [][]string{{"a"}, {"b"}}}
		x, s := source.index(MaxIndex), &Selector{Parts: []string{"b"}}
		if _, ok := x.find(1, s); ok {
			t.Error("it knows a shard that it has not read")
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go x.Keep(ctx)
		synctest.Wait()
		x.Keep(ctx) // at once: another call is at work
		source.put(1, "b", "bb")
		for second := range 180 {
			if got, ok := x.find(1, s); !ok || len(got) == 0 || second >= 60 && len(got) != 2 {
				t.Fatalf("after %d s: %q, %t", second, got, ok)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(indexIdle + indexTurn)
		reads := source.read()
		time.Sleep(time.Hour)
		x.mu.Lock()
		if source.read() != reads || x.bytes != 0 || x.turns {
			t.Errorf("unasked it read %d times and keeps %d bytes", source.read()-reads, x.bytes)
		}
		x.mu.Unlock()
		if _, ok := x.find(1, s); ok {
			t.Error("it answers from what is too old")
		}
	})
}

// A million ids fit, and the index never has more than its bytes.
func TestTheIndexIsBounded(t *testing.T) {
	const shards, each = 64, 1_000_000 / 64
	ids := make([]string, each)
	for i := range ids {
		ids[i] = fmt.Sprintf("Customer-%08d@mail", i)
	}
	s := indexed(checkedOf(ids), nil)
	if all := shards * s.size(); all > MaxIndex {
		t.Errorf("a million have %d MiB", all>>20)
	}
	source := &idSource{ids: [][]string{{"a", "b"}, {strings.Repeat("c", 40)}, {"d"}}}
	x := source.index(40)
	for shard := range source.ids {
		if err := x.read(t.Context(), shard); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := x.find(1, &Selector{Parts: []string{"c"}}); ok || x.bytes > 40 {
		t.Errorf("it keeps %d bytes of 40", x.bytes)
	}
	if got, ok := x.find(2, &Selector{Parts: []string{"D"}}); !ok || len(got) != 1 {
		t.Errorf("the shard after it: %q, %t", got, ok)
	}
}
