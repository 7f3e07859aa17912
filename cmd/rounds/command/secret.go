package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// newSecretCommand makes the command that stores secrets.
func newSecretCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "secret",
		Short: "Store the secrets that records refer to, sealed",
		Long: `Store the secrets that records refer to as {"secret": "NAME"}, sealed in Redis. The API
has only the key that seals, so it cannot reveal a secret. Pollers have the key that
opens. A file in ROUNDS_SECRETS_DIR or a variable ROUNDS_SECRET_NAME has precedence over a
stored secret. A secret that names hosts or kinds goes nowhere else.`,
		Example: `  rounds secret keygen
  rounds secret set KF --host qyapi.weixin.qq.com --kind wecom-kf < kf.txt
  rounds secret list`,
	}, newSecretSet(env), newSecretList(env), newSecretRemove(env), newSecretRotate(env), newSecretKeygen(env))
}

func newSecretSet(env environment) *cobra.Command {
	var hosts, kinds []string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Store a secret from standard input, and replace any secret of that name",
		Long: `Store a secret, and replace any secret of that name. The value is read from standard
input. The value and where it may go change together, and take effect with the next check.
One newline at the end of the value is not part of it. A value is never an argument, because
everybody on a machine can read those.

NAME has 1 to 64 letters, digits, underscores and dashes. service.NAME is a secret for
webhooks, to which no record can refer.`,
		Example: `  rounds secret set KF --host qyapi.weixin.qq.com --kind wecom-kf < kf.txt
  pass show mail/me | rounds secret set MAIL --host imap.example.com:993 --kind imap
  rounds secret set CRM --host 'api.example.com,*.crm.example.com' < token`,
		Args: exactly(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if err := secret.ValidateFullName(args[0]); err != nil {
				return fmt.Errorf("NAME %w", err) // the name is not quoted: it may be the secret itself
			}
			if _, err := (secret.Binding{Hosts: hosts, Kinds: kinds}).Normalized(); err != nil {
				return fmt.Errorf("--%s", strings.NewReplacer("hosts: ", "host ", "kinds: ", "kind ", "\n", "\n--").Replace(err.Error()))
			}
			if env.terminal(env.stdin) {
				fmt.Fprintln(env.stderr, env.says("Type the secret, then Enter and Ctrl-D. It shows as you type: a file or a program as input is safer."))
			}
			value, err := readSecret(env.stdin)
			if err != nil {
				return err
			}
			s, err := calls.SetSecret(cmd.Context(), args[0], api.SecretRequest{Value: value, Hosts: hosts, Kinds: kinds})
			if err != nil {
				return err
			}
			return env.tell("%s is stored, %s", oneLine(s.Name), oneLine(boundTo(&s)))
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&hosts, "host", nil, "where it may go, as `HOST` or HOST:PORT, or *.HOST for all names below; repeat the flag, or separate hosts by commas")
	flags.StringSliceVar(&kinds, "kind", nil, "the `KIND` of accounts that may use it; repeat the flag, or separate kinds by commas")
	return cmd
}

// readSecret reads a secret's value, without the newline at its end.
func readSecret(from io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(from, secret.MaxValue+3))
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case value == "":
		return "", errors.New("standard input is empty: the secret is read from there")
	case len(value) > secret.MaxValue:
		return "", fmt.Errorf("standard input has more than %d bytes", secret.MaxValue)
	case !utf8.ValidString(value):
		return "", errors.New("standard input is no UTF-8: store bytes as base64, or put them into a file of ROUNDS_SECRETS_DIR")
	}
	return value, nil
}

// boundTo says where a secret may go.
func boundTo(s *api.Secret) string {
	switch b := (secret.Binding{Hosts: s.Hosts, Kinds: s.Kinds}); {
	case b.IsZero():
		return "bound to nothing: any record may have it sent anywhere, unless ROUNDS_SECRETS_UNBOUND=refuse"
	case len(s.Hosts) == 0:
		return "bound to " + b.String() + ": any record of these kinds may have it sent anywhere, unless ROUNDS_SECRETS_UNBOUND=refuse"
	default:
		return "bound to " + b.String()
	}
}

func newSecretList(env environment) *cobra.Command {
	current := "" // the key for which the API seals now
	return listingCommand(env, &cobra.Command{
		Use:   "list",
		Short: "List stored secrets and where they may go, never a value",
		Long: `List stored secrets: where they may go, who stored them and when, and for which key they
are sealed. Secrets in files and variables are not listed.`,
		Example: `  rounds secret list
  rounds secret list --json | jq -r 'select(.hosts == null).name'`,
	}, list[api.Secret]{
		header: "NAME\tHOSTS\tKINDS\tSET\tBY\tKEY", none: "no stored secrets",
		row: func(s api.Secret) string { return secretRow(&s, current) },
		page: func(ctx context.Context, calls *client.Client, cursor string, most int) ([]api.Secret, string, error) {
			page, err := calls.Secrets(ctx, cursor, most)
			current = page.Key
			return page.Secrets, page.Next, err
		},
	})
}

