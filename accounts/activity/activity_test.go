package activity

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestMain(m *testing.M) { os.Exit(processes.Apart(m, "TestMillionAccountsAreBounded").Run()) }

// A million accounts with the longest names, on as many hosts and labels, leave a sheet that fits,
// and 828 of the largest sheets fit into 16 MiB of Redis.
func TestMillionAccountsAreBounded(t *testing.T) {
	const all, noisy, slow = 1_000_000, 123_456, 654_321
	tally, pad := NewTally(), strings.Repeat("x", 240)
	for i := range all {
		id := fmt.Sprintf("%s%08d", pad, i)
		c := Check{Account: id, Shard: i % 512, Shards: 512, Failed: i%50 == 0, Messages: i % 2, Timed: true, Late: time.Duration(i%1000) * time.Millisecond, Took: time.Duration(i%777) * time.Millisecond}
		of := &Subject{Kind: "feed", Host: id[2:], Labels: []string{"one=" + id[9:]}}
		if i%100 == 0 {
			of.Host = "busy.example"
		}
		switch i {
		case noisy:
			c.Messages = all / 100
		case slow:
			c.Took = 20 * time.Second
		}
		tally.Checked(of, c)
	}
	for p := range parts {
		if n := len(tally.tables[p].rows); n > 2*tableRoom {
			t.Errorf("%d names in a table", n)
		}
	}
	s := tally.Take()
	text := s.Encode()
	read, err := Decode(text)
	if err != nil || len(text) > document.MaxPeriod {
		t.Fatal(len(text), err)
	}
	if read.All.Checks != all || read.All.Failures != all/50 || read.Parts[Kinds]["feed"].Checks != all {
		t.Errorf("sums: %+v", read.All)
	}
	if first := read.First(Noisiest, 1); len(first) == 0 || first[0].Name != fmt.Sprintf("%s%08d", pad, noisy) || first[0].Messages != all/100 {
		t.Errorf("noisiest: %+v", first)
	}
	if first := read.First(Slowest, 1); len(first) == 0 || first[0].Name != fmt.Sprintf("%s%08d", pad, slow) || first[0].TookMost != 20*time.Second {
		t.Errorf("slowest: %+v", first)
	}
	if busy := read.Parts[Hosts]["busy.example"]; busy == nil || busy.Checks > all/100 || busy.Checks < all/100-all/tableRoom {
		t.Errorf("the busy host: %+v", busy)
	}
	timed := uint64(0)
	for i := range read.Rows {
		timed += read.Rows[i].Timed
	}
	if len(read.Rows) != 64 || timed != all {
		t.Errorf("%d checks in %d rows", timed, len(read.Rows))
	}
	if first, last := read.RowShards(63); first != 504 || last != 511 {
		t.Errorf("the last row has the shards %d to %d", first, last)
	}
	// Redis takes memory for texts of up to 16 KiB in steps of 2 KiB, and some hundred bytes an entry.
	stored := 0
	for _, l := range levels() {
		stored += l.Kept * ((document.MaxPeriod+64+2047)/2048*2048 + 256)
	}
	if stored > 16<<20 {
		t.Errorf("all sheets take %d bytes", stored)
	}
}

// What a table says of a name is never too much, and misses at most a 256th of all.
func TestTableMissesLittle(t *testing.T) {
	t.Parallel()
	random, tab := rand.New(rand.NewPCG(1, 2)), table{}
	truth, sum := make(map[string]uint64), uint64(0)
	for range 300_000 {
		name := fmt.Sprint(int(random.ExpFloat64() * 400))
		truth[name]++
		sum++
		tab.add(name, &Figures{Checks: 1}, 1)
	}
	found := tab.take()
	for name, n := range truth {
		f := found[name]
		if f == nil && n > sum/tableRoom {
			t.Errorf("%s with %d of %d is missed", name, n, sum)
		}
		if f != nil && f.Checks > n {
			t.Errorf("%s: %d, truly %d", name, f.Checks, n)
		}
	}
}

