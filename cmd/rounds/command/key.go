package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// byRedis is the author's name of keys that were created directly in Redis.
const byRedis = "redis"

// newKeyCommand makes the command that creates, lists and revokes keys.
func newKeyCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "key",
		Short: "Make, list and revoke keys of the API",
		Example: `  rounds key create ci --role editor --label team=press --expires 90d
  rounds key list
  rounds key revoke ci`,
	}, newKeyCreate(env), newKeyList(env), newKeyRevoke(env))
}

func newKeyCreate(env environment) *cobra.Command {
	var role, expires string
	var labels []string
	inRedis, jsonOutput := false, false
	cmd := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Make a key, and print it once",
		Long: `Make a key of the API and print it. The key is stored nowhere, and cannot be shown again.
Each role may also do everything that the roles before it may:

  viewer    reads
  operator  nudges, pauses, resumes, revives, replays
  editor    registers, changes, deletes, imports
  admin     does all the rest: keys, secrets, resharding, repairs

A key with labels sees, counts and changes only accounts that have all of them, and
cannot register accounts without them. It gets nothing about the service as a whole.

Use the key in place of the token, in ROUNDS_API_TOKEN or in the header
Authorization: Bearer KEY.

Make the first key of a service without a token with --in-redis: the command writes it
to the Redis of ROUNDS_REDIS_URL itself, and asks no API.`,
		Example: `  rounds key create grafana --role viewer
  rounds key create ci --role editor --label team=press --expires 90d
  ROUNDS_REDIS_URL=redis://127.0.0.1:6379 rounds key create me --role admin --in-redis`,
		Args: exactly(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		wanted, err := labelsOf(labels)
		if err != nil {
			return err
		}
		var made api.NewKey
		if inRedis {
			made, err = createInRedis(cmd, env, key.New{Name: args[0], Labels: wanted, By: byRedis}, role, expires)
		} else {
			err = withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) (err error) {
				made, err = calls.CreateKey(cmd.Context(), api.KeyRequest{Name: args[0], Role: role, Labels: wanted, ExpiresIn: expires})
				return err
			})(cmd, nil)
		}
		if err != nil {
			return err
		}
		return printKey(env, &made, jsonOutput)
	}
	flags := cmd.Flags()
	flags.StringVar(&role, "role", "", "what the key may do: viewer, sender, operator, editor or admin")
	flags.StringArrayVar(&labels, "label", nil, "only accounts with this label, as `NAME=VALUE`; several must all match")
	flags.StringVar(&expires, "expires", "", "how `LONG` the key is valid, such as 90d or 12h; default: until it is revoked")
	flags.BoolVar(&inRedis, "in-redis", false, "write the key to Redis itself instead of asking the API")
	flags.BoolVar(&jsonOutput, "json", false, "print the key and its description as JSON")
	settings.AddRedisFlags(flags)
	if err := cmd.MarkFlagRequired("role"); err != nil {
		panic(err) // the command has no such flag
	}
	var roles []string
	for _, role := range access.Roles() {
		roles = append(roles, role.String())
	}
	offer(cmd, "role", roles...)
	complete(cmd, "label", completeLabels(env))
	return cmd
}

// createInRedis creates a key directly in Redis, without the API.
func createInRedis(cmd *cobra.Command, env environment, n key.New, role, expires string) (made api.NewKey, err error) {
	if n.Role, err = access.ParseRole(role); err != nil {
		return made, fmt.Errorf("--%w", err)
	}
	if expires != "" {
		if n.Life, err = key.ParseLife(expires); err != nil {
			return made, fmt.Errorf("--expires: %w", err)
		}
	}
	err = env.keyring(cmd, func(ctx context.Context, keys *key.Keyring) error {
		trail.Of(ctx).Subject("key", n.Name)
		text, k, err := keys.Create(ctx, n)
		switch {
		case errors.Is(err, key.ErrTaken):
			return fmt.Errorf("another key is named %s: revoke it first, or take another name", n.Name)
		case errors.Is(err, key.ErrFull):
			return fmt.Errorf("there are %d keys, which is the most there may be: revoke one first", key.Most)
		case err != nil:
			return err
		}
		made = api.NewKey{Text: text, Key: api.Key{
			Name: k.Name, Role: k.Role.String(), Labels: k.Labels, Created: k.Created.UTC(), By: k.By, Expires: k.Expires,
		}}
		return nil
	})
	return made, err
}

