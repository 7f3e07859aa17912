package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/checkers/connector"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// errNotConformant is what a verification ends with that found a broken rule.
var errNotConformant = errors.New("the connector breaks rules of the protocol")

// newConnectorCommand holds what helps those who write connectors.
func newConnectorCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "connector",
		Short:   "Help to write connectors, the programs behind the kind http",
		Example: `  rounds connector verify http://127.0.0.1:9000/ --secret CRM`,
	}
	needsCommand(cmd)
	cmd.AddCommand(newConnectorVerifyCommand(env))
	return cmd
}

func newConnectorVerifyCommand(env environment) *cobra.Command {
	var (
		account, secret string
		sets            []string
		jsonOutput      bool
	)
	cmd := &cobra.Command{
		Use:   "verify URL",
		Short: "Hold a connector to the rules of the protocol",
		Long: `Hold a connector to the rules of the protocol. It is asked about one account in
every way that a poller may ask, a few dozen times: with wrong and with old
signatures, for one message and for many, again under the same cursor, under a
cursor that it never gave out. A line for each rule says whether it passes, fails,
or could not be shown, and what to do.

The account should have some messages, and none should come meanwhile. --secret is
the name of what requests are signed with, found in ROUNDS_SECRETS_DIR or as
ROUNDS_SECRET_NAME. The exit code is 1 where a rule fails.`,
		Example: `  rounds connector verify https://connector.example.com/check --secret CRM
  rounds connector verify http://127.0.0.1:9000/ --secret CRM --account inbox --allow-private-addresses
  rounds connector verify https://connector.example.com/check --set 'headers.Authorization={"secret":"TOKEN"}' --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := settings.ReadPoller(env.lookup, cmd.Flags())
			if err != nil {
				return err
			}
			config, err := connectorConfig(env, args[0], secret, sets)
			if err != nil {
				return err
			}
			client := fetch.New(fetch.Options{UserAgent: fetch.UserAgent(version()), AllowPrivate: s.AllowPrivate})
			defer client.Close()
			checker := connector.New(client, secrets.Source{Dir: s.SecretsDir, Lookup: env.lookup})
			findings, err := checker.Verify(cmd.Context(), connector.Trial{Config: config, Account: account, Deadline: s.CheckTimeout})
			if err != nil {
				return err
			}
			return printFindings(env.stdout, settings.MaskURL(args[0]), findings, jsonOutput)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&account, "account", "verify", "the `id` of the account to ask about")
	flags.StringVar(&secret, "secret", "", "the `name` of the secret that requests are signed with")
	flags.StringArrayVar(&sets, "set", nil, "a field of the account's config, as `key=value`; may be repeated")
	flags.BoolVar(&jsonOutput, "json", false, "print the findings as JSON")
	settings.AddCheckerFlags(flags)
	return cmd
}

func connectorConfig(env environment, url, secret string, sets []string) (json.RawMessage, error) {
	base := map[string]any{"url": url}
	if secret != "" {
		base["signing_secret"] = map[string]string{"secret": secret}
	}
	raw, err := json.Marshal(base)
	if err != nil {
		return nil, err
	}
	return buildConfig(env, string(raw), sets)
}

func printFindings(w io.Writer, url string, findings []connector.Finding, jsonOutput bool) error {
	counts := make(map[connector.Verdict]int)
	for _, f := range findings {
		counts[f.Verdict]++
	}
	if jsonOutput {
		err := printJSON(w, map[string]any{
			"url": url, "findings": findings, "passed": counts[connector.Pass], "failed": counts[connector.Fail], "not_shown": counts[connector.NotShown],
		})
		if err != nil {
			return err
		}
	} else {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, f := range findings {
			fmt.Fprintf(table, "%s\t%s\t%s\n", strings.ToUpper(string(f.Verdict)), f.Rule, oneLine(f.Seen))
			if f.Advice != "" {
				fmt.Fprintf(table, "\t\t→ %s\n", f.Advice)
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(w, "%d passed, %d failed, %d not shown\n", counts[connector.Pass], counts[connector.Fail], counts[connector.NotShown])
	}
	if counts[connector.Fail] > 0 {
		return errNotConformant
	}
	return nil
}
