package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newSetCommand(env environment) *cobra.Command {
	var change recordChange
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "set ID...",
		Short: "Change parts of accounts' records",
		Long: `Change the parts of accounts' records that the flags name. The rest is not changed,
even if somebody else changes it at the same time. An account whose record changes
is due at once. It is checked from where its last check ended, unless its kind
changes.

--set sets one field of the config, as with "account add"; an object is merged into
the existing one. --unset and --unlabel remove. An empty --cadence or --priority,
and a --retry-budget of 0, restore the default.`,
		Example: `  rounds account set news --every 5s --label team=press
  rounds account set crm --set url=https://example.com/check --unset settings.region
  rounds account set a b c --priority low --unlabel team`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeIDs(env),
		RunE: withClient(env, func(cmd *cobra.Command, ids []string, calls *client.Client) error {
			patch, err := change.patch(cmd.Flags())
			if err != nil {
				return err
			}
			var failed []error
			for _, id := range ids {
				view, err := calls.Patch(cmd.Context(), id, patch)
				switch {
				case err != nil && client.Status(err) == 0:
					return errors.Join(append(failed, err)...) // the next would fail too
				case err != nil:
					failed = append(failed, fmt.Errorf("%s: %w", id, err))
				case jsonOutput:
					if err := printJSON(env.stdout, view); err != nil {
						return err
					}
				default:
					fmt.Fprintf(env.stdout, "%s saved, revision %d\n", oneLine(id), view.Revision)
				}
			}
			return errors.Join(failed...)
		}),
	}
	change.declare(cmd.Flags())
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print the accounts as JSON, one a line")
	cmd.MarkFlagsMutuallyExclusive("every", "cadence")
	completeRecord(env, cmd)
	return cmd
}

// recordChange is the flags that name parts of a record.
type recordChange struct {
	kind, every, cadence, priority string
	retryBudget                    int
	sets, unsets, labels, unlabels []string
}

func (c *recordChange) declare(flags *pflag.FlagSet) {
	flags.StringVar(&c.kind, "kind", "", "which checker checks it; another kind begins without a cursor")
	flags.StringArrayVar(&c.sets, "set", nil, "one field of its config, as `key=value`; may be repeated")
	flags.StringArrayVar(&c.unsets, "unset", nil, "remove the field of its config with this `key`; may be repeated")
	flags.StringVar(&c.every, "every", "", "check it every `duration`, such as 90s; 0: again at once")
	flags.StringVar(&c.cadence, "cadence", "", "when to check it, as with account add")
	flags.StringVar(&c.priority, "priority", "", "`urgent`, normal or low")
	flags.IntVar(&c.retryBudget, "retry-budget", 0, "after how many failures in a row it is parked; 0: 16")
	flags.StringArrayVar(&c.labels, "label", nil, "a label, as `name=value`; may be repeated")
	flags.StringArrayVar(&c.unlabels, "unlabel", nil, "remove the label with this `name`; may be repeated")
}

// patch returns the JSON merge patch of the flags that were given.
func (c *recordChange) patch(flags *pflag.FlagSet) (map[string]any, error) {
	patch := make(map[string]any)
	var faults []error
	config := make(map[string]any)
	for _, assignment := range c.sets {
		key, value, ok := strings.Cut(assignment, "=")
		if !ok || key == "" {
			faults = append(faults, fmt.Errorf("--set %q must be key=value", assignment))
		} else if err := setField(config, strings.Split(key, "."), valueOf(value)); err != nil {
			faults = append(faults, fmt.Errorf("--set %s: %w", key, err))
		}
	}
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
