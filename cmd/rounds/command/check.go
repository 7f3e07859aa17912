package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/deployments/guide"
	"github.com/rounds-dev/rounds/poller/byhand"
	"github.com/rounds-dev/rounds/poller/checkers/connector"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// errCheckFailed is the error of a check whose failure was already printed.
var errCheckFailed = errors.New("the check failed")

// checkOptions are the flags of a check by hand.
type checkOptions struct {
	kind, config, account, cursor, hint string
	sets                                []string
	pages, limit                        int
	jsonOutput                          bool
}

func newCheckCommand(env environment) *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check --kind KIND",
		Short: "Check an account by hand, without Redis",
		Long: `Check an account by hand, without Redis and without the service. Nothing is written
anywhere. It shows the request, the messages, the next cursor, and what a poller
would do about a failure.

The config is given as with "rounds account add". A secret that it refers to as
{"secret":"NAME"} is found where a poller finds it, in ROUNDS_SECRETS_DIR or as
ROUNDS_SECRET_NAME, with its binding. Secrets that "rounds secret" stores are not found,
because they are in Redis. The exit code is 1 if the check fails.`,
		Example: `  rounds check --kind feed --set url=https://example.com/feed.xml
  rounds check --kind imap --set host=imap.example.com --set user=me --set 'password={"secret":"MAIL"}' --pages 3
  rounds check --kind http --set url=http://127.0.0.1:9000/ --cursor '"42"' --allow-private-addresses`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, lookup, err := readAs(env, cmd, settings.ReadPoller)
			if err != nil {
				return err
			}
			env := env
			env.lookup = lookup
			return checkByHand(cmd.Context(), env, s, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kind, "kind", "", "which checker checks it, such as feed or imap")
	flags.StringVar(&o.config, "config", "", "its config, as `JSON`, @FILE or @- for standard input")
	flags.StringArrayVar(&o.sets, "set", nil, "a field of its config, as `key=value`; may be repeated")
	flags.StringVar(&o.account, "account", "check", "the account's `id`")
	flags.StringVar(&o.cursor, "cursor", "", "the cursor to continue from, as the last check printed it")
	flags.StringVar(&o.hint, "hint", "", "the hint that a nudge would have, as `JSON`")
	flags.IntVar(&o.pages, "pages", 1, "the most pages to follow while there are more")
	flags.IntVar(&o.limit, "limit", 200, "messages wanted in one page")
	flags.BoolVar(&o.jsonOutput, "json", false, "print the outcome as JSON")
	settings.AddCheckerFlags(flags)
	complete(cmd, "kind", completeKinds(env))
	if err := cmd.MarkFlagRequired("kind"); err != nil {
		panic(err) // the flag is a few lines above
	}
	return cmd
}

func checkByHand(ctx context.Context, env environment, s settings.Poller, o checkOptions) error {
	if o.pages < 1 || o.limit < 1 {
		return errors.New("--pages and --limit must be at least 1")
	}
	checkers, err := service.NewCheckers(s, byHandOptions(env))
	if err != nil {
		return err
	}
	config, err := buildConfig(env, o.config, o.sets)
	if err != nil {
		return err
	}
	if config == nil {
		config = json.RawMessage("{}")
	}
	cursor, err := trial.ReadCursor(o.cursor)
	if err != nil {
		return fmt.Errorf("--cursor: %w", err)
	}
	var hint json.RawMessage
	if o.hint != "" {
		if hint, err = readJSON(env, "--hint", o.hint); err != nil {
			return err
		}
	}
	trials := byhand.New(checkers, s.CheckTimeout, 1)
	trials.Told = func(err error, stack []byte) { // the caller's own terminal, and its own process
		fmt.Fprintf(env.stderr, "the checker's error, which nothing but this command shows: %s\n%s", oneLine(err.Error()), stack)
	}
	report, err := trials.Try(ctx, trial.Request{
		Account: o.account, Kind: o.kind, Config: config, Cursor: cursor, Hint: hint, Pages: o.pages, Limit: o.limit,
	})
	if err != nil {
		return err
	}
	report.Config = masked(config)
	run := (*checkRun)(report)
	if err := run.print(env.stdout, o.jsonOutput); err != nil {
		return err
	}
	switch {
	case run.Error == nil:
		return nil
	case run.Error.Code == "secret":
		return fmt.Errorf("%w; stored secrets are in Redis and are not found here", errCheckFailed)
	}
	return errCheckFailed
}

