package command

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

func newNamespaceCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "namespace",
		Short: "Remove everything that a service has in Redis",
		Example: `  ROUNDS_REDIS_URL=redis://127.0.0.1:6379 rounds namespace rm rounds-test --dry-run
  ROUNDS_REDIS_URL=redis://127.0.0.1:6379 rounds namespace rm rounds-test`,
	}, newNamespaceRemoveCommand(env))
}

func newNamespaceRemoveCommand(env environment) *cobra.Command {
	removal := namespaceRemoval{env: env}
	cmd := &cobra.Command{
		Use:   "rm NAMESPACE",
		Short: "Remove a namespace from Redis, with every account and message in it",
		Long: `Remove a namespace from Redis, with every account and message in it: each key whose name
begins with "NAMESPACE:" or "{NAMESPACE:". It uses the Redis of ROUNDS_REDIS_URL
directly and no API, because the service must have ended. A namespace whose
processes reported within the last minute is refused, unless --force is given. A
process that still runs creates its keys again.

The command asks for the namespace's name first, unless --yes is given. If nobody
can be asked, it ends with exit code 2 and changes nothing. Keys are removed a few
hundred at a time, on each node of a cluster. It can be interrupted and run again.
The trail of who changed what is removed too: a line on standard error says who did
this.`,
		Example: `  rounds namespace rm rounds-test --redis-url redis://127.0.0.1:6379 --dry-run
  rounds namespace rm rounds-test --redis-url redis://127.0.0.1:6379`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := readAs(env, cmd, settings.ReadRedis)
			if err != nil {
				return err
			}
			if err := circulate.ValidateNamespace(args[0]); err != nil {
				return fmt.Errorf("namespace %q: %w", args[0], err)
			}
			removal.there, err = service.OpenNamespace(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			return errors.Join(removal.run(cmd, args[0]), removal.there.Close())
		},
	}
	flags := cmd.Flags()
	settings.AddRedisFlags(flags)
	flags.BoolVar(&removal.dryRun, "dry-run", false, "only show what would be removed")
	flags.BoolVar(&removal.force, "force", false, "remove it although processes use it")
	flags.BoolVarP(&removal.yes, "yes", "y", false, "do not ask")
	return cmd
}

type namespaceRemoval struct {
	env                environment
	there              *service.Namespace
	dryRun, force, yes bool
}

func (r *namespaceRemoval) run(cmd *cobra.Command, name string) error {
	found, err := r.there.Look(cmd.Context())
	if err != nil {
		return err
	}
	what := fmt.Sprintf("namespace %s in Redis at %s: %d keys, with %d accounts and %d messages", name, r.there.Redis(), found.Keys, found.Accounts, found.Messages)
	if found.Keys == 0 {
		return fmt.Errorf("there is no namespace %s in Redis at %s", name, r.there.Redis())
	}
	if r.dryRun {
		fmt.Fprintln(r.env.stdout, r.env.spoken(what))
		for _, p := range found.Alive {
			fmt.Fprintln(r.env.stdout, r.env.says("in use by %s, heard of %s ago", userOf(p), seconds(p.Silent.Seconds())))
		}
		return nil
	}
	if len(found.Alive) > 0 && !r.force {
		names, more := aliveIn(found.Alive)
		if more > 0 {
			return fmt.Errorf("namespace %s is in use by %s and %d more; end them first, or use --force", name, names, more)
		}
		return fmt.Errorf("namespace %s is in use by %s; end them first, or use --force", name, names)
	}
	if !r.yes {
		typed, err := r.env.answer(what+".\nAll of it will be removed for good. Type the namespace's name to go on: ", "--yes, or --dry-run to see what there is")
		switch {
		case err != nil:
			return err
		case typed != name:
			return errors.New("that is not its name: nothing was removed")
		}
	}
	bar := newProgress(r.env, "")
	removed, err := r.there.Remove(cmd.Context(), func(removed int) { bar.show(fmt.Sprintf("%d keys removed", removed)) })
	bar.done()
	if err != nil {
		return fmt.Errorf("%d keys of namespace %s were removed, but not all: run it again: %w", removed, name, err)
	}
	// The trail is removed with the rest, so this line is the record for everybody who
	// saves the output.
	fmt.Fprintf(r.env.stderr, "%s ordered remove-namespace done by=%s via=system namespace=%s keys=%d\n",
		time.Now().UTC().Format(time.RFC3339), oneLine(service.SystemUser()), name, removed)
	fmt.Fprintln(r.env.stdout, r.env.says("removed namespace %s from Redis at %s: %d keys, with %d accounts and %d messages",
		name, r.there.Redis(), removed, found.Accounts, found.Messages))
	return nil
}

// userOf names a process, with its roles if they are known.
func userOf(p service.NamespaceUser) string {
	if p.Roles == "" {
		return "replica " + oneLine(p.Name)
	}
	return fmt.Sprintf("process %s (%s)", oneLine(p.Name), oneLine(p.Roles))
}

// aliveIn names the first processes that use a namespace, and counts the others.
func aliveIn(alive []service.NamespaceUser) (text string, more int) {
	named := min(3, len(alive))
	var names []string
	for _, p := range alive[:named] {
		names = append(names, fmt.Sprintf("%s (heard of %s ago)", userOf(p), seconds(p.Silent.Seconds())))
	}
	return strings.Join(names, ", "), len(alive) - named
}
