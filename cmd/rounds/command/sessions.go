package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// newSessionsCommand makes the command for the people who are signed in.
func newSessionsCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "sessions",
		Short: "Show who is signed in to the dashboard, and sign somebody out",
		Example: `  rounds sessions list
  rounds sessions end 3f0c…`,
	}, newSessionsList(env), newSessionsEnd(env))
}

func newSessionsList(env environment) *cobra.Command {
	return listingCommand(env, &cobra.Command{
		Use:     "list",
		Short:   "List who is signed in, the latest first",
		Aliases: []string{"ls"},
		Example: `  rounds sessions list
  rounds sessions list --json | jq -r 'select(.name == "eve") | .id'`,
	}, list[api.SignedIn]{
		header: "SESSION\tWHO\tWITH\tSINCE\tENDS", none: "nobody is signed in",
		row: func(s api.SignedIn) string {
			return strings.Join([]string{oneLine(s.ID), oneLine(s.Name), oneLine(s.Via), clockTime(s.Since), clockTime(s.Expires)}, "\t")
		},
		page: whole((*client.Client).Sessions, func(l api.SessionList) []api.SignedIn { return l.Sessions }),
	})
}

func newSessionsEnd(env environment) *cobra.Command {
	return &cobra.Command{
		Use:   "end SESSION…",
		Short: "Sign somebody out",
		Long: `End sessions, for all processes at once. The person may sign in again: to prevent that,
revoke the key with "rounds key revoke".`,
		Example: `  rounds sessions list
  rounds sessions end 3f0c…`,
		Aliases: []string{"rm"},
		Args:    atLeast(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			for _, id := range args {
				if err := calls.EndSession(cmd.Context(), id); err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
				fmt.Fprintln(env.stdout, env.says("ended %s", oneLine(id)))
			}
			return nil
		}),
	}
}