// keyring calls use with the keys in the Redis that flags and settings name. use creates a key, and
// keyring notes that in the trail there.
func (e environment) keyring(cmd *cobra.Command, use func(context.Context, *key.Keyring) error) error {
	s, _, err := readAs(e, cmd, settings.ReadRedis)
	if err != nil {
		return err
	}
	there, err := service.OpenNamespace(cmd.Context(), s, s.Namespace)
	if err != nil {
		return err
	}
	ctx, draft := trail.Begin(cmd.Context(), trail.Entry{Action: "create-key"})
	err = use(ctx, there.Keys())
	as := trail.Done
	if err != nil {
		as = trail.Failed
	}
	entry, _ := draft.Close(as, 0)
	return errors.Join(err, there.AddToTrail(ctx, entry), there.Close())
}

// printKey prints a new key. Standard output gets only the key, so that a script can read it.
// Standard error gets its description.
func printKey(env environment, made *api.NewKey, jsonOutput bool) error {
	if jsonOutput {
		return printJSON(env.stdout, made)
	}
	until := "until it is revoked"
	if !made.Expires.IsZero() {
		until = "until " + clockTime(made.Expires)
	}
	fmt.Fprintln(env.stderr, env.says("key %s: %s, %s, %s. It is shown this once:", oneLine(made.Name), oneLine(made.Role), reachOf(made.Labels), until))
	fmt.Fprintln(env.stdout, oneLine(made.Text))
	return nil
}

// reachOf says which accounts a caller with these labels can use.
func reachOf(labels map[string]string) string {
	if len(labels) == 0 {
		return "all accounts"
	}
	return "only accounts with " + oneLine(access.Labels(labels).String())
}

func labelsOf(pairs []string) (map[string]string, error) {
	labels := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if before, twice := labels[name]; !ok || name == "" || twice && before != value {
			return nil, fmt.Errorf("--label %q: must be NAME=VALUE, each name once", pair)
		}
		labels[name] = value
	}
	return labels, nil
}

func newKeyList(env environment) *cobra.Command {
	return listingCommand(env, &cobra.Command{
		Use:     "list",
		Short:   "List keys: their roles, labels, and when they were last used",
		Aliases: []string{"ls"},
		Long: `List keys, without their texts: only the people who have them know those.

LAST USED is accurate to an hour. A key that has expired stays in the list until it is
revoked, or its room is needed.`,
		Example: `  rounds key list
  rounds key list --json | jq -r 'select(.last_used == null) | .name'`,
	}, list[api.Key]{
		header: "NAME\tROLE\tLABELS\tCREATED\tBY\tEXPIRES\tLAST USED", row: keyRow, none: "no keys",
		page: whole((*client.Client).Keys, func(l api.KeyList) []api.Key { return l.Keys }),
	})
}

func keyRow(k api.Key) string {
	at := func(t time.Time, otherwise string) string {
		if t.IsZero() {
			return otherwise
		}
		return clockTime(t)
	}
	expires := at(k.Expires, "never")
	if k.Expired {
		expires = "expired " + expires
	}
	return strings.Join([]string{oneLine(k.Name), k.Role, oneLine(cmp.Or(access.Labels(k.Labels).String(), "-")), at(k.Created, "-"), oneLine(cmp.Or(k.By, "-")), expires, at(k.Used, "never")}, "\t")
}

func newKeyRevoke(env environment) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME…",
		Short: "Revoke keys, for good",
		Long: `Revoke keys, for good. Within three seconds no process admits them, and within ten
seconds their long requests end, such as following messages.`,
		Example: `  rounds key revoke ci`,
		Aliases: []string{"rm"},
		Args:    atLeast(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			for _, name := range args {
				if err := calls.RevokeKey(cmd.Context(), name); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				fmt.Fprintln(env.stdout, env.says("revoked %s", oneLine(name)))
			}
			return nil
		}),
		ValidArgsFunction: completeKeys(env),
	}
}

// newWhoamiCommand makes the command that shows what the current token or key may do.
func newWhoamiCommand(env environment) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show who the API takes you for, and what you may do",
		Example: `  rounds whoami
  ROUNDS_API_TOKEN=rounds_… rounds whoami`,
		Args: cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			who, err := calls.Whoami(cmd.Context())
			if err != nil {
				return err
			}
			if jsonOutput {
				return printJSON(env.stdout, who)
			}
			fmt.Fprintln(env.stdout, env.says("%s, by %s: %s, %s", oneLine(who.Name), oneLine(waysIn(who.Via)), oneLine(who.Role), reachOf(who.Labels)))
			if who.Service != nil {
				fmt.Fprintln(env.stdout, env.says("at %s: rounds %s", oneLine(calls.At()), oneLine(who.Service.String())))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print it as JSON")
	return cmd
}

// waysIn says how a caller was authenticated.
func waysIn(via string) string {
	switch access.Via(via) {
	case access.ViaToken:
		return "ROUNDS_API_TOKEN"
	case access.ViaKey:
		return "a key"
	case access.ViaLocal:
		return "being on this machine, where nothing is demanded"
	}
	return via
}
