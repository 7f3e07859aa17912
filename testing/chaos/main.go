package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// errViolated reports a run in which something did not hold.
var errViolated = errors.New("something did not hold")

// options are the arguments of a run.
type options struct {
	length   time.Duration // of the faults; what comes before and after is not counted
	seed     uint64
	on       []topology // empty: all
	faults   []string   // empty: all
	complete bool       // if the time is up, go on until each fault has come once
	rounds   int        // the most turns of each fault; 0: as many as there is time for
	accounts int
	binary   string // what to break; empty: it is built from this source
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
	on := flags.String("on", "", "only in these worlds, separated by commas: server, sentinel, cluster")
	names := flags.String("faults", "", "only these, separated by commas")
	binary := flags.String("binary", "", "a rounds binary, in place of one built now")
	file := flags.String("report", "", "write the report to this file as well, as JSON")
	drawn := flags.String("draw", "", "inject nothing: print the page of the report in this file")
	into := flags.String("into", "", "with --draw: put the page between "+strings.TrimSpace(pageBegin)+" and "+pageEnd+" of this file")
	show := flags.Bool("list", false, "print the faults and end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *show {
		for _, f := range allFaults(true) {
			fmt.Fprintf(out, "%-28s %-10s %-10s %s\n", f.name, f.on, f.invariant, f.sign.name)
		}
		return nil
	}
	if *drawn != "" {
		return draw(*drawn, *into, out)
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
	for name := range strings.SplitSeq(*on, ",") {
		if *on != "" && !slices.Contains(topologies(), topology(name)) {
			return fmt.Errorf("--on: %q: no such world", name)
		}
		o.on = append(o.on, topology(name))
	}
	if *on == "" {
		o.on = topologies()
	}
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the system's folder for temporary files
	o.dir = dir
	r, err := unleash(ctx, o)
	if err != nil {
		return fmt.Errorf("seed %d: %w", o.seed, err)
	}
	if *file != "" {
		if err := r.save(*file); err != nil {
			return err
		}
	}
	if err := r.markdown(out); err != nil {
		return err
	}
	if r.failed() > 0 {
		return errViolated
	}
	return nil
}

// unleash does a whole run: in each world the faults that are possible there.
func unleash(ctx context.Context, o options) (*report, error) {
	redisPath, err := redistest.Find()
	if err != nil {
		return nil, err
	}
	total := &report{Seed: o.seed, Began: time.Now(), Machine: thisMachine(redisPath)}
	if o.binary != "" {
		total.Commit, total.Modified = builtFrom(o.binary)
	} else {
		total.Commit, total.Modified = checkedOut()
		if o.binary, err = processes.Build(o.dir); err != nil {
			return nil, err
		}
	}
	faults, err := chosen(allFaults(audits(o.binary)), o.on, o.faults)
	if err != nil {
		return nil, err
	}
	for _, on := range o.on {
		own := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return f.on != on })
		if len(own) == 0 && len(faults) > 0 {
			continue
		}
		share := o
		share.length = o.length * time.Duration(max(1, len(own))) / time.Duration(max(1, len(faults)))
		share.complete = o.length >= least*time.Duration(len(faults))
		r, err := share.phase(ctx, on, own, redisPath)
		if err != nil {
			return nil, fmt.Errorf("on %s: %w", on, err)
		}
		total.add(r)
	}
	return total, nil
}
