package command

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// newConcernsCommand makes the command for what is wrong now, and what people say about it.
func newConcernsCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "concerns",
		Short: "List what is wrong now, acknowledge it, or silence it for a while",
		Example: `  rounds concerns list
  rounds concerns acknowledge webhook_disabled --subject crm --note "asked the vendor"
  rounds concerns silence redis_appendonly --lasts 7d --reason "a test service"`,
	}, newConcernsList(env), newConcernsAcknowledge(env), newConcernsSilence(env), newConcernsUnsilence(env))
}

func newConcernsList(env environment) *cobra.Command {
	return listingCommand(env, &cobra.Command{
		Use:     "list",
		Short:   "List what is wrong now",
		Aliases: []string{"ls"},
		Example: `  rounds concerns list
  rounds concerns list --json | jq 'select(.silenced == null)'`,
	}, list[api.Concern]{
		header: "LEVEL\tCODE\tSUBJECT\tSINCE\tSAID\tWRONG NOW", none: "nothing is wrong now",
		row: func(c api.Concern) string {
			since := "-"
			if !c.Since.IsZero() {
				since = clockTime(c.Since)
			}
			return strings.Join([]string{string(c.Level), string(c.Code), oneLine(cmp.Or(c.Subject, "-")), since, cmp.Or(saidOf(&c), "-"), oneLine(c.Text)}, "\t")
		},
		page: whole((*client.Client).Concerns, func(l concern.Concerns) []api.Concern { return l.Concerns }),
	})
}

// saidOf returns what people have said about a concern.
func saidOf(c *api.Concern) string {
	switch {
	case c.Silenced != nil:
		return fmt.Sprintf("silenced until %s by %s: %s", clockTime(c.Silenced.Until), oneLine(c.Silenced.By), oneLine(c.Silenced.Reason))
	case c.Seen != nil && c.Seen.Note != "":
		return fmt.Sprintf("seen by %s: %s", oneLine(c.Seen.By), oneLine(c.Seen.Note))
	case c.Seen != nil:
		return "seen by " + oneLine(c.Seen.By)
	}
	return ""
}

func newConcernsAcknowledge(env environment) *cobra.Command {
	var asked api.AcknowledgeRequest
	cmd := &cobra.Command{
		Use:     "acknowledge CODE",
		Short:   "Say that you have seen a concern",
		Long:    `Say that you have seen a concern. That holds until it begins anew, and 30 days at most.`,
		Example: `  rounds concerns acknowledge webhook_disabled --subject crm --note "asked the vendor"`,
		Aliases: []string{"ack"},
		Args:    exactly(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if err := calls.AcknowledgeConcern(cmd.Context(), args[0], asked); err != nil {
				return err
			}
			return env.tell("acknowledged %s", oneLine(args[0]))
		}),
	}
	cmd.Flags().StringVar(&asked.Subject, "subject", "", "only about this `SUBJECT`, such as an endpoint")
	cmd.Flags().StringVar(&asked.Note, "note", "", "what others should know")
	return cmd
}

func newConcernsSilence(env environment) *cobra.Command {
	var asked api.SilenceRequest
	until := ""
	cmd := &cobra.Command{
		Use:   "silence CODE --reason REASON",
		Short: "Have a concern trouble nobody for a while",
		Long: `Have a concern trouble nobody for a while, 30 days at most. It is still shown, after the others,
and its metric is what it was. Without --subject the alerts that come with Rounds for the
same reason do not fire either. That ends by itself, or with unsilence.`,
		Example: `  rounds concerns silence redis_appendonly --lasts 7d --reason "a test service"`,
		Args:    exactly(1),
	}
	cmd.RunE = withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) (err error) {
		if asked.Until, err = timeOf("until", until); err != nil {
			return err
		}
		if err := calls.SilenceConcern(cmd.Context(), args[0], asked); err != nil {
			return err
		}
		return env.tell("silenced %s", oneLine(args[0]))
	})
	flags := cmd.Flags()
	flags.StringVar(&asked.Subject, "subject", "", "only about this `SUBJECT`, such as an endpoint")
	flags.StringVar(&until, "until", "", "when it ends, as `TIME` in RFC 3339")
	flags.StringVar(&asked.Lasts, "lasts", "", "for how `LONG`, such as 4h or 2d, in place of --until")
	flags.StringVar(&asked.Reason, "reason", "", "why, for those who see it")
	cmd.MarkFlagsOneRequired("until", "lasts")
	cmd.MarkFlagsMutuallyExclusive("until", "lasts")
	if err := cmd.MarkFlagRequired("reason"); err != nil {
		panic(err) // the command has no such flag
	}
	return cmd
}

func newConcernsUnsilence(env environment) *cobra.Command {
	var asked api.UnsilenceRequest
	cmd := &cobra.Command{
		Use:     "unsilence CODE",
		Short:   "Have a concern count again, and forget who has seen it",
		Example: `  rounds concerns unsilence redis_appendonly`,
		Args:    exactly(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if err := calls.UnsilenceConcern(cmd.Context(), args[0], asked); err != nil {
				return err
			}
			return env.tell("%s counts again", oneLine(args[0]))
		}),
	}
	cmd.Flags().StringVar(&asked.Subject, "subject", "", "the `SUBJECT` that was given before")
	return cmd
}
