package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// newAccountCommand makes the commands about accounts.
func newAccountCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "account",
		Short: "Register, look at, change and remove accounts",
		Example: `  rounds account add news --kind feed --set url=https://example.com/feed.xml --every 1m
  rounds account set news --every 5m --label team=press
  rounds account list`,
	}, newAddCommand(env),
		newSetCommand(env),
		newEditCommand(env),
		newGetCommand(env),
		newListCommand(env),
		newWhyCommand(env),
		newChecksCommand(env),
		newVersionsCommand(env),
		newRestoreVersionCommand(env),
		newNudgeCommand(env),
		newRetryCommand(env),
		newImportCommand(env),
		newExportCommand(env),
		newRemoveCommand(env),
		newPauseCommand(env),
		newResumeCommand(env))
}

func newNudgeCommand(env environment) *cobra.Command {
	var nudge api.NudgeRequest
	hint := ""
	cmd := &cobra.Command{
		Use:   "nudge ID",
		Short: "Ask for a check of an account soon",
		Long: `Ask for a check of an account soon. A nudge moves its next check earlier, never
later; an account that is being checked is checked once more.`,
		Example: `  rounds account nudge news
  rounds account nudge support --within 5s --hint '{"token":"abc"}' --hint-lives 10m`,
		Args:              exactly(1),
		ValidArgsFunction: completeIDs(env),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if hint != "" {
				text, err := readJSON(env, "--hint", hint)
				if err != nil {
					return err
				}
				nudge.Hint = text
			}
			if err := calls.Nudge(cmd.Context(), args[0], nudge); err != nil {
				return ofAccount(args[0], err)
			}
			return env.tell("%s nudged", oneLine(args[0]))
		}),
	}
	cmd.Flags().StringVar(&nudge.Within, "within", "", "check it within this `duration`; default: at once")
	cmd.Flags().StringVar(&hint, "hint", "", "one-time data for the check, as `JSON`, @FILE or @- for standard input")
	cmd.Flags().StringVar(&nudge.Lives, "hint-lives", "", "the `duration` after which the hint is void")
	return cmd
}

