package command

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newSetCommand(env environment) *cobra.Command {
	var change recordChange
	var where []string
	jsonOutput, all := false, false
	cmd := &cobra.Command{
		Use:   "set [ID...]",
		Short: "Change parts of accounts' records",
		Long: `Change the parts of accounts' records that the flags name. The rest is not changed,
even if somebody else changes it at the same time. An account whose record changes
is due at once. It is checked from where its last check ended, unless its kind
changes.

--set sets one field of the config, as with "account add"; an object is merged into
the existing one. --unset and --unlabel remove. An empty --cadence or --priority,
and a --retry-budget of 0, restore the default.

--where selects accounts instead of names: kind, state, label, prefix, part, reason,
error, cause, host, except_host, secret, since or until, as the flags of "account pause" do. Of
those only cadence, priority and labels can be changed. The service does it in the background
as a job, which "rounds jobs" shows and takes back, and each account is due next in its
own slot.`,
		Example: `  rounds account set news --every 5s --label team=press
  rounds account set crm --set url=https://example.com/check --unset settings.region
  rounds account set a b c --priority low --unlabel team
  rounds account set --where kind=feed --where label=team=press --every 5m`,
		ValidArgsFunction: completeIDs(env),
		RunE: withClient(env, func(cmd *cobra.Command, ids []string, calls *client.Client) error {
			patch, err := change.patch(cmd.Flags())
			if err != nil {
				return err
			}
			switch selects := all || len(where) > 0; {
			case selects && len(ids) > 0:
				return misuse("--where and --all select accounts: they cannot be combined with names")
			case selects:
				return setSelected(cmd.Context(), env, calls, where, all, patch, jsonOutput)
			case len(ids) == 0:
				return misuse("name accounts, or select them with --where; --all means every account (see rounds account set --help)")
			}
			var failed []error
			for _, id := range ids {
				before, err := change.before(cmd.Context(), calls, id)
				var view api.Account
				if err == nil {
					view, err = calls.Patch(cmd.Context(), id, patch)
				}
				switch {
				case err != nil && client.Status(err) == 0:
					return errors.Join(append(failed, err)...) // the next call would fail too
				case err != nil:
					failed = append(failed, fmt.Errorf("%s: %w", id, err))
				case jsonOutput:
					if err := printJSON(env.stdout, view); err != nil {
						return err
					}
				default:
					fmt.Fprintln(env.stdout, env.says("%s %s", oneLine(id), change.done(&before, &view)))
				}
			}
			return errors.Join(failed...)
		}),
	}
	change.declare(cmd.Flags())
	cmd.Flags().StringArrayVar(&where, "where", nil, "accounts that this selects, `NAME=VALUE` such as kind=feed, instead of named ones; may be repeated")
	cmd.Flags().BoolVar(&all, "all", false, "all accounts")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print the accounts, or the job, as JSON, one a line")
	cmd.MarkFlagsMutuallyExclusive("every", "cadence")
	completeRecord(env, cmd)
	return cmd
}

// setSelected has a change of selected accounts done as a job.
func setSelected(ctx context.Context, env environment, calls *client.Client, where []string, all bool, patch map[string]any, jsonOutput bool) error {
	fields := make(map[string][]string)
	for _, pair := range where {
		name, value, ok := strings.Cut(pair, "=")
		if known := accounts.SelectorFields(); !ok || !slices.Contains(known, name) {
			return misuse(fmt.Sprintf("--where %q must be NAME=VALUE, with a NAME of %s", pair, strings.Join(known, ", ")))
		}
		fields[name] = append(fields[name], value)
	}
	b := accounts.Bulk{Action: accounts.SetAll, All: all}
	var err error
	if b.Selector, err = accounts.ParseSelector(fields); err != nil {
		return fmt.Errorf("--where: %w", err)
	}
	if b.Set, err = json.Marshal(patch); err != nil {
		return err
	}
	if err := b.Validate(); err != nil {
		return flagFaults(err)
	}
	started, err := calls.StartJob(ctx, b)
	if err != nil {
		return err
	}
	return printJob(env, &started, jsonOutput)
}

// recordChange is the flags that name parts of a record.
type recordChange struct {
	kind, every, cadence, priority, onUnknown string
	retryBudget                               int
	sets, unsets, labels, unlabels            []string
}

// before returns an account before the change, if the report about the change needs it.
func (c *recordChange) before(ctx context.Context, calls *client.Client, id string) (api.Account, error) {
	if len(c.unsets) == 0 {
		return api.Account{}, nil
	}
	return calls.Get(ctx, id)
}

