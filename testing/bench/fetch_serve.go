package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// fetchServe is the service with the poller's role, until its input ends.
func fetchServe(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("fetchserve", flag.ContinueOnError)
	url := flags.String("redis", "", "URL of Redis")
	flags.String("authority", "", "not used")
	profile := flags.String("profile", "", "the file of a CPU profile, which has one of allocations beside it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	variables := map[string]string{
		"ROUNDS_REDIS_URL": *url, "ROUNDS_NAMESPACE": fetchSpace, "ROUNDS_ROLES": "poller", "ROUNDS_ALLOW_NETWORKS": "127.0.0.0/8",
		"ROUNDS_OPS_ADDR": "127.0.0.1:0", "ROUNDS_LOG_LEVEL": "warn",
	}
	s, lookup, err := serviceSettings(variables)
	if err != nil {
		return err
	}
	var clients []*fetch.Client
	spy := func(t service.Tools) (poller.Checker, error) { // the only way to the service's own client
		clients = append(clients, t.Client)
		return idleKind{}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- service.Run(ctx, s, service.Options{Version: "bench", Lookup: lookup, Kinds: []service.Kind{spy}, Holding: service.HeldMemory(os.LookupEnv)})
	}()
	err = answering(in, out, *profile, func(what string, _ int) (any, error) {
		switch what {
		case "used":
			return fetchUsage()
		case "memory":
			return freedMemory()
		case "close":
			for _, c := range clients {
				c.Close()
			}
			return fetchMemory{}, nil
		}
		return nil, fmt.Errorf("fetchserve: %q", what)
	})
	cancel()
	return errors.Join(err, <-ended)
}

// idleKind is a kind without accounts.
type idleKind struct{ sleeper }

// Kind names it.
func (idleKind) Kind() string { return "idle" }
