package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "explore:", err)
		os.Exit(1)
	}
}

// list reads names with commas between them.
func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("explore", flag.ContinueOnError)
	pollers := flags.Int("pollers", 2, "how many pollers")
	strangers := flags.Int("strangers", 0, "how many pollers besides that check other kinds")
	keepers := flags.Int("keepers", 0, "how many pollers besides whose third parties hold calls")
	monitors := flags.Int("monitors", 2, "how many monitors")
	accounts := flags.Int("accounts", 1, "how many accounts")
	late := flags.Bool("late", false, "have them an hour late, and claimed one at a time")
	crashes := flags.Int("crashes", 2, "the most crashes")
	cuts := flags.Int("cuts", 1, "the most cut connections")
	changes := flags.Int("changes", 2, "the most steps of the surroundings, except the clock's")
	roles := flags.String("around", everyRole, "which surroundings change what circulates")
	senders := flags.Int("senders", 0, "explore the outbox instead, with so many senders")
	sends := flags.String("sends", "2", "with senders: how many sends there are to each peer, as 2,1")
	reshard := flags.String("reshard", "", "explore a change of the number of shards instead, as 1:2")
	movers := flags.Int("movers", 1, "with reshard: how many movers")
	auditors := flags.Int("auditors", 0, "with reshard: how many auditors")
	ends := flags.Bool("ends", false, "with reshard: the movers end the change too")
	empty := flags.Bool("empty", false, "with reshard: no account is registered at first")
	registrars := flags.String("registrars", "old,new", "with reshard, in place of around: registrars that know only the old shards, or the new ones too")
	deeds := flags.String("deeds", "register,upsert,deregister,pause,resume", "with reshard: what the registrars do")
	most := flags.Int("states", 0, "give up after this many states; 0: never")
	published := flags.String("published", "", "make all searches that are published, and write how many states they have to this page: testing/README.md")
	short := flags.Bool("short", false, "with published: only those that the tests make too")
	check := flags.Bool("check", false, "with published: write nothing, and fail if a number is another one")
	profile := flags.String("profile", "", "write a CPU profile there")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *published != "" {
		return publish(*published, *short, *check, out)
	}
	c, err := ringConfig(crew{pollers: *pollers, strangers: *strangers, keepers: *keepers, monitors: *monitors, accounts: *accounts, late: *late}, list(*roles))
	if *reshard != "" {
		b := reshardBounds{
			accounts: *accounts, pollers: *pollers, monitors: *monitors, movers: *movers, auditors: *auditors, ways: everyWay(),
			registrars: list(*registrars), deeds: list(*deeds), ends: *ends, empty: *empty,
		}
		if n, _ := fmt.Sscanf(*reshard, "%d:%d", &b.from, &b.to); n != 2 || b.from < 1 || b.from > 9 || b.to < 1 || b.to > 9 {
			return fmt.Errorf("reshard %q: must be two numbers from 1 to 9, as 1:2", *reshard)
		}
		c, err = reshardConfig(b)
	}
	if *senders > 0 {
		b := sendBounds{senders: *senders}
		for _, text := range list(*sends) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return fmt.Errorf("sends %q: must be numbers from 1, as 2,1", *sends)
			}
			b.sends = append(b.sends, n)
		}
		c, err = sendConfig(b), nil
	}
	if err != nil {
		return err
	}
	c.Crashes, c.Cuts, c.Changes, c.MaxStates = *crashes, *cuts, *changes, *most
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	begun := time.Now()
	r, err := explore(c)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d states, %d transitions, depth %d, %d snapshots of Redis, %d operations done, complete %v, in %v\n",
		r.States, r.Transitions, r.Depth, r.Snapshots, r.Operations, r.Complete, time.Since(begun).Round(time.Millisecond))
	if r.Fault != "" {
		return fmt.Errorf("%s\n%s", r.Fault, r.Text)
	}
	return nil
}