// done says what a change has done, and which fields it could not remove because they were not
// there.
func (c *recordChange) done(before, after *api.Account) string {
	var missing []string
	for _, key := range c.unsets {
		if !hasField(before.Config, strings.Split(key, ".")) {
			missing = append(missing, oneLine(key))
		}
	}
	none := ""
	if len(missing) > 0 {
		none = ": its config has no field " + strings.Join(missing, ", ")
	}
	if none != "" && after.Revision == before.Revision {
		return "unchanged" + none
	}
	return fmt.Sprintf("saved, revision %d", after.Revision) + none
}

// hasField reports whether a config has a field at a path.
func hasField(config json.RawMessage, path []string) bool {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(config, &object) != nil {
			return false
		}
		var there bool
		if config, there = object[name]; !there {
			return false
		}
	}
	return true
}

func (c *recordChange) declare(flags *pflag.FlagSet) {
	flags.StringVar(&c.kind, "kind", "", "which checker checks it; another kind begins without a cursor")
	flags.StringArrayVar(&c.sets, "set", nil, "one field of its config, as `key=value`; may be repeated")
	flags.StringArrayVar(&c.unsets, "unset", nil, "remove the field of its config with this `key`; may be repeated")
	flags.StringVar(&c.every, "every", "", "check it every `duration`, such as 90s; 0: again at once")
	flags.StringVar(&c.cadence, "cadence", "", "when to check it, as with account add")
	flags.StringVar(&c.priority, "priority", "", "`urgent`, normal or low")
	flags.IntVar(&c.retryBudget, "retry-budget", 0, "park it after this many failures in a row; 0: 16")
	flags.StringVar(&c.onUnknown, "on-unknown", "", "what becomes of a send whose end nobody knows: `hold`, until somebody resolves it, or retry, though it may arrive twice")
	flags.StringArrayVar(&c.labels, "label", nil, "a label, as `name=value`; may be repeated")
	flags.StringArrayVar(&c.unlabels, "unlabel", nil, "remove the label with this `name`; may be repeated")
}

// patch returns the JSON merge patch of the flags that were given.
func (c *recordChange) patch(flags *pflag.FlagSet) (map[string]any, error) {
	patch := make(map[string]any)
	config := make(map[string]any)
	faults := setFields(config, c.sets)
	for _, key := range c.unsets {
		if err := setField(config, strings.Split(key, "."), nil); err != nil {
			faults = append(faults, fmt.Errorf("--unset %q: %w", key, err))
		}
	}
	set, err := buildLabels(c.labels)
	faults = append(faults, err)
	labels := make(map[string]any)
	for name, value := range set {
		labels[name] = value
	}
	for _, name := range c.unlabels {
		if _, both := set[name]; both || name == "" {
			faults = append(faults, fmt.Errorf("--unlabel %q must be a label that --label does not set", name))
		}
		labels[name] = nil
	}
	for name, object := range map[string]map[string]any{"config": config, "labels": labels} {
		if len(object) > 0 {
			patch[name] = object
		}
	}
	if flags.Changed("kind") {
		patch["kind"] = c.kind
	}
	if flags.Changed("every") {
		patch["cadence"] = "every " + c.every
	}
	if flags.Changed("cadence") {
		patch["cadence"] = valueOrNull(c.cadence)
	}
	if flags.Changed("priority") {
		patch["priority"] = valueOrNull(c.priority)
	}
	if flags.Changed("on-unknown") {
		patch["on_unknown"] = valueOrNull(c.onUnknown)
	}
	if flags.Changed("retry-budget") {
		patch["retry_budget"] = valueOrNull(c.retryBudget)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if len(patch) == 0 {
		return nil, misuse("nothing to change: name something, with flags such as --every, --label or --set")
	}
	return patch, nil
}

// valueOrNull returns null for a value that means "not set".
func valueOrNull[T comparable](value T) any {
	var none T
	if value == none {
		return nil
	}
	return value
}

func newEditCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:   "edit ID",
		Short: "Change an account's record in an editor",
		Long: `Change an account's record in an editor: the one that VISUAL names, or EDITOR, or
vi. The record is saved when the editor ends, unless nothing was changed. A record
with faults is not saved: the faults are printed, and it can be edited again. It is
not saved either if somebody else changed the account meanwhile. Unsaved text stays
in a file, whose path is printed.`,
		Example: `  rounds account edit news
  EDITOR="code --wait" rounds account edit news`,
		Args:              exactly(1),
		ValidArgsFunction: completeIDs(env),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if err := editable(env); err != nil {
				return err
			}
			account, etag, err := calls.GetTagged(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if account.Fault != "" {
				return fmt.Errorf("%s: %s; \"rounds account add --replace\" writes it anew", args[0], account.Fault)
			}
			text, err := recordText(account)
			if err != nil {
				return err
			}
			file, err := newEditFile(text)
			if err != nil {
				return err
			}
			e := edit{env: env, calls: calls, id: args[0], etag: etag, file: file, original: text}
			return e.run(cmd.Context())
		}),
	}
}

