package main

import (
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// dataWidth is how much of a message's data a line for people shows.
const dataWidth = 200

// errEnough ends a tail that has shown what was asked for.
var errEnough = errors.New("enough")

func newMessagesCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "messages",
		Short:   "Read found messages",
		Example: `  rounds messages tail`,
	}
	needsCommand(cmd)
	cmd.AddCommand(newTailCommand(env))
	return cmd
}

func newTailCommand(env environment) *cobra.Command {
	from, limit, jsonOutput := "", 0, false
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print found messages as they come, until interrupted",
		Long: `Print found messages as they come, until interrupted. A connection that breaks is
made again, and the messages go on where they stopped.`,
		Example: `  rounds messages tail
  rounds messages tail --from start --json | jq .data
  rounds messages tail --limit 1`,
		Args: cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			if from != client.FromStart && from != client.FromNow {
				return fmt.Errorf("--from is %q: must be start or now", from)
			}
			shown := 0
			show := func(m api.Message) error {
				if err := printMessage(env.stdout, m, jsonOutput); err != nil {
					return err
				}
				if shown++; shown == limit {
					return errEnough
				}
				return nil
			}
			lost := func(err error, pause time.Duration) {
				fmt.Fprintf(env.stderr, "rounds: %v; trying again in %v\n", err, pause.Round(100*time.Millisecond))
			}
			err := calls.Tail(cmd.Context(), from, show, lost)
			if errors.Is(err, errEnough) {
				return nil
			}
			return ended(cmd.Context(), err)
		}),
	}
	cmd.Flags().StringVar(&from, "from", client.FromNow, "where to begin: `start` or now")
	cmd.Flags().IntVar(&limit, "limit", 0, "end after this many; 0: never")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	return cmd
}

func printMessage(w io.Writer, m api.Message, jsonOutput bool) error {
	if jsonOutput {
		return printJSON(w, m)
	}
	when := "-"
	if !m.Time.IsZero() {
		when = clockTime(m.Time)
	}
	_, err := fmt.Fprintf(w, "%s  %s  %s  %s  %s\n", when, m.Account, quoted(m.Type), quoted(m.ID), shorten(string(m.Data)))
	return err
}

// shorten cuts a text that is too long for a line.
func shorten(text string) string {
	text = oneLine(text)
	if utf8.RuneCountInString(text) <= dataWidth {
		return text
	}
	return string([]rune(text)[:dataWidth]) + "…"
}
