package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/admin"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/doctor"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// environment is everything that the program takes from its surroundings, so that a test
// can replace it.
type environment struct {
	lookup  func(name string) (value string, ok bool) // like os.LookupEnv
	environ []string                                  // like os.Environ

	stdin          io.Reader
	stdout, stderr io.Writer

	isTerminal func(stream any) bool // nil: no stream is

	haste *haste // nil: nothing hurries

	kinds []Kind // besides those of rounds

	again  []string                 // variables with which the executable acts as this program
	change func(*settings.Settings) // changes those of the demo; nil: it does not

	// patience is how long a command waits for a service on this machine to listen, as it may
	// have been started with the command before.
	patience time.Duration

	// hangups begins to catch SIGHUP, which otherwise ends a process; nil: it is not ours
	// to catch.
	hangups func() <-chan os.Signal
}

// systemEnvironment is that of the process.
func systemEnvironment(kinds []Kind) environment {
	return environment{
		kinds: kinds, patience: 2 * time.Second,
		lookup: os.LookupEnv, environ: os.Environ(),
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		isTerminal: func(stream any) bool {
			file, ok := stream.(*os.File)
			return ok && term.IsTerminal(int(file.Fd()))
		},
	}
}

// admin returns what the commands of package admin need.
func (e environment) admin() admin.Env {
	return admin.Env{
		Stdin: e.stdin, Stdout: e.stdout, Stderr: e.stderr, IDs: completeIDs(e), Labels: completeLabels(e), Keys: completeKeys(e),
		Lookup: e.lookup, Terminal: e.terminal, Ask: e.ask, NeedsCommand: needsCommand,
		RedisFlags: settings.AddRedisFlags, Keyring: e.keyring, Restore: e.restore,
		Calls: func(fn func(*cobra.Command, []string, *client.Client) error) func(*cobra.Command, []string) error {
			return withClient(e, fn)
		},
	}
}

// restore has a function fill a new ring in the Redis and the namespace that flags and
// settings name.
func (e environment) restore(cmd *cobra.Command, where admin.Restoring, use func(context.Context, *circulate.Ring) error) error {
	lookup, faults := settings.Layer(e.lookup, cmd.Flags())
	s, err := settings.ReadRedis(where.Lookup(lookup), cmd.Flags())
	if err := errors.Join(faults, err); err != nil {
		return err
	}
	if where.To != "" {
		s.URL = where.To
	}
	s.Namespace = cmp.Or(where.Namespace, s.Namespace)
	if err := circulate.ValidateNamespace(s.Namespace); err != nil {
		return fmt.Errorf("namespace %q: %w", s.Namespace, err)
	}
	there, err := service.OpenNamespace(cmd.Context(), s, s.Namespace)
	if err != nil {
		return err
	}
	err = there.Fill(cmd.Context(), where.Shards, use)
	if err == nil {
		err = there.Keep(cmd.Context(), trail.Entry{Action: "restore", Outcome: trail.Done, Subject: "namespace " + s.Namespace})
	}
	return errors.Join(err, there.Close())
}

// keyring has a function make a key in the Redis that flags and settings name, which the
// trail there tells.
func (e environment) keyring(cmd *cobra.Command, use func(context.Context, *key.Keyring) error) error {
	lookup, faults := settings.Layer(e.lookup, cmd.Flags())
	s, err := settings.ReadRedis(lookup, cmd.Flags())
	if err := errors.Join(faults, err); err != nil {
		return err
	}
	there, err := service.OpenNamespace(cmd.Context(), s, s.Namespace)
	if err != nil {
		return err
	}
	ctx, draft := trail.Begin(cmd.Context(), trail.Entry{Action: "create-key"})
	err = use(ctx, there.Keys())
	as := trail.Done
	if err != nil {
		as = trail.Failed
	}
	entry, _ := draft.Close(as, 0)
	return errors.Join(err, there.Keep(ctx, entry), there.Close())
}

// terminal reports whether a stream is a terminal.
func (e environment) terminal(stream any) bool {
	return e.isTerminal != nil && e.isTerminal(terminal.Raw(stream))
}

// ask asks the person at the terminal whether to go on with something that cannot be
// undone, and names the service that would do it. If nobody can be asked, that is a misuse,
// and its error names the flag that answers.
func (e environment) ask(calls *client.Client, question, otherwise string) (bool, error) {
	answer, err := e.answer("at "+calls.At()+": "+question+" [y/N] ", otherwise)
	switch strings.ToLower(answer) {
	case "y", "yes":
		return true, err
	}
	return false, err
}

// bare is where the program itself tells a terminal what to do. Nothing that others wrote
// goes there.
func bare(stream io.Writer) io.Writer {
	if raw, ok := terminal.Raw(stream).(io.Writer); ok {
		return raw
	}
	return stream
}

// answer asks the person at the terminal, and returns one line.
func (e environment) answer(question, otherwise string) (string, error) {
	if !e.terminal(e.stdin) || !e.terminal(e.stderr) {
		return "", misuse("it cannot be undone, and nobody can be asked: use " + otherwise)
	}
	fmt.Fprint(e.stderr, question)
	answer, err := bufio.NewReader(e.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(answer), nil
}

// addServiceFlags adds the flags of all settings to a command.
func addServiceFlags(cmd *cobra.Command) { settings.AddFlags(cmd.Flags()) }

// examination returns what rounds doctor looks at: the settings as serve reads them, with
// their faults.
func (e environment) examination(cmd *cobra.Command) doctor.Options {
	s, lookup, err := readSettings(e, new(settings.Source), cmd.Flags(), settings.InProcess)
	if lookup != nil {
		e.lookup = lookup
	}
	return doctor.Options{Settings: s, Faulty: err, Unknown: settings.UnknownVariables(e.environ), Service: serviceOptions(e)}
}