// checkRun is a check by hand, as it is printed.
type checkRun trial.Report

func (run *checkRun) print(w io.Writer, jsonOutput bool) error {
	if jsonOutput {
		return printJSON(w, run)
	}
	fmt.Fprintf(w, "kind     %s, account %s, limit %d, timeout %s\n", run.Kind, oneLine(run.Account), run.Limit, run.Timeout)
	fmt.Fprintf(w, "config   %s\n", oneLine(string(run.Config)))
	fmt.Fprintf(w, "limits   %s\n", cmp.Or(oneLine(run.RateKey), "shared with nobody"))
	if run.Hold > 0 {
		fmt.Fprintf(w, "held     a trial does not wait; a poller's call is held for up to %v until something comes\n", time.Duration(run.Hold*float64(time.Second)))
	}
	for n, page := range run.Pages {
		fmt.Fprintf(w, "\npage %d   %s in %d ms, from %s\n", n+1, numberOf(len(page.Messages), "message"), page.Milliseconds, cmp.Or(oneLine(page.Cursor), "the beginning"))
		for _, m := range page.Messages {
			when := "-"
			if m.Time != nil {
				when = clockTime(*m.Time)
			}
			fmt.Fprintf(w, "  %s  %s  %s  %s\n", when, quoted(m.Type), quoted(m.ID), shorten(string(m.Data)))
		}
		for _, warning := range page.Warnings {
			fmt.Fprintf(w, "warning  %s\n", oneLine(warning))
		}
		if page.CursorReset {
			fmt.Fprintln(w, "reset    the third party no longer knew the cursor: messages may be missing or repeated")
		}
		if page.NextPollAfter > 0 {
			fmt.Fprintf(w, "wait     at least %v until the next check\n", time.Duration(page.NextPollAfter*float64(time.Second)))
		}
		fmt.Fprintf(w, "cursor   %s\n", cmp.Or(oneLine(page.NextCursor), "none"))
		if page.HasMore {
			fmt.Fprintln(w, "more     there is another page: use --pages, or --cursor with the cursor above")
		}
	}
	if f := run.Error; f != nil {
		fmt.Fprintf(w, "\nfailed   %s, scope %s, code %s, in %d ms\n", f.Kind, f.Scope, oneLine(f.Code), f.Milliseconds)
		fmt.Fprintf(w, "         %s\n", oneLine(f.Message))
		if f.RetryAfter > 0 {
			fmt.Fprintf(w, "wait     %v, as the third party asks\n", time.Duration(f.RetryAfter*float64(time.Second)))
		}
		fmt.Fprintf(w, "a poller %s\n", f.Pool)
	}
	return nil
}

// masked hides parts of a config that may be secret although they are plain text: the user and the
// query of a URL. References to secrets are names, and stay.
func masked(config json.RawMessage) json.RawMessage {
	var value any
	if decodeExactly(config, &value) != nil {
		return json.RawMessage("null")
	}
	text, err := encoded(maskedValue(value))
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}

func maskedValue(value any) any {
	switch v := value.(type) {
	case string:
		if strings.Contains(v, "://") {
			return settings.MaskURL(v)
		}
	case []any:
		for i := range v {
			v[i] = maskedValue(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = maskedValue(v[name])
		}
	}
	return value
}

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
		account, secret, sendTo string
		sets                    []string
		jsonOutput              bool
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

Nothing is sent, unless --send-to names somebody who may get a test message by the
config's send_url.

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
  rounds connector verify https://connector.example.com/check --set 'headers.Authorization={"secret":"TOKEN"}' --json
  rounds connector verify https://connector.example.com/check --secret CRM --set send_url=https://connector.example.com/send --send-to anna`,
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
			findings, err := checker.Verify(egress.For(cmd.Context(), &egress.Account{ID: account, Kind: checker.Kind()}), connector.Trial{Config: config, Account: account, SendTo: sendTo, Deadline: s.CheckTimeout})
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
	flags.StringVar(&sendTo, "send-to", "", "send a test message to this `peer`, by the config's send_url")
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