func secretRow(s *api.Secret, current string) string {
	hosts, kinds := oneLine(strings.Join(s.Hosts, ",")), oneLine(strings.Join(s.Kinds, ","))
	key := cmp.Or(s.Key, "unreadable")
	if s.Key != "" && current != "" && key != current {
		key += " (not the API's)"
	}
	return strings.Join([]string{oneLine(s.Name), cmp.Or(hosts, "any"), cmp.Or(kinds, "all"), clockTime(s.Set), oneLine(s.By), key}, "\t")
}

func newSecretRemove(env environment) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:     "rm NAME",
		Short:   "Delete a stored secret",
		Long:    "Delete a stored secret, for good. Checks of accounts that refer to it fail from then on, and\ncount against no account. The command asks first, unless --yes is given.",
		Example: "  rounds secret rm OLD --yes",
		Args:    exactly(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if err := secret.ValidateFullName(args[0]); err != nil {
				return fmt.Errorf("NAME %w", err)
			}
			if !yes {
				if ok, err := env.ask(calls, "Forget the secret "+args[0]+"? Nobody can bring it back.", "--yes"); err != nil || !ok {
					return err
				}
			}
			if err := calls.RemoveSecret(cmd.Context(), args[0]); err != nil {
				return err
			}
			return env.tell("%s is forgotten", args[0])
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func newSecretKeygen(env environment) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Print a new pair of keys for stored secrets",
		Long: `Print a new pair of keys: the private key opens stored secrets, and is for pollers and
delivery; the public key seals them, and is all that the API needs. The command changes
nothing else: put the keys where the processes find them. With the private key, anybody
who reads Redis reads every stored secret. Without it, all stored secrets are lost.`,
		Example: `  rounds secret keygen
  rounds secret keygen --json | jq -r .private > secrets.key`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			key, err := secrets.Generate()
			if err != nil {
				return err
			}
			private, err := key.Text()
			if err != nil {
				return err
			}
			if jsonOutput {
				return printJSON(env.stdout, struct {
					Private string `json:"private"`
					Public  string `json:"public"`
					ID      string `json:"id"`
				}{private, key.Public().String(), key.Public().ID()})
			}
			fmt.Fprintf(env.stdout, "# key %s\n# for pollers and delivery:\nROUNDS_SECRETS_KEY=%s\n# for the API, unless it has the line above:\nROUNDS_SECRETS_PUBLIC_KEY=%s\n",
				key.Public().ID(), private, key.Public())
			return nil
		},
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON")
	return cmd
}

func newSecretRotate(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Seal all stored secrets anew, for the newest key",
		Long: `Seal all stored secrets anew, for the first of the keys in ROUNDS_SECRETS_KEY; all of
these keys open secrets. The command uses the Redis of ROUNDS_REDIS_URL itself, because an
API cannot open what it seals. The service may run meanwhile. The command may be
interrupted, and run again: finished secrets stay finished, and secrets that somebody
stores meanwhile are left alone.

To change the key: make one with "rounds secret keygen". Give it to pollers and delivery,
before the old one: ROUNDS_SECRETS_KEY=NEW,OLD. Give its public key to the API. Run this.
Then remove the old key. The exit code is 1 if a secret could not be opened.`,
		Example: `  ROUNDS_SECRETS_KEY=NEW,OLD ROUNDS_REDIS_URL=redis://127.0.0.1:6379 rounds secret rotate
  rounds secret rotate --redis-url redis://127.0.0.1:6379 --secrets-key-file keys`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lookup, faults := settings.Layer(env.lookup, cmd.Flags())
			redis, seal, err := settings.ReadSeal(lookup, cmd.Flags())
			if err := errors.Join(faults, err); err != nil {
				return err
			}
			done, err := service.RotateSecrets(cmd.Context(), redis, seal, func(so secrets.Rotated) {
				fmt.Fprintln(env.stderr, env.says("%s", rotated(so)))
			})
			if err != nil && done.Sealed+done.Already > 0 {
				return fmt.Errorf("%s, and not all: run it again: %w", rotated(done), err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(env.stdout, env.spoken(rotated(done)))
			if done.Broken == 0 {
				return nil
			}
			names := oneLine(strings.Join(done.Failed, ", "))
			if len(done.Failed) < done.Broken {
				names += ", …"
			}
			return fmt.Errorf("%d could not be opened with these keys and stay as they are (%s): set them anew, or give the keys that they are sealed for", done.Broken, names)
		},
	}
	settings.AddRedisFlags(cmd.Flags())
	settings.AddSealFlags(cmd.Flags())
	return cmd
}

func rotated(r secrets.Rotated) string {
	text := fmt.Sprintf("%d sealed anew, %d had the newest key before", r.Sealed, r.Already)
	if r.Changed > 0 {
		text += fmt.Sprintf(", %d changed meanwhile", r.Changed)
	}
	return text
}