// recordText returns the record of an account as a person edits it.
func recordText(a api.Account) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(recordOf(a))
	return text.Bytes(), err
}

func newEditFile(text []byte) (string, error) {
	file, err := os.CreateTemp("", "rounds-account-*.json")
	if err != nil {
		return "", err
	}
	_, err = file.Write(text)
	return file.Name(), errors.Join(err, file.Close())
}

// edit is one record in an editor.
type edit struct {
	env      environment
	calls    *client.Client
	id, etag string
	file     string
	original []byte
}

func (e *edit) run(ctx context.Context) error {
	answers := bufio.NewReader(e.env.stdin)
	for {
		if err := e.open(); err != nil {
			return e.kept(err)
		}
		text, err := os.ReadFile(e.file)
		if err != nil {
			return err
		}
		if bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace(e.original)) {
			fmt.Fprintln(e.env.stdout, e.env.says("%s unchanged", oneLine(e.id)))
			return os.Remove(e.file)
		}
		saved, err := e.save(ctx, text)
		switch status := client.Status(err); {
		case err == nil:
			fmt.Fprintln(e.env.stdout, e.env.says("%s saved, revision %d", oneLine(e.id), saved.Revision))
			return os.Remove(e.file)
		case status == http.StatusPreconditionFailed:
			return e.kept(fmt.Errorf("%s was changed or removed by somebody else meanwhile, and was not saved; edit it again and repeat your change", e.id))
		case status != http.StatusUnprocessableEntity && status != http.StatusBadRequest && !errors.Is(err, errNotJSON):
			return e.kept(err)
		}
		if !e.again(answers, err) {
			return e.kept(fmt.Errorf("%s was not saved: %w", e.id, err))
		}
	}
}

// editor returns the command of the user's editor.
func editor(env environment) string {
	value := func(name string) string { v, _ := env.lookup(name); return strings.TrimSpace(v) }
	return cmp.Or(value("VISUAL"), value("EDITOR"), "vi")
}

// editable refuses an editor that would wait for keys when there is no terminal. Other editors,
// such as a script, need none.
func editable(env environment) error {
	name, _, _ := strings.Cut(editor(env), " ")
	if !env.terminal(env.stdin) && slices.Contains([]string{"vi", "vim", "nvim", "nano", "emacs", "pico", "ed"}, filepath.Base(name)) {
		return misuse("there is no terminal for the editor " + name + ": use rounds account set, or rounds account add --replace with --config @FILE")
	}
	return nil
}

// open has the editor edit the file, and waits until it ends.
func (e *edit) open() error {
	editor := editor(e.env)
	// The shell starts it, as git does, because an editor may come with flags and quotes.
	cmd := exec.Command("sh", "-c", editor+` "$1"`, "sh", e.file) // #nosec G204 -- it is the user's own
	cmd.Stdout, cmd.Stderr = e.env.stdout, e.env.stderr
	if terminal, ok := e.env.stdin.(*os.File); ok {
		cmd.Stdin = terminal // another stdin would be read before the answers
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the editor %q failed, and nothing was saved: %w", editor, err)
	}
	return nil
}

var errNotJSON = errors.New("not JSON")

func (e *edit) save(ctx context.Context, text []byte) (api.Account, error) {
	if err := json.Unmarshal(text, new(any)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			before := text[:min(int(syntax.Offset), len(text))]
			return api.Account{}, fmt.Errorf("line %d: %w: %w", 1+bytes.Count(before, []byte("\n")), errNotJSON, err)
		}
		return api.Account{}, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	return e.calls.PutRecord(ctx, e.id, text, e.etag)
}

// again prints what is wrong, and asks whether to go on.
func (e *edit) again(answers *bufio.Reader, fault error) bool {
	if !e.env.terminal(e.env.stdin) || !e.env.terminal(e.env.stderr) {
		return false
	}
	fmt.Fprint(e.env.stderr, e.env.spoken(fmt.Sprintf("%v\nEdit it again? [Y/n] ", fault)))
	answer, err := answers.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) || err != nil && answer == "" {
		return false
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "", "y", "yes":
		return true
	}
	return false
}

// kept returns an error that names the file with the text that was not saved.
func (e *edit) kept(err error) error {
	return fmt.Errorf("%w\nyour text is in %s", err, e.file)
}
