package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rounds-dev/rounds/testing/processes"
)

// errViolated reports a run in which something did not hold.
var errViolated = errors.New("something did not hold")

// options are what a run is told.
type options struct {
	length   time.Duration // of the faults; what comes before and after is not counted
	seed     uint64
	faults   []string // empty: all
	rounds   int      // at most so often each fault; 0: as often as there is time
	accounts int
	binary   string // what to break; empty: built from this source
	dir      string // for the binary and Redis' files
	log      io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(log)
	length := flags.Duration("for", 10*time.Minute, "how long to inject faults")
	seed := flags.Uint64("seed", 0, "which schedule; 0: one drawn now")
	names := flags.String("faults", "", "only these, separated by commas")
	binary := flags.String("binary", "", "a rounds binary, in place of one built now")
	asJSON := flags.Bool("json", false, "print the report as JSON")
	show := flags.Bool("list", false, "print the faults and end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *show {
		for _, f := range allFaults(true) {
			fmt.Fprintf(out, "%-28s %-10s %s\n", f.name, f.invariant, f.sign.name)
		}
		return nil
	}
	if *length <= 0 {
		return fmt.Errorf("--for: must be more than 0, is %v", *length)
	}
	o := options{length: *length, seed: *seed, binary: *binary, accounts: population, log: log}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	if *names != "" {
		o.faults = strings.Split(*names, ",")
	}
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.dir = dir
	r, err := unleash(ctx, o)
	if err != nil {
		return fmt.Errorf("seed %d: %w", o.seed, err)
	}
	if err := r.write(out, *asJSON); err != nil {
		return err
	}
	if r.failed() > 0 {
		return errViolated
	}
	return nil
}

// allFaults are all there are; some need a binary that can repair a ring.
func allFaults(audits bool) []fault {
	return slices.Concat(ofProcesses(), ofRedis(), ofNetwork(), ofThirds(), ofData(audits))
}

// chosen gives the faults with the names, all if there are none.
func chosen(faults []fault, names []string) ([]fault, error) {
	if len(names) == 0 {
		return faults, nil
	}
	var some []fault
	for _, name := range names {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--faults: %q: no such fault, or this binary cannot bear it", name)
		}
		some = append(some, faults[i])
	}
	return some, nil
}

// unleash does a whole run.
func unleash(ctx context.Context, o options) (*report, error) {
	redisPath, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	if o.binary == "" {
		if o.binary, err = processes.Build(o.dir); err != nil {
			return nil, err
		}
	}
	w, err := newWorld(o.dir, o.binary, redisPath, o.log)
	if err != nil {
		return nil, err
	}
	defer w.close()
	faults, err := chosen(allFaults(w.audits()), o.faults)
	if err != nil {
		return nil, err
	}
	rate, err := w.warmUp(ctx, o.accounts)
	if err != nil {
		return nil, err
	}
	before := w.goroutines(ctx)
	fmt.Fprintf(o.log, "seed %d: %d kinds of fault, %.0f checks a second\n", o.seed, len(faults), rate)

	working, endWork := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer endWork()
	for i, name := range []string{"client-a", "client-b"} {
		workers.Go(func() { w.clients.run(working, name, rand.New(rand.NewPCG(o.seed, uint64(i)<<32))) })
	}
	workers.Go(func() { w.post(working, o.seed) })
	began := time.Now()
	turns, err := w.play(ctx, o, faults, rate)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	endWork()
	workers.Wait()
	r, err := w.conclude(ctx, turns, before)
	if err != nil {
		return nil, err
	}
	r.Seed, r.Length, r.Accounts = o.seed, took.Round(time.Second).String(), o.accounts
	return r, nil
}

// play injects faults until the time is up.
func (w *world) play(ctx context.Context, o options, faults []fault, rate float64) ([]*turn, error) {
	const most = 100_000 // turns, far beyond any run
	limit := most
	if o.rounds > 0 {
		limit = o.rounds * len(faults)
	}
	var turns []*turn
	began := time.Now()
	for n, f := range schedule(o.seed, faults, limit) {
		if time.Since(began) > o.length {
			break
		}
		t := &turn{Context: ctx, world: w, fault: f, number: n, random: rand.New(rand.NewPCG(o.seed, uint64(n)+1))}
		if err := t.play(rate); err != nil {
			return nil, fmt.Errorf("%s, turn %d: %w", f.name, n, err)
		}
		turns = append(turns, t)
		fmt.Fprintf(o.log, "%5.0f s  %-28s lasted %4.1f s, recovered in %4.1f s  %s\n", time.Since(began).Seconds(), f.name,
			t.healed.Sub(t.injected).Seconds(), t.recovery.Seconds(), strings.Join(t.faults[:min(2, len(t.faults))], "; "))
		if err := t.last(t.between(300*time.Millisecond, time.Second)); err != nil {
			return nil, err
		}
	}
	return turns, nil
}
