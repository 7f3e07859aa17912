// Command rounds is the service and its command line: it keeps checking a large
// set of third-party accounts for new messages. "rounds --help" says how.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	_ "time/tzdata" // cron cadences name zones, which not every system has
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends the process as it would any other.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], systemEnvironment())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rounds:", err)
		os.Exit(1)
	}
}
