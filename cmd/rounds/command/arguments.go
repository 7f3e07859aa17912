package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// exactly is cobra.ExactArgs with an error that names the argument, by the command's Use.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("%q is one argument too many: %s", args[n], usage(cmd))
		}
		return atLeast(n)(cmd, args)
	}
}

// atLeast is cobra.MinimumNArgs with an error that names the argument, by the command's Use.
func atLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		names := strings.Fields(cmd.Use)[1:]
		return fmt.Errorf("%s is missing: %s", strings.TrimRight(names[len(args)], "."), usage(cmd))
	}
}

func usage(cmd *cobra.Command) string {
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	return cmd.CommandPath() + " " + arguments
}
