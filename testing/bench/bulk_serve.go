package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/feed"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// bulkServe serves the API until its input ends. It prints the address.
func bulkServe(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("bulkserve", flag.ContinueOnError)
	url := flags.String("redis", "", "URL of Redis")
	profile := flags.String("profile", "", "write a CPU profile to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server, err := connect.Open(*url, connect.Options{})
	if err != nil {
		return err
	}
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{Namespace: "bulk"})
	if err != nil {
		return err
	}
	checkers, err := poller.NewCheckers(feed.New(fetch.New(fetch.Options{}), secrets.Source{}))
	if err != nil {
		return err
	}
	routes, err := api.New(api.Options{Ring: ring, Registry: accounts.NewRegistry(ring, checkers)})
	if err != nil {
		return err
	}
	defer routes.Close()
	endProfile, err := startProfile(*profile)
	if err != nil {
		return err
	}
	defer endProfile()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	front := &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	defer front.Close()
	failed := make(chan error, 1)
	go func() { failed <- front.Serve(listener) }()
	if _, err := fmt.Fprintln(out, "http://"+listener.Addr().String()); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(ended)
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	case <-ended:
	}
	return nil
}
