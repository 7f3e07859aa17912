package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

// run is the program. It returns what went wrong. A command that the user ended is no
// error.
func run(ctx context.Context, args []string, env environment) error {
	// What others wrote is shown, and the terminal obeys none of it, whichever command prints.
	if env.stdout != nil {
		env.stdout = terminal.NewWriter(env.stdout)
	}
	if env.stderr != nil {
		env.stderr = terminal.NewWriter(env.stderr)
	}
	root := newRoot(env)
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// codeMisuse is the exit code of a command that was used in a way that cannot work.
const codeMisuse = 2

func misuse(text string) error { return codeError{errors.New(text), codeMisuse} }

// withClient makes a command's function from one that calls the API.
func withClient(env environment, fn func(cmd *cobra.Command, args []string, calls *client.Client) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		lookup, faults := settings.Layer(env.lookup, cmd.Flags())
		access, err := settings.ReadAccess(lookup, cmd.Flags())
		if err := errors.Join(faults, err); err != nil {
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
