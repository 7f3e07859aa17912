package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/demo"
)

func newDemoCommand(env environment) *cobra.Command {
	var length time.Duration
	scans := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the service at work, with nothing to set up",
		Long: `Show the service at work: a Redis inside the process, a small internet on loopback
with some dozens of feeds, connectors and a WeChat account, some of which fail on
purpose, and all roles. It prints where the dashboard is, and then messages as they are found.

The three pollers are processes of their own. The dashboard's first page has a button
that kills one, as kill -9 does: the others take over its accounts, and after half a
minute another takes its place. Nothing remains when the demo ends.

It reads no settings, which are for "rounds serve". The dashboard is at 127.0.0.1:8080, or at
another port if that one is taken.

One account is at a pretend WeChat, with a phone whose address is printed: it scans the codes
of sign-ins, on the dashboard or by "rounds weixin login", writes messages, and shows what they
are answered. With --weixin-login one more account is signed in here first, and the phone scans
by itself.`,
		Example: `  rounds demo
  rounds demo --weixin-login
  rounds demo --for 10s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if length > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, length)
				defer cancel()
			}
			if addr, set := env.lookup("ROUNDS_API_ADDR"); set && addr != "" {
				fmt.Fprintln(env.stderr, "rounds: the demo reads no settings and does not listen at ROUNDS_API_ADDR; it prints where the dashboard is")
			}
			options := demo.Options{
				Service: serviceOptions(env), Command: calledAs(os.Executable()), Program: env.self, Arguments: []string{"demo", demoPoller},
				Ready:  awaitReady,
				Show:   func(m api.Message) error { return printMessage(env.stdout, m, false) },
				Change: env.change,
				Out:    env.stdout, Err: env.stderr,
			}
			if scans {
				options.SignIn = func(ctx context.Context, base, id string) error {
					calls := client.New(base, "")
					defer calls.Close()
					return signIn(ctx, env, calls, api.LoginRequest{ID: id, Labels: map[string]string{"team": "sales"}}, false)
				}
			}
			return demo.Run(ctx, options)
		},
	}
	cmd.Flags().BoolVar(&scans, "weixin-login", false, "sign a WeChat account in first, by a code in the terminal that a pretend phone scans")
	cmd.Flags().DurationVar(&length, "for", 0, "end after this time; 0: when interrupted")
	cmd.AddCommand(newDemoPollerCommand(env))
	return cmd
}

// calledAs returns how people call a program with this path. A program that "go run" has built is
// in no PATH.
func calledAs(path string, err error) string {
	if err == nil && strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/rounds"
	}
	return "rounds"
}

// demoPoller is the command with which the demo starts its pollers.
const demoPoller = "poller"

func newDemoPollerCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:     demoPoller,
		Hidden:  true,
		Short:   "Run a poller of the demo, which starts it",
		Example: `  rounds demo poller`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.RunPoller(cmd.Context(), env.stdin, env.stdout, serviceOptions(env), env.change)
		},
	}
}

// self returns a command that runs this program with other arguments.
func (e environment) self(args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), e.again...)
	return cmd, nil
}

// awaitReady asks until the service is ready.
func awaitReady(ctx context.Context, base string) error {
	for ready(ctx, base) != nil {
		if !pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}
