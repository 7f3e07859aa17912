package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rounds-dev/rounds/testing/bench/commit"
)

// options are what the command was asked to do.
type options struct {
	json    bool
	quick   bool
	only    []string
	each    time.Duration // the length of one run
	rounds  int
	count   int // accounts, tasks, deliveries
	large   int // accounts of the large ring
	pairs   int // pairs of processes in the recovery
	figures string
	commit  string // the commit that is measured
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == subjectCommand { // this program starts this itself
		return serveSubject(ctx, args[1:], os.Stdin, out)
	}
	if len(args) > 0 && args[0] == holderCommand {
		return holdTasks(ctx, args[1:], out)
	}
	o := options{}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.BoolVar(&o.json, "json", false, "one JSON object a line")
	flags.BoolVar(&o.quick, "quick", false, "short runs with few accounts, to see that everything works")
	flags.DurationVar(&o.each, "for", 4*time.Second, "how long each run takes")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each is measured, in turn")
	flags.IntVar(&o.count, "accounts", 100_000, "accounts, tasks and deliveries")
	flags.IntVar(&o.large, "large", 1_000_000, "accounts of the large ring")
	flags.IntVar(&o.pairs, "kills", 5, "how many processes of each system are killed")
	flags.StringVar(&o.figures, "figures", "../figures", "where measured.json and the drawings go")
	flags.StringVar(&o.commit, "commit", "", "which commit is measured, where git cannot tell")
	only := flags.String("only", "", "parts to measure, separated by commas: "+strings.Join(partNames(), ", "))
	profile := flags.Bool("profile", false, "print where the time of a cycle goes, and nothing else")
	plan := flags.String("plan", "", "print the capacity plan from this measured.json, and measure nothing")
	page := flags.String("page", "", "print the tables of comparisons from this measured.json, and measure nothing")
	draw := flags.String("draw", "", "draw the figures from this measured.json, and measure nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *plan != "":
		return printPlan(*plan, out)
	case *page != "":
		return printPage(*page, out)
	case *draw != "":
		r, err := readResults(*draw)
		if err != nil {
			return err
		}
		return drawAll(r, o.figures)
	}
	if o.quick {
		given := o
		o.each, o.rounds, o.count, o.large, o.pairs = 500*time.Millisecond, 2, 20_000, 50_000, 1
		o.figures = filepath.Join(os.TempDir(), "rounds-peers-quick") // a full run's figures must not be overwritten
		flags.Visit(func(f *flag.Flag) { o.keep(f.Name, given) })
	}
	if o.rounds < 1 || o.count < 2*inFlight || o.large < 1 || o.pairs < 1 || o.each <= 0 {
		return fmt.Errorf("rounds, large, kills and for must be more than 0, and accounts at least %d", 2*inFlight)
	}
	switch {
	case *profile:
		o.only = []string{"profile"}
	case *only != "":
		o.only = strings.Split(*only, ",")
	}
	if o.commit == "" {
		var err error
		if o.commit, err = commit.Of(ctx, "."); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	return measureAll(ctx, o, out)
}

// keep replaces a quick run's value with the flag's, if it was set.
func (o *options) keep(name string, given options) {
	switch name {
	case "for":
		o.each = given.each
	case "rounds":
		o.rounds = given.rounds
	case "accounts":
		o.count = given.count
	case "large":
		o.large = given.large
	case "kills":
		o.pairs = given.pairs
	case "figures":
		o.figures = given.figures
	}
}

// part is one thing that can be measured alone.
type part struct {
	name string
	run  func(context.Context, *bench) error
}

// parts are in the order in which they are measured: memory comes first, while Redis is
// empty, and killing comes last.
func parts() []part {
	return []part{
		{"memory", measureMemory},
		{"cycles", measureCycles},
		{"shares", measureShares},
		{"masters", measureMasters},
		{"sweeps", measureSweeps},
		{"load", measureLoad},
		{"durable", measureDurable},
		{"idle", measureIdle},
		{"profile", measureProfile},
		{"recovery", measureRecovery},
	}
}

func partNames() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// bench is one run of the command.
type bench struct {
	options
	results *results
	redis   *server
	dir     string // removed at the end
}

func measureAll(ctx context.Context, o options, out io.Writer) error {
	for _, name := range o.only {
		if !slices.Contains(partNames(), name) {
			return fmt.Errorf("only: there is no part %q; there are %s", name, strings.Join(partNames(), ", "))
		}
	}
	dir, err := os.MkdirTemp("", "rounds-peers")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the system's folder for temporary files
	b := &bench{options: o, dir: dir, results: newResults(o, out)}
	if b.redis, err = startServer(dir); err != nil {
		return err
	}
	defer b.redis.stop()
	for _, p := range parts() {
		if len(o.only) > 0 && !slices.Contains(o.only, p.name) {
			continue
		}
		b.results.section(p.name)
		if err := p.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", p.name, errors.Join(err, b.results.save(o.figures)))
		}
		if err := b.redis.flush(); err != nil {
			return err
		}
	}
	if err := b.results.save(o.figures); err != nil {
		return err
	}
	b.results.section("kept and drawn in " + o.figures)
	return drawAll(b.results, o.figures)
}
