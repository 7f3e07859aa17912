package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/deployments/guide"
	"github.com/rounds-dev/rounds/poller/checkers/connector"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// newConnectorCommand makes the commands that help authors of connectors.
func newConnectorCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "connector",
		Short: "Help to write connectors, the programs behind the kind http",
		Example: `  rounds connector verify http://127.0.0.1:9000/ --secret CRM
  rounds connector schema`,
	}, newConnectorVerifyCommand(env), newConnectorSchemaCommand(env))
}

func newConnectorSchemaCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a connector's requests and answers",
		Long: `Print the JSON Schema of a connector's requests and answers: #/$defs/request is the
body of a request, #/$defs/page and #/$defs/failure are the bodies of a 200.
The running service shows the same at /docs/guide/connector.schema.json.`,
		Example: `  rounds connector schema > connector.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := env.stdout.Write(guide.ConnectorSchema())
			return err
		},
	}
}

// These errors report failed verifications. The command line has no fault.
var (
	errNotConformant = errors.New("the connector breaks rules of the protocol")
	errUnreached     = errors.New("the connector could not be reached: nothing was judged")
)

// codeNotJudged is the exit code if no rule was judged, whatever the reason.
const codeNotJudged = 2

func newConnectorVerifyCommand(env environment) *cobra.Command {
	var (
		account, secret string
		sets            []string
		jsonOutput      bool
	)
	cmd := &cobra.Command{
		Use:   "verify URL",
		Short: "Check that a connector obeys the rules of the protocol",
		Long: `Check that a connector obeys the rules of the protocol. It is asked about one
account in every way that a poller may ask, a few dozen times: with wrong, old and
several signatures, for one message and for many, again under the same cursor, under
a cursor that it never returned, and about an account that does not exist. A line for each
rule says whether it passes, fails or was not judged. If it fails, the line says why
the rule exists and what to do.

The account should have some messages, and get no new ones meanwhile. --secret names
the secret that signs requests, in ROUNDS_SECRETS_DIR or as
ROUNDS_SECRET_NAME.

Exit codes:
  0  no rule fails
  1  a rule fails
  2  nothing was judged: the connector could not be reached, or the command line,
     a setting or a secret cannot be used`,
		Example: `  rounds connector verify https://connector.example.com/check --secret CRM
  rounds connector verify http://127.0.0.1:9000/ --secret CRM --account inbox --allow-private-addresses
  rounds connector verify https://connector.example.com/check --set 'headers.Authorization={"secret":"TOKEN"}' --json`,
		Args: func(cmd *cobra.Command, args []string) error { return notJudged(exactly(1)(cmd, args)) },
		RunE: func(cmd *cobra.Command, args []string) error {
			s, lookup, err := readAs(env, cmd, settings.ReadPoller)
			if err != nil {
				return notJudged(err)
			}
			config, err := connectorConfig(env, args[0], secret, sets)
			if err != nil {
				return notJudged(err)
			}
			client, err := service.NewClient(s, byHandOptions(env))
			if err != nil {
				return notJudged(err)
			}
			defer client.Close()
			checker := connector.New(client, secrets.Source{Dir: s.SecretsDir, Lookup: lookup})
			findings, err := checker.Verify(cmd.Context(), connector.Trial{Config: config, Account: account, Deadline: s.CheckTimeout})
			if errors.Is(err, secrets.ErrNotFound) {
				err = fmt.Errorf("%w, and stored secrets are in Redis and are not found here: put it into one of the two for this command", err)
			}
			if err != nil {
				return notJudged(err)
			}
			return newVerifyReport(settings.MaskURL(args[0]), findings).print(env.stdout, jsonOutput)
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return notJudged(nearFlags(cmd, err)) })
	flags := cmd.Flags()
	flags.StringVar(&account, "account", "verify", "the `id` of the account to ask about")
	flags.StringVar(&secret, "secret", "", "the `name` of the secret that signs requests")
	flags.StringArrayVar(&sets, "set", nil, "a field of the account's config, as `key=value`; may be repeated")
	flags.BoolVar(&jsonOutput, "json", false, "print the findings as JSON")
	settings.AddCheckerFlags(flags)
	return cmd
}

// notJudged makes the program end with the code of a verification that did not happen.
func notJudged(err error) error {
	if err == nil {
		return nil
	}
	return codeError{err, codeNotJudged}
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

// verifyReport is a verification, as it is printed.
type verifyReport struct {
	URL       string              `json:"url"`     // masked
	Verdict   connector.Verdict   `json:"verdict"` // of all rules together
	Passed    int                 `json:"passed"`
	Failed    int                 `json:"failed"`
	NotJudged int                 `json:"not_judged"`
	Findings  []connector.Finding `json:"findings"` // in the order of the rules, "reachable" first
}

// newVerifyReport counts the findings. A connector that cannot be reached is not judged, although
// that is a finding which fails.
func newVerifyReport(url string, findings []connector.Finding) verifyReport {
	r := verifyReport{URL: url, Findings: findings, Verdict: connector.Pass}
	for _, f := range findings {
		switch f.Verdict {
		case connector.Pass:
			r.Passed++
		case connector.Fail:
			r.Failed++
			r.Verdict = connector.Fail
		case connector.NotJudged:
			r.NotJudged++
		}
	}
	if r.Passed == 0 && r.NotJudged == len(findings)-1 {
		r.Verdict = connector.NotJudged // the only failure: it cannot be reached
	}
	return r
}

// print prints the report, and returns the error that the program ends with.
func (r verifyReport) print(w io.Writer, jsonOutput bool) error {
	write := r.write
	if jsonOutput {
		write = func(w io.Writer) error { return printJSON(w, r) }
	}
	if err := write(w); err != nil {
		return err
	}
	switch r.Verdict {
	case connector.NotJudged:
		return notJudged(errUnreached)
	case connector.Fail:
		return errNotConformant
	}
	return nil
}

// write writes the report for people. If the connector could not be reached, it says only
// that.
func (r verifyReport) write(w io.Writer) error {
	if r.Verdict == connector.NotJudged {
		_, err := fmt.Fprintf(w, "%s\n→ %s\n", oneLine(r.Findings[0].Seen), r.Findings[0].Advice)
		return err
	}
	table := newTable(w)
	for _, f := range r.Findings {
		fmt.Fprintf(table, "%s\t%s\t%s\n", strings.ToUpper(string(f.Verdict)), f.Name, oneLine(f.Seen))
		if f.Verdict == connector.Fail {
			fmt.Fprintf(table, "\t\t%s\n", f.Why)
		}
		if f.Advice != "" {
			fmt.Fprintf(table, "\t\t→ %s\n", f.Advice)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d passed, %d failed, %d not judged\n", r.Passed, r.Failed, r.NotJudged)
	return err
}