func TestSheetsSurvive(t *testing.T) {
	t.Parallel()
	tally := NewTally()
	tally.Checked(&Subject{Kind: "feed", Host: "a.example", Labels: []string{"team=press"}}, Check{Account: "a", Shard: 1, Shards: 2, Messages: 2, Timed: true, Late: time.Second, Took: 30 * time.Millisecond})
	tally.Checked(&Subject{Kind: "weixin"}, Check{Account: "b", Shards: 2, Failed: true})
	tally.Found(&Subject{Kind: "weixin"}, "b", 5)
	tally.Mark(Mark{At: time.Unix(100, 0), Kind: MarkBulk, Subject: "pause", Count: 7})
	s := tally.Take()
	text := s.Encode()
	read, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s.All, read.All) || !reflect.DeepEqual(s.Marks, read.Marks) || read.Parts[Noisiest]["b"].Messages != 5 || read.Rows[1].LateMost != time.Second {
		t.Errorf("wrote %+v, read %+v", s, read)
	}
	for p := range parts {
		if !reflect.DeepEqual(s.Parts[p], read.Parts[p]) && len(s.Parts[p])+len(read.Parts[p]) > 0 {
			t.Errorf("part %d: %v, %v", p, s.Parts[p], read.Parts[p])
		}
	}
	if _, err := Decode(append(text, 'Z', 2, 0, 0)); err != nil {
		t.Errorf("a section of a newer program: %v", err)
	}
	if _, err := Decode([]byte{format + 1}); !errors.Is(err, errFormat) {
		t.Errorf("another format: %v", err)
	}
	if !tally.Take().Empty() {
		t.Error("what was taken was counted again")
	}
}

func FuzzDecode(f *testing.F) {
	s := &Sheet{All: Figures{Checks: 1}, Shards: 1, Rows: make([]Figures, 1), Marks: []Mark{{Subject: "p"}}}
	s.of(Hosts, "a").Checks = 1
	f.Add(s.Encode())
	f.Add([]byte{format, 'B', 3, 8, 200, 1})
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Decode(text)
		if err != nil {
			return
		}
		again, err := Decode(s.Encode())
		if err != nil || again.All != s.All {
			t.Errorf("%v, %+v, %+v", err, again, s)
		}
	})
}

// open opens a ring, and returns the time of its Redis.
func open(t *testing.T, server redistest.Redis) (*circulate.Ring, time.Time) {
	t.Helper()
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: "ns", Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	now, err := ring.Now(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return ring, now
}

// Several pollers add to one minute at once: nothing is lost, and nothing counts twice.
func TestPollersAddTogether(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ring, now := open(t, server)
		at := now.Add(-2 * time.Minute)
		var adding sync.WaitGroup
		for i := range 4 {
			adding.Go(func() {
				for range 3 {
					tally := NewTally()
					tally.Checked(&Subject{Kind: "feed", Host: fmt.Sprint(i, ".example")}, Check{Account: "a", Shards: 2, Messages: 1, Timed: true, Late: time.Second})
					sheet, err := tally.Take(), error(document.ErrChanged)
					for errors.Is(err, document.ErrChanged) {
						err = NewKeeper(ring).Add(t.Context(), at, sheet)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		adding.Wait()
		for _, q := range []Query{{}, {Before: 24 * time.Hour}, {Before: 7 * 24 * time.Hour}} {
			c, err := NewReader(ring).Look(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if c.Sum.All.Checks != 12 || c.Sum.Parts[Noisiest]["a"].Messages != 12 || len(c.Sum.Parts[Hosts]) != 4 || len(c.Points) > MaxPoints {
				t.Errorf("%+v: %+v in %d points", q, c.Sum.All, len(c.Points))
			}
		}
		// A clock that is ahead, or far behind, counts for now.
		if err := NewKeeper(ring).Mark(t.Context(), Mark{At: now.Add(40 * 24 * time.Hour), Kind: MarkStart}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			q    Query
			want error
		}{
			{Query{Before: 40 * 24 * time.Hour}, ErrFrom},
			{Query{From: now.Add(time.Hour)}, ErrFrom},
			{Query{Step: 7 * time.Second}, ErrStep},
			{Query{Before: 24 * time.Hour, Step: time.Minute}, ErrStep},
		} {
			if _, err := NewReader(ring).Look(t.Context(), c.q); !errors.Is(err, c.want) {
				t.Errorf("%+v: got %v, want %v", c.q, err, c.want)
			}
		}
	})
}

func TestHeatmapAfterReshard(t *testing.T) {
	t.Parallel()
	s := &Sheet{}
	s.Add(&Sheet{Shards: 2, Rows: []Figures{{Timed: 1}, {Timed: 1}}})
	s.Add(&Sheet{Shards: 4, Rows: make([]Figures, 4)})
	if s.Shards != 4 || len(s.Rows) != 4 || s.Rows[0].Timed != 0 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkChecked(b *testing.B) {
	tally, ids := NewTally(), make([]string, 100_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("account-%06d", i)
	}
	of := &Subject{Kind: "feed", Host: "news.example.org", Labels: []string{"team=press", "tier=gold"}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tally.Checked(of, Check{Account: ids[i%len(ids)], Shard: i % 64, Shards: 64, Messages: i % 10 / 9, Timed: true, Late: time.Second, Took: time.Duration(i%97) * time.Millisecond})
	}
}
