// Command simulate runs whole replicas, monitors and a registrar in one process under
// fake time, with faults that a seed decides. Whenever the faults have healed, it
// compares what the ring promises with what Redis holds.
//
//	go run ./testing/simulate --seeds 1-100 --hours 24
//
// Each seed is a world of its own, and as many run at once as there are processors. A
// seed that finds something prints it, with the last events before it. It can be run
// again with --seeds N. The plan of faults is then the same, and so is what each link
// does at each time, but not the order in which goroutines run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// gcPercent trades memory for time: most of what a script allocates is dropped when it
// ends.
const gcPercent = 400

func main() {
	// Fake time needs a test to run in. The testing package's own flags stay as they are,
	// and a test that fails makes the exit code 1.
	testing.Init()
	seeds := flag.String("seeds", "1-10", "one seed, or the first and the last of several")
	p := plan{clock: true}
	flag.Float64Var(&p.hours, "hours", 24, "fake hours of each seed, at least")
	flag.IntVar(&p.replicas, "replicas", 3, "pollers")
	flag.IntVar(&p.monitors, "monitors", 2, "monitors")
	flag.IntVar(&p.shards, "shards", 2, "shards")
	flag.IntVar(&p.accounts, "accounts", 20, "accounts")
	flag.IntVar(&p.held, "held", 5, "of so many accounts one has its calls held; 0: none has")
	flag.IntVar(&p.places, "concurrency", 16, "checks at once of each replica")
	parallel := flag.Int("parallel", runtime.GOMAXPROCS(0), "seeds at once")
	flag.Parse()
	first, last, err := parseSeeds(*seeds)
	if err == nil {
		err = p.validate()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(2)
	}
	debug.SetGCPercent(gcPercent)
	run := func(t *testing.T) { runSeeds(t, p, first, last, *parallel) }
	testing.Main(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "Simulate", F: run}}, nil, nil)
}

func parseSeeds(text string) (first, last uint64, err error) {
	from, to, several := strings.Cut(text, "-")
	if !several {
		to = from
	}
	first, err = strconv.ParseUint(from, 10, 64)
	if err == nil {
		last, err = strconv.ParseUint(to, 10, 64)
	}
	if err != nil || first > last {
		return 0, 0, fmt.Errorf("seeds: must be N or FIRST-LAST, is %q", text)
	}
	return first, last, nil
}

func (p *plan) validate() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
		least int
	}{{"replicas", p.replicas, 1}, {"monitors", p.monitors, 1}, {"shards", p.shards, 1}, {"accounts", p.accounts, 1}, {"concurrency", p.places, 1}} {
		if n.value < n.least {
			errs = append(errs, fmt.Errorf("%s: must be at least %d, is %d", n.name, n.least, n.value))
		}
	}
	if !(p.hours > 0) {
		errs = append(errs, fmt.Errorf("hours: must be more than 0, is %v", p.hours))
	}
	return errors.Join(errs...)
}

// progressEvery is how often the progress line is updated.
const progressEvery = 2 * time.Second

// progress is how far seeds are. Their worlds have other clocks, so another goroutine
// prints it.
type progress struct {
	mu    sync.Mutex
	of    uint64
	hours float64
	sum   *summary
	began time.Time
}

func (p *progress) write() {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(os.Stderr, "\r%d of %d seeds, %.0f fake hours in %v, %d violations ",
		p.sum.seeds, p.of, p.hours, time.Since(p.began).Round(time.Second), len(p.sum.violations))
}

func (p *progress) run(over <-chan struct{}) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-over:
			p.write()
			fmt.Fprintln(os.Stderr)
			return
		case <-tick.C:
			p.write()
		}
	}
}

// runSeeds simulates seeds, several at a time, and prints the progress and the result.
func runSeeds(t *testing.T, p plan, first, last uint64, parallel int) {
	all := &progress{of: last - first + 1, sum: newSummary(), began: time.Now()}
	over, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		all.run(over)
	}()
	slots := make(chan struct{}, max(1, parallel))
	var wg sync.WaitGroup
	for seed := first; ; seed++ {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { all.simulate(t, p.with(seed)) })
		})
		if seed == last {
			break
		}
	}
	wg.Wait()
	close(over)
	<-written
	fmt.Print(all.sum.table(time.Since(all.began)))
}

func (p *progress) simulate(t *testing.T, one plan) {
	done := 0.0
	sum := simulate(t, one, func(h float64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hours += h - done
		done = h
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum.add(sum)
	sum.expectNone(t)
	for _, text := range sum.violations {
		fmt.Fprintf(os.Stderr, "\nseed %d: %s", one.seed, text)
	}
}
