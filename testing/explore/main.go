package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "explore:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("explore", flag.ContinueOnError)
	pollers := flags.Int("pollers", 2, "how many pollers")
	monitors := flags.Int("monitors", 2, "how many monitors")
	accounts := flags.Int("accounts", 1, "how many accounts")
	crashes := flags.Int("crashes", 2, "at most so many crashes")
	cuts := flags.Int("cuts", 1, "at most so many cut connections")
	changes := flags.Int("changes", 2, "at most so many steps of those around, but for the clock's")
	roles := flags.String("around", "registrar,pauser,nudger,clock", "who else changes what circulates")
	most := flags.Int("states", 0, "give up after so many states; 0: never")
	profile := flags.String("profile", "", "write a CPU profile there")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var around []string
	if *roles != "" {
		around = strings.Split(*roles, ",")
	}
	c, err := ringConfig(*pollers, *monitors, *accounts, around)
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
