// Command bench measures rounds against Redis on this machine and prints one
// line a figure:
//
//	go run ./testing/bench ring [--json]
//	go run ./testing/bench cadence [--json]
//	go run ./testing/bench delivery [--json]
//	go run ./testing/bench bulk [--json]
//	go run ./testing/bench wecom [--json]
//	go run ./testing/bench dashboard [--json]
//	go run ./testing/bench backup [--json]
//	go run ./testing/bench held [--json]
//	go run ./testing/bench mail [--json]
//	go run ./testing/bench fetch [--json]
//	go run ./testing/bench embedded [--json]
//	go run ./testing/bench send [--json]
//	go run ./testing/bench files [--json]
//	go run ./testing/bench sinks [--json]
//	go run ./testing/bench outage [--json]
//	go run ./testing/bench catchup [--json]
//	go run ./testing/bench slow [--json]
//	go run ./testing/bench budget [--json] [--plot FILE]
//
// It starts the redis-server that it measures, in memory and without
// persistence unless it says otherwise, on a free loopback port.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/bench/commit"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// figure is one measured number.
type figure struct {
	Name   string  `json:"figure"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Commit string  `json:"commit"` // the commit that was measured
}

// reporter prints figures as they come.
type reporter struct {
	out    io.Writer
	json   bool
	commit string
}

// newReporter returns a reporter that names the measured commit: once for people, with
// each figure for machines.
func newReporter(ctx context.Context, out io.Writer, asJSON bool) (reporter, error) {
	name, err := commit.Of(ctx, ".")
	if err != nil {
		return reporter{}, fmt.Errorf("commit: %w", err)
	}
	if !asJSON {
		fmt.Fprintf(out, "at commit %s\n", name)
	}
	return reporter{out, asJSON, name}, nil
}

func (r reporter) figure(name string, value float64, unit string) {
	if r.json {
		line, _ := json.Marshal(figure{name, value, unit, r.commit}) // a figure is always marshalled
		fmt.Fprintf(r.out, "%s\n", line)
		return
	}
	fmt.Fprintf(r.out, "%-44s %14.2f  %s\n", name, value, unit)
}

// quantile prints a quantile of samples. The name has a verb for the share in per cent, so that
// it cannot say another one.
func (r reporter) quantile(name string, all []float64, share float64, unit string) {
	r.figure(fmt.Sprintf(name, 100*share), quantile(all, share), unit)
}

// lateness prints what the two-second windows of a run say of lateness, in seconds.
func (r reporter) lateness(prefix string, windows []lateness, note string) {
	p50, p99 := make([]float64, len(windows)), make([]float64, len(windows))
	for i, w := range windows {
		p50[i], p99[i] = 1000*w.p50, 1000*w.p99
	}
	r.figure(prefix+"p50_lateness_ms", median(p50), "ms, the median of two-second windows"+note)
	r.figure(prefix+"p99_lateness_ms", median(p99), "ms, the median of two-second windows")
	r.figure(prefix+"p99_lateness_worst_window_ms", slices.Max(p99), "ms")
}

// lateness is how late the checks of one window were, in seconds.
type lateness struct{ p50, p99 float64 }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	const usage = "usage: bench ring [--json] [--for 4s] [--accounts 1000000] [--against BINARY]\n" +
		"       bench cadence [--json] [--for 5m] [--accounts 1000000] [--every 1m] [--replicas 1] [--only idle|load] [--commands] [--against BINARY]\n" +
		"       bench delivery [--json] [--for 10s] [--messages 100000] [--waiting 10000000]\n" +
		"       bench bulk [--json] [--accounts 1000000]\n" +
		"       bench wecom [--json] [--for 1m] [--accounts 5000]\n" +
		"       bench dashboard [--json] [--for 30s] [--rounds 2] [--accounts 1000000] [--failing 20000] [--requests 120]\n" +
		"       bench backup [--json] [--accounts 1000000] [--busy 100000] [--for 30s]\n" +
		"       bench held [--json] [--for 1m] [--accounts 20000] [--only replica|restarts] [--http2]\n" +
		"       bench mail [--json] [--for 1m] [--idle 10000] [--only replica|restarts] [--polled 100000] [--every 5m] [--poll-for 6m]\n" +
		"       bench fetch [--json] [--for 40s] [--accounts 100000] [--hosts 5000] [--rounds 3] [--against BINARY]\n" +
		"       bench embedded [--json] [--for 10s] [--accounts 20000] [--rounds 3] [--program BINARY]\n" +
		"       bench send [--json] [--for 20s] [--accounts 1000] [--rate 500] [--disk none,always,everysec]\n" +
		"       bench files [--json] [--small 100000] [--large 10] [--size 100] [--store directory,s3] [--only works|trouble|hour]\n" +
		"       bench sinks [--json] [--for 5s] [--rounds 3]\n" +
		"       bench outage [--json] [--for 1m] [--accounts 10000] [--every 10s] [--limit rate=2000/s] [--replicas 2]\n" +
		"       bench slow [--json] [--for 1m] [--settle 1m] [--accounts 100000] [--well 5000] [--only control,slow]\n" +
		"       bench catchup [--json] [--for 4h] [--accounts 10000] [--capacity 1.3]\n" +
		"       bench budget [--json] [--days 1000] [--accounts 90] [--plot FILE]"
	if len(args) == 0 {
		return errors.New(usage)
	}
	if args[0] == "consume" { // bench delivery starts this
		return consume(ctx, args[1:], out)
	}
	if args[0] == "bulkserve" { // bench bulk starts this
		return bulkServe(ctx, args[1:], os.Stdin, out)
	}
	if args[0] == "dashboardserve" { // bench dashboard starts these
		return dashboardServe(ctx, args[1:], os.Stdin, out)
	}
	if args[0] == "dashboardpoll" {
		return dashboardPoll(ctx, args[1:], os.Stdin, out)
	}
	if args[0] == "backupserve" { // bench backup starts these
		return backupServe(ctx, args[1:], os.Stdin, out)
	}
	if args[0] == "program" {
		return backupProgram(ctx, args[1:])
	}
	if args[0] == "heldserve" { // bench held starts these
		return heldServe(ctx, args[1:], os.Stdin, out)
	}
	if args[0] == "heldfake" {
		return heldFakeServe(ctx, args[1:], os.Stdin, out)
	}
	if args[0] == "mailfake" { // bench mail starts this, and heldserve
		return mailFakeServe(ctx, args[1:], os.Stdin, out)
	}
	answer := map[string]func(context.Context, []string, io.Reader, io.Writer) error{ // bench fetch and bench files start these
		"fetchfake": fetchFakeServe, "fetchloop": fetchLoopServe, "fetchserve": fetchServe,
		"filesserve": filesServe, "fileshour": filesHourServe,
	}
	if serve, ok := answer[args[0]]; ok {
		return serve(ctx, args[1:], os.Stdin, out)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "one JSON object a line")
	accounts := flags.Int("accounts", 1_000_000, "accounts of the large ring")
	// begin reads the arguments of a benchmark that has so many accounts by default.
	begin := func(usual int, into *int, report *reporter) error {
		flags.Lookup("accounts").DefValue = strconv.Itoa(usual)
		*accounts = usual
		err := flags.Parse(args[1:])
		if err != nil {
			return err
		}
		*into = *accounts
		*report, err = newReporter(ctx, out, *asJSON)
		return err
	}
	switch args[0] {
	case "ring":
		each := flags.Duration("for", 4*time.Second, "how long each measurement runs")
		rounds := flags.Int("rounds", 3, "how often each is measured, in turn; medians are printed")
		other := flags.String("against", "", "another build of this program, to compare with: both run in turns, so often")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		report, err := newReporter(ctx, out, *asJSON)
		if err != nil {
			return err
		}
		if *other != "" {
			one := []string{"ring", "--json", "--rounds", "1", "--for", each.String(), "--accounts", strconv.Itoa(*accounts)}
			return (&against{report: report, other: *other, args: one, pairs: *rounds}).run(ctx)
		}
		b := &ringBench{report: report, each: *each, rounds: *rounds, large: *accounts}
		return b.run(ctx)
	case "catchup":
		b := &catchUpBench{}
		b.flags(flags)
		if err := begin(10_000, &b.accounts, &b.report); err != nil {
			return err
		}
		return b.run(ctx)
	case "sinks":
		b := &sinksBench{}
		flags.DurationVar(&b.each, "for", 5*time.Second, "how long each sink is measured")
		flags.IntVar(&b.count, "rounds", 3, "how often; medians are printed")
		var unused int
		if err := begin(0, &unused, &b.report); err != nil {
			return err
		}
		return b.run(ctx)
	case "outage":
		b := &outageBench{}
		b.flags(flags)
		if err := begin(10_000, &b.accounts, &b.report); err != nil {
			return err
		}
		return b.run(ctx)
	case "slow":
		b := &slowBench{}
		b.flags(flags)
		if err := begin(100_000, &b.crowd, &b.report); err != nil {
			return err
		}
		return b.run(ctx)
	case "budget":
		return budgetMain(ctx, flags, args[1:], accounts, asJSON, out)
	case "cadence":
		b := &cadenceBench{}
		b.flags(flags)
		rounds := flags.Int("rounds", 3, "with --against: how often both run")
		other := flags.String("against", "", "another build of this program, to compare with: both run in turns")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		b.accounts = *accounts
		if err := b.validate(); err != nil {
			return err
		}
		var err error
		if b.report, err = newReporter(ctx, out, *asJSON); err != nil {
			return err
		}
		if *other != "" {
			return (&against{report: b.report, other: *other, args: b.args(), pairs: *rounds}).run(ctx)
		}
		return b.run(ctx)
	case "delivery":
		b := &deliveryBench{}
		flags.DurationVar(&b.each, "for", 10*time.Second, "how long latency is measured")
		flags.IntVar(&b.rounds, "rounds", 3, "how often each rate is measured, in turn; medians are printed")
		flags.IntVar(&b.messages, "messages", 100_000, "messages, and tasks of asynq, to deal with in each round")
		flags.IntVar(&b.waiting, "waiting", 0, "measure the consumer's memory while this many messages wait")
		flags.StringVar(&b.profile, "profile", "", "write a CPU profile of the last round's consumer to this file")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if b.rounds < 1 || b.messages < 1 {
			return errors.New("rounds and messages must be at least 1")
		}
		var err error
		if b.report, err = newReporter(ctx, out, *asJSON); err != nil {
			return err
		}
		return b.run(ctx)
	case "embedded":
		b := &embeddedBench{}
		b.flags(flags)
		flags.Lookup("accounts").DefValue = "20000"
		if err := flags.Set("accounts", "20000"); err != nil {
			return err
		}
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if b.rounds < 1 || *accounts < 1 || b.each < time.Second {
			return errors.New("rounds and accounts must be at least 1, and for 1s")
		}
		b.accounts = *accounts
		var err error
		if b.report, err = newReporter(ctx, out, *asJSON); err != nil {
			return err
		}
		return b.run(ctx)
	case "send":
		b := &sendBench{}
		b.flags(flags)
		flags.Lookup("accounts").DefValue = "1000"
		if err := flags.Set("accounts", "1000"); err != nil {
			return err
		}
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		b.accounts = *accounts
		err := b.validate()
		if err != nil {
			return err
		}
		if b.report, err = newReporter(ctx, out, *asJSON); err != nil {
			return err
		}
		return b.run(ctx)
	case "files":
		return filesMain(ctx, flags, args[1:], asJSON, out)
	case "wecom":
		length := flags.Duration("for", time.Minute, "how long each of its two halves is measured, after one interval")
		flags.Lookup("accounts").DefValue = "5000"
		if err := flags.Set("accounts", "5000"); err != nil {
			return err
		}
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if *accounts < wecomCorps {
			return fmt.Errorf("accounts must be at least %d", wecomCorps)
		}
		report, err := newReporter(ctx, out, *asJSON)
		if err != nil {
			return err
		}
		b := &wecomBench{report: report, length: *length, accounts: *accounts}
		return b.run(ctx)
	case "dashboard":
		b := &dashboardBench{}
		flags.DurationVar(&b.window, "for", 30*time.Second, "how long each measurement of Redis is")
		flags.IntVar(&b.rounds, "rounds", 2, "how often an idle Redis is measured with viewers and without, in turn")
		flags.IntVar(&b.failing, "failing", 20_000, "how many of the accounts fail")
		flags.IntVar(&b.requests, "requests", 120, "requests for each page")
		only := flags.String("only", "", "measure these pages alone, such as overview,problems; then there is no figure of the worst page")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if b.rounds < 1 || b.requests < 1 || b.failing < 100 || b.failing > *accounts/2 || b.window < time.Second {
			return errors.New("rounds and requests must be at least 1, and failing 100 to half of the accounts")
		}
		var err error
		if b.report, err = newReporter(ctx, out, *asJSON); err != nil {
			return err
		}
		b.accounts = *accounts
		if *only != "" {
			b.only = strings.Split(*only, ",")
		}
		return b.run(ctx)
	case "backup":
		b := &backupBench{}
		flags.IntVar(&b.busy, "busy", 100_000, "how many of the accounts are checked every minute while a second backup is taken; 0: there is none")
		flags.DurationVar(&b.length, "for", 30*time.Second, "how long lateness is measured without a backup")
		flags.StringVar(&b.profile, "profile", "", "write a CPU profile of the serving process to this file")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if *accounts < 1 || b.busy < 0 || b.busy > *accounts {
			return errors.New("accounts must be at least 1, and busy at most as many")
		}
		var err error
		if b.report, err = newReporter(ctx, out, *asJSON); err != nil {
			return err
		}
		b.accounts = *accounts
		return b.run(ctx)
	case "held":
		length := flags.Duration("for", time.Minute, "how long messages are sent")
		only := flags.String("only", "", "replica: without restarts; restarts: without messages")
		http2 := flags.Bool("http2", false, "over HTTP/2 instead of HTTP/1.1")
		flags.Lookup("accounts").DefValue = "20000"
		if err := flags.Set("accounts", "20000"); err != nil {
			return err
		}
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if *accounts < 100 || *length < time.Second {
			return errors.New("accounts must be at least 100, and the time a second")
		}
		if !slices.Contains([]string{"", "replica", "restarts"}, *only) {
			return fmt.Errorf("--only: %q is neither replica nor restarts", *only)
		}
		report, err := newReporter(ctx, out, *asJSON)
		if err != nil {
			return err
		}
		b := &heldBench{report: report, length: *length, accounts: *accounts, only: *only, http2: *http2, of: "held", hold: heldHold}
		return b.run(ctx)
	case "mail":
		return mailMain(ctx, flags, args[1:], asJSON, out)
	case "fetch":
		return fetchMain(ctx, flags, args[1:], accounts, asJSON, out)
	case "bulk":
		b := &bulkBench{}
		flags.StringVar(&b.profile, "profile", "", "write a CPU profile of the serving process to this file")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if *accounts < 1 {
			return errors.New("accounts must be at least 1")
		}
		var err error
		if b.report, err = newReporter(ctx, out, *asJSON); err != nil {
			return err
		}
		b.accounts = *accounts
		return b.run(ctx)
	}
	return errors.New(usage)
}

// startRedis starts a server to measure and connects to it.
func startRedis(options ...redistest.Option) (*redistest.Server, *connect.Single, func(), error) {
	path, err := redistest.Find()
	if err != nil {
		return nil, nil, nil, err
	}
	dir, err := os.MkdirTemp("", "rounds-bench")
	if err != nil {
		return nil, nil, nil, err
	}
	server, err := redistest.Launch(path, dir, options...)
	if err != nil {
		return nil, nil, nil, err
	}
	single, err := connect.OpenSingle(server.URL(), connect.Options{})
	if err != nil {
		server.Kill()
		return nil, nil, nil, err
	}
	return server, single, func() {
		_ = single.Close()
		server.Kill()
		_ = os.RemoveAll(dir)
	}, nil
}