func newAddCommand(env environment) *cobra.Command {
	var (
		account             accounts.Account
		config, every       string
		sets, labels        []string
		from                string
		replace, jsonOutput bool
	)
	cmd := &cobra.Command{
		Use:   "add ID --kind KIND",
		Short: "Register an account",
		Long: `Register an account.

--set sets one field of its config. A value that is true, false, a number, an
object, an array or a quoted string in JSON is read as JSON, any other as a string.
Dots in the key nest; "rounds kinds KIND" lists the fields. Refer to a secret by its name, and the poller looks it up:
--set 'password={"secret":"NAME"}'.

A new account begins with everything that its third party still has. With --from now
it skips everything from before its registration: its first check only finds the
current position.

Without --every or --cadence it is checked every minute, or again at once if its third
party holds calls. An account that is registered with the same record stays as it is.

--replace replaces the record: everything that is not given, such as a label, the
cadence or a field of the config, gets its default. "account set" changes only what it names.`,
		Example: `  rounds account add news --kind feed --set url=https://example.com/feed.xml --every 1m
  rounds account add crm --kind http --set url=https://example.com/check --set 'signing_secret={"secret":"CRM"}'
  rounds account add crm --kind http --config @crm.json --label team=sales --priority urgent --replace
  rounds account add mail --kind imap --set host=imap.example.com --set user=me --set 'password={"secret":"MAIL"}' --from now
  rounds account add daily --kind feed --set url=https://example.com/daily.xml --cadence "cron 0 9 * * MON-FRI Asia/Shanghai"`,
		Args: exactly(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			account.ID = args[0]
			if cmd.Flags().Changed("every") {
				account.Cadence = "every " + every
			}
			var configErr, labelErr error
			account.Config, configErr = buildConfig(env, config, sets)
			account.Labels, labelErr = buildLabels(labels)
			if err := errors.Join(configErr, labelErr); err != nil {
				return err
			}
			if accounts.BeginFrom(from).Validate() != nil {
				return errors.New("--from must be backfill or now")
			}
			register, done := calls.Add, "added"
			if replace {
				register, done = calls.Put, "saved"
			}
			view, err := register(cmd.Context(), account, accounts.BeginFrom(from))
			if client.Status(err) == http.StatusConflict && !replace {
				if registered, got := calls.Get(cmd.Context(), account.ID); got == nil && sameRecord(account, registered) {
					view, done, err = registered, "is already registered with this record", nil
				}
			}
			if client.Status(err) == http.StatusConflict && !replace {
				return fmt.Errorf("%w: --replace replaces its record, and rounds account set changes fields of it", err)
			}
			if err != nil {
				return err
			}
			if jsonOutput {
				return printJSON(env.stdout, view)
			}
			return env.tell("%s %s", oneLine(account.ID), done)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&account.Kind, "kind", "", "which checker checks it, such as feed or http")
	flags.StringVar(&config, "config", "", "its config, as `JSON`, @FILE or @- for standard input")
	flags.StringArrayVar(&sets, "set", nil, "one field of its config, as `key=value`; may be repeated")
	flags.StringVar(&every, "every", "", "check it every `duration`, such as 90s; 0: again at once; default: 1m, or 0 if the third party holds calls")
	flags.StringVar(&account.Cadence, "cadence", "", `when to check it: "every 1m", "cron 0 9 * * MON-FRI Asia/Shanghai", "at 2030-12-01T09:00:00+08:00", "adaptive 10s..15m"`)
	flags.StringVar(&account.Priority, "priority", "", "its priority among due accounts: `urgent`, normal or low; default: normal")
	flags.IntVar(&account.RetryBudget, "retry-budget", 0, "park it after this many failures in a row; 0: 16")
	flags.StringVar(&account.OnUnknown, "on-unknown", "", "what becomes of a send whose end nobody knows: `hold`, until somebody resolves it, or retry, though it may arrive twice; default: hold")
	flags.StringArrayVar(&labels, "label", nil, "a label, as `name=value`; may be repeated")
	flags.StringVar(&from, "from", "", "where a new account begins: `backfill`, with everything that there is, or now; default: backfill")
	flags.BoolVar(&replace, "replace", false, "if it is already registered, replace its record; fields that are not given are reset")
	flags.BoolVar(&jsonOutput, "json", false, "print the account as JSON")
	cmd.MarkFlagsMutuallyExclusive("every", "cadence")
	completeRecord(env, cmd)
	offer(cmd, "from", string(accounts.BeginBackfill), string(accounts.BeginNow))
	if err := cmd.MarkFlagRequired("kind"); err != nil {
		panic(err) // the flag is three lines above
	}
	return cmd
}

// recordOf returns the record of an account.
func recordOf(v api.Account) accounts.Account {
	return accounts.Account{
		ID: v.ID, Kind: v.Kind, Config: v.Config, Cadence: v.Cadence, Labels: v.Labels, Priority: v.Priority, RetryBudget: v.Budget, OnUnknown: v.Unknown,
	}
}

// sameRecord reports whether an account is registered with just this record.
func sameRecord(a accounts.Account, v api.Account) bool {
	asked, bad := a.Encode()
	is, unreadable := recordOf(v).Encode()
	var one, other any
	return bad == nil && unreadable == nil && decodeExactly(asked, &one) == nil && decodeExactly(is, &other) == nil && reflect.DeepEqual(one, other)
}

// readJSON reads a flag's value: JSON, or @ and the name of a file.
func readJSON(env environment, flag, value string) (json.RawMessage, error) {
	text := []byte(value)
	if path, ok := strings.CutPrefix(value, "@"); ok {
		var err error
		if path == "-" {
			text, err = io.ReadAll(env.stdin)
		} else {
			text, err = os.ReadFile(path)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
	}
	if err := json.Unmarshal(text, new(any)); err != nil {
		return nil, fmt.Errorf("%s is not JSON: %w", flag, err)
	}
	return text, nil
}

// buildConfig puts the fields of --set into the object of --config.
func buildConfig(env environment, config string, sets []string) (json.RawMessage, error) {
	var base json.RawMessage
	if config != "" {
		var err error
		if base, err = readJSON(env, "--config", config); err != nil {
			return nil, err
		}
	}
	if len(sets) == 0 {
		return base, nil
	}
	object := make(map[string]any)
	if base != nil {
		if err := decodeExactly(base, &object); err != nil || object == nil {
			return nil, errors.New("--config must be an object if --set adds to it")
		}
	}
	if err := errors.Join(setFields(object, sets)...); err != nil {
		return nil, err
	}
	return encoded(object)
}

// encoded returns JSON without the escapes that only HTML needs.
func encoded(value any) (json.RawMessage, error) {
	var text bytes.Buffer
	err := printJSON(&text, value)
	return bytes.TrimSpace(text.Bytes()), err
}

// setFields sets the fields of --set. It returns a fault for each that cannot be set.
func setFields(object map[string]any, sets []string) (faults []error) {
	for _, assignment := range sets {
		key, value, ok := strings.Cut(assignment, "=")
		if !ok || key == "" {
			faults = append(faults, fmt.Errorf("--set %q must be key=value", assignment))
		} else if err := setField(object, strings.Split(key, "."), valueOf(value)); err != nil {
			faults = append(faults, fmt.Errorf("--set %s: %w", key, err))
		}
	}
	return faults
}

// setField sets a field, and creates the objects around it.
func setField(object map[string]any, path []string, value any) error {
	for _, name := range path {
		if name == "" {
			return errors.New("has an empty part between its dots")
		}
	}
	for _, name := range path[:len(path)-1] {
		if _, ok := object[name]; !ok {
			object[name] = make(map[string]any)
		}
		inner, ok := object[name].(map[string]any)
		if !ok {
			return fmt.Errorf("%s is already set and is not an object", name)
		}
		object = inner
	}
	object[path[len(path)-1]] = value
	return nil
}

// valueOf reads the value of --set. The word null is a string: leave a field out instead
// of setting it to null.
func valueOf(text string) any {
	var value any
	if decodeExactly([]byte(text), &value) == nil && value != nil {
		return value
	}
	return text
}

// decodeExactly decodes one JSON value and keeps numbers as they are written.
func decodeExactly(text []byte, into any) error {
	if !json.Valid(text) {
		return errors.New("not JSON")
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	return d.Decode(into)
}

func buildLabels(labels []string) (map[string]string, error) {
	var built map[string]string
	var faults []error
	for _, label := range labels {
		name, value, ok := strings.Cut(label, "=")
		if !ok || name == "" {
			faults = append(faults, fmt.Errorf("--label %q must be name=value", label))
			continue
		}
		if built == nil {
			built = make(map[string]string)
		}
		built[name] = value
	}
	return built, errors.Join(faults...)
}
