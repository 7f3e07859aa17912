// Command release makes what is published of a version, beside the binaries: man pages and
// completions, archives, a bill of materials for each binary, and checksums. Equal input
// makes equal bytes. It also tries what was made.
//
//	go run -C testing/release . stage DIR           pages and the unit, for nfpm
//	go run -C testing/release . pack BINARIES OUT   archives and bills of materials
//	go run -C testing/release . sums OUT            SHA256SUMS
//	go run -C testing/release . try OUT             installs the packages and runs the service
//
// testing/release.sh calls it, in the top folder of the repository.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "stage":
		made, err := commitTime()
		if err != nil {
			return err
		}
		return stage(".", args[1], made)
	case len(args) == 3 && args[0] == "pack":
		made, err := commitTime()
		if err != nil {
			return err
		}
		return pack(".", args[1], args[2], made)
	case len(args) == 2 && args[0] == "sums":
		return writeSums(args[1])
	case len(args) == 2 && args[0] == "try":
		return try(ctx, args[1], os.Stdout)
	}
	return errors.New("usage: release stage DIR | pack BINARIES OUT | sums OUT | try OUT")
}

// commitTime returns the time that everything made bears: that of the commit.
func commitTime() (time.Time, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}, errors.New("SOURCE_DATE_EPOCH: must be the time of the commit, in seconds since 1970")
	}
	return time.Unix(seconds, 0).UTC(), nil
}
