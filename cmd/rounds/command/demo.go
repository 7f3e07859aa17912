package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/sample"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

const (
	demoAccounts = 10
	demoEvery    = "every 2s"
)

func newDemoCommand(env environment) *cobra.Command {
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the service at work, with nothing to set up",
		Long: `Show the service at work, with a Redis inside the process, a sample upstream with
feeds and connectors, ten accounts, and all roles. It prints the messages as they
are found. Nothing is kept when it ends.`,
		Example: `  rounds demo
  rounds demo --for 10s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if length > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, length)
				defer cancel()
			}
			return demo(ctx, env)
		},
	}
	cmd.Flags().DurationVar(&length, "for", 0, "end after this time; 0: when interrupted")
	return cmd
}

// demo uses the same parts as everybody: settings, service, and the API.
func demo(ctx context.Context, env environment) error {
	// The environment is for the real service. The demo must run even if that uses its
	// address.
	s, err := settings.Read(nil, nil)
	if err != nil {
		return err
	}
	s.Poller.AllowNetworks = "127.0.0.1" // the sample upstream is there
	s.Poller.GracePeriod = time.Second
	s.API.Addr = freeAddress(s.API.Addr)

	upstream, err := sample.Start()
	if err != nil {
		return err
	}
	defer upstream.Close()

	group, ctx := errgroup.WithContext(ctx)
	addr := make(chan string, 1)
	group.Go(func() error {
		options := serviceOptions(env)
		options.Serving = func(a string) { addr <- a }
		return service.Run(ctx, s, options)
	})
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case a := <-addr:
			return ended(ctx, showDemo(ctx, env.stdout, "http://"+a, "http://"+upstream.Addr()))
		}
	})
	return group.Wait()
}

// freeAddress returns the address, or any free port of loopback if it is in use.
func freeAddress(addr string) string {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return "127.0.0.1:0"
	}
	if err == nil {
		_ = l.Close()
	}
	return addr
}

// showDemo registers the sample's accounts and prints what is found.
func showDemo(ctx context.Context, out io.Writer, base, upstream string) error {
	calls := client.New(base, "")
	defer calls.Close()
	if err := awaitReady(ctx, base); err != nil {
		return err
	}
	fmt.Fprintf(out, `This is rounds with a Redis in the process and a sample upstream on loopback: %d accounts,
half feeds and half connectors, each checked %s. Interrupt to end; nothing is kept.

  API          %s/v1/accounts   (try: curl %s/v1/stats)
  description  %s/docs
  metrics      %s/metrics

Messages as they are found:

`, demoAccounts, demoEvery, base, base, base, base)
	for i := range demoAccounts {
		a := accounts.Account{ID: fmt.Sprintf("feed-%d", i/2+1), Kind: "feed", Cadence: demoEvery}
		path := "/feed/"
		if i%2 == 1 {
			a.ID, a.Kind, path = fmt.Sprintf("connector-%d", i/2+1), "http", "/connector/"
		}
		a.Config = fmt.Appendf(nil, `{"url":%q}`, upstream+path+a.ID)
		if _, err := calls.Add(ctx, a); err != nil {
			return err
		}
	}
	return calls.Tail(ctx, client.FromStart,
		func(m api.Message) error { return printMessage(out, m, false) },
		func(err error, pause time.Duration) {})
}

// awaitReady asks until the service is ready.
func awaitReady(ctx context.Context, base string) error {
	for ready(ctx, base) != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
