package poller

import (
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// The names of phases, parties and moves in the package's documentation.
var (
	phases  = map[string]phase{"calling": calling, "page": inHand, "seized": seized, "settled": settled}
	parties = map[string]party{"": nobody, "itself": byItself, "watchdog": byWatchdog, "shutdown": byShutdown, "loss": byLoss, "secret": bySecret}
	moves   = map[string]move{
		"finds": finds, "commits": commits, "ends": ends, "loses": loses, "complies": complies,
		"abandons": abandons, "stops": stops, "changes": changes, "misses": misses, "seizes": seizes,
	}
)

// step is a move in one status.
type step struct {
	from status
	move move
}

// documented returns the table of the package's documentation: where each step leads that is not
// refused.
func documented(t *testing.T) map[step]status {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	gap, columns, table := regexp.MustCompile(`\s{2,}`), []string(nil), make(map[step]status)
	for line := range strings.Lines(string(text)) {
		line, ok := strings.CutPrefix(line, "//\t")
		cells := gap.Split(strings.TrimSpace(line), -1)
		if !ok || columns == nil && cells[0] != "move" {
			if columns != nil {
				break // behind the table
			}
			continue
		}
		if columns == nil {
			columns = cells
			continue
		}
		m, known := moves[cells[0]]
		if !known || len(cells) != len(columns) {
			t.Fatalf("the table has a row %q", cells)
		}
		for i, cell := range cells[1:] {
			for _, w := range []string{"shutdown", "loss", "secret"} { // each W
				if cell != "." {
					table[step{statusOf(t, columns[i+1], w), m}] = statusOf(t, cell, w)
				}
			}
		}
	}
	if columns == nil {
		t.Fatal("there is no table")
	}
	return table
}

// statusOf reads a status, in which W stands for the party that called the check off.
func statusOf(t *testing.T, text, w string) status {
	t.Helper()
	at, by, _ := strings.Cut(text, " ")
	if by == "W" {
		by = w
	}
	phase, known := phases[at]
	party, named := parties[by]
	if phase == seized {
		party = byShutdown
	}
	if !known || !named {
		t.Fatalf("%q is no status", text)
	}
	return status{phase, party}
}

// reachable returns every status that a check may come to.
func reachable() []status {
	all := map[status]bool{{calling, nobody}: true}
	for before := 0; len(all) > before; {
		before = len(all)
		for from := range maps.Clone(all) {
			for _, m := range moves {
				if to, ok := from.after(m); ok {
					all[to] = true
				}
			}
		}
	}
	return slices.Collect(maps.Keys(all))
}

// Every move leads from every status to where the documentation says, or is refused.
func TestEveryMoveOfACheck(t *testing.T) {
	table, all := documented(t), reachable()
	if len(all) != 4+4+1+5 {
		t.Errorf("%d statuses are reachable", len(all))
	}
	for s := range table {
		if !slices.Contains(all, s.from) {
			t.Errorf("the table has the status %v, which no check comes to", s.from)
		}
	}
	for _, from := range all {
		for name, m := range moves {
			want, allowed := table[step{from, m}]
			var s state
			s.word.Store(from.pack())
			if from.hasPage() {
				s.page.Add(1)
			}
			was, ok := s.move(m)
			if !allowed {
				want = from
			}
			if got := s.now(); ok != allowed || was != from || got != want {
				t.Errorf("%s in %v: got %v, %t; want %v, %t", name, from, got, ok, want, allowed)
			}
			if s.now().hasPage() {
				s.page.Done() // it panics if nobody waits for the page
			}
			s.page.Wait()
		}
	}
}

// A page that arrives while others settle the flight is either written before the claim is
// touched, or known to be late.
func TestAPageAndASettlerAtOnce(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var s state
			var all sync.WaitGroup
			written, released, took := 0, 0, false
			all.Go(func() {
				for range 3 {
					if _, took = s.move(finds); !took {
						return
					}
					written++
					s.move(commits)
				}
			})
			all.Go(func() {
				if _, ok := s.move(seizes); ok {
					if s.now().hasPage() {
						s.page.Wait()
					}
					if s.now().hasPage() {
						t.Error("the claim is touched while a page is in hand")
					}
					released = written + 1
				}
			})
			all.Go(func() {
				s.move(misses)
				if _, ok := s.move(complies); ok {
					released = written + 1
				}
			})
			all.Wait()
			if released == 0 || written > released {
				t.Errorf("%d written, released after %d", written, released-1)
			}
		})
	}
}

// Of two parties that settle a check at the same moment, one does.
func TestOnePartySettlesACheck(t *testing.T) {
	const checks = 20_000
	states := make([]state, checks)
	arrived, settlers := make([]atomic.Int32, checks), make([]atomic.Int32, checks)
	var all sync.WaitGroup
	for _, m := range []move{ends, seizes} {
		all.Go(func() {
			for i := range states {
				for arrived[i].Add(1); arrived[i].Load() < 2; {
					runtime.Gosched()
				}
				if _, ok := states[i].move(m); ok {
					settlers[i].Add(1)
				}
			}
		})
	}
	all.Wait()
	for i := range states {
		if n := settlers[i].Load(); n != 1 || states[i].now().at != settled {
			t.Fatalf("%d have settled a check, which is %v", n, states[i].now())
		}
	}
}
