// Package command is the program rounds as a library: the whole command line, and with it
// the service, its API, its dashboard and its metrics. A program that adds its own kinds
// is
//
//	package main
//
//	import "github.com/rounds-dev/rounds/cmd/rounds/command"
//
//	func main() { command.Main(newPigeons) }
//
// newPigeons is a Kind: it makes a poller.Checker with the tools that the process lends it. Every
// command treats such a kind like the kinds of rounds: serve checks its accounts, account add
// validates its config, check tries one by hand. Nothing is registered globally, so a process may
// hold several programs.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	_ "time/tzdata" // cron cadences name time zones, which some systems do not have

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

// Kind makes the checker of one of the program's own kinds. It is a
//
//	func(Tools) (poller.Checker, error)
//
// and may be called several times in a process, each time that settings are validated or roles
// start. It must not store the tools anywhere but in the checker. Its error ends the command, which names
// the kind.
type Kind = service.Kind

// Tools are what a process lends a Kind. The fields are
//
//	Client  *fetch.Client         // reaches third parties, under the settings' rule for addresses
//	Secrets secrets.Source        // finds what configs refer to as {"secret": "NAME"}
//	Log     *slog.Logger          // for what people should know; what fails a check goes into its error
//	Metrics prometheus.Registerer // registers metrics of the kind's own, which /metrics shows
//	Namespace string              // the ring's, for a Sink
//
// Names of such metrics should not begin with rounds_, and they must never be labelled by account.
type Tools = service.Tools

// Sink makes one of the program's own types of endpoints, where messages are delivered to. It is a
//
//	func(Tools) (sink.Type, error)
//
// and is called as a Kind is. The type's name is what an endpoint has in its field type.
type Sink = service.Sink

// Program is a program that adds kinds of accounts and types of endpoints to those of rounds.
type Program struct {
	Kinds []Kind
	Sinks []Sink
}

// Main runs the program with kinds besides the kinds of rounds; see Program.Main.
func Main(kinds ...Kind) { Program{Kinds: kinds}.Main() }

// Run runs one command of such a program; see Program.Run.
func Run(ctx context.Context, args []string, kinds ...Kind) error {
	return Program{Kinds: kinds}.Run(ctx, args)
}

// Main runs the command line of the process and ends the process. The exit code is 0 if all went well and 1 otherwise; a command's help lists further
// codes. SIGINT and SIGTERM end the command properly. A second one ends the process at once, except
// that a serving command first signs off; a third one then ends it. SIGHUP makes serve read its
// settings again.
func (p Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	env := systemEnvironment(p)
	env.hangups = func() <-chan os.Signal {
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, syscall.SIGHUP)
		return caught
	}
	env.haste = newHaste()
	// After the last expected signal, the next one ends the process in the default way.
	context.AfterFunc(ctx, func() { env.haste.follow(stop) })
	err := run(ctx, os.Args[1:], env)
	stop()
	if err != nil {
		env.report(err)
		os.Exit(exitCode(err))
	}
}

// Run is Main for tests and for programs with their own main function. It runs one command, without
// the program's name in args, and returns its error. It uses the process' standard streams and
// environment, and leaves signals to the caller: a serving command ends when ctx is done.
func (p Program) Run(ctx context.Context, args []string) error {
	return run(ctx, args, systemEnvironment(p))
}

// codeError is an error with its own exit code.
type codeError struct {
	error
	code int
}

// Unwrap returns the wrapped error.
func (e codeError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var coded codeError
	if errors.As(err, &coded) {
		return coded.code
	}
	return 1
}

// haste tells a command about the process' second signal, if it asks for that.
type haste struct {
	asked  atomic.Bool
	hurry  chan struct{} // closed at the second signal
	listen func() (again context.Context, stop context.CancelFunc)
}

func newHaste() *haste {
	return &haste{hurry: make(chan struct{}), listen: func() (context.Context, context.CancelFunc) {
		return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	}}
}

// channel returns a channel that is closed at the second signal, which then does not end the
// process by itself. It is nil if h is.
func (h *haste) channel() <-chan struct{} {
	if h == nil {
		return nil
	}
	h.asked.Store(true)
	return h.hurry
}

// follow waits, after the first signal, for a second one if the command asked for it.
// stop stops catching the first.
func (h *haste) follow(stop func()) {
	if !h.asked.Load() {
		stop()
		return
	}
	again, stopAgain := h.listen() // before stop, so that each signal is caught
	stop()
	<-again.Done()
	stopAgain()
	close(h.hurry)
}

// run is the program. It returns what went wrong. If the user ended the command, there
// is no error.
func run(ctx context.Context, args []string, env environment) error {
	// The terminal shows text that others wrote without obeying any of it, whichever command prints.
	if env.stdout != nil {
		env.stdout = terminal.NewWriter(env.stdout)
	}
	if env.stderr != nil {
		env.stderr = terminal.NewWriter(env.stderr)
	}
	root := newRoot(env)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return inOurWords(cmd, err)
}

// inOurWords replaces the library's text about missing flags by our own.
func inOurWords(cmd *cobra.Command, err error) error {
	if err == nil || !strings.HasPrefix(err.Error(), "required flag(s) ") {
		return err
	}
	var missing []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed && len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0 {
			_, usage := pflag.UnquoteUsage(f)
			missing = append(missing, fmt.Errorf("--%s is missing: %s", f.Name, usage))
		}
	})
	return errors.Join(missing...)
}

// codeMisuse is the exit code of a command that cannot work as it was called.
const codeMisuse = 2

func misuse(text string) error { return codeError{errors.New(text), codeMisuse} }

// readAs reads settings of one sort from flags, the environment and the settings file. The lookup finds
// other variables in the same places.
func readAs[T any](env environment, cmd *cobra.Command, as func(settings.Lookup, *pflag.FlagSet) (T, error)) (T, settings.Lookup, error) {
	lookup, faults := settings.Layer(env.lookup, cmd.Flags())
	s, err := as(lookup, cmd.Flags())
	return s, lookup, errors.Join(faults, err)
}

// withClient turns a function that calls the API into a command's function.
func withClient(env environment, fn func(cmd *cobra.Command, args []string, calls *client.Client) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		access, _, err := readAs(env, cmd, settings.ReadAccess)
		if err != nil {
			return err
		}
		calls := client.New(access.URL, access.Token)
		defer calls.Close()
		calls.Await(cmd.Context(), env.patience)
		return fn(cmd, args, calls)
	}
}

// ended ignores the error of a command that ended because ctx did.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}
