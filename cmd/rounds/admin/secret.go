package admin

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// NewSecret returns the command that stores secrets.
func NewSecret(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Store the secrets that records refer to, sealed",
		Long: `Store the secrets that records refer to as {"secret": "NAME"}, sealed in Redis. The API
has only the key that seals: nobody can have it tell a secret. Pollers have the key that
opens. A file in ROUNDS_SECRETS_DIR or a variable ROUNDS_SECRET_NAME goes before what is
stored. A secret that names hosts or kinds goes nowhere else.`,
		Example: `  rounds secret keygen
  rounds secret set KF --host qyapi.weixin.qq.com --kind wecom-kf < kf.txt
  rounds secret list`,
	}
	env.NeedsCommand(cmd)
	cmd.AddCommand(newSecretSet(env), newSecretList(env), newSecretRemove(env), newSecretRotate(env), newSecretKeygen(env))
	return cmd
}

func newSecretSet(env Env) *cobra.Command {
	var hosts, kinds []string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Store a secret from standard input, in place of the one of that name",
		Long: `Store a secret, in place of the one of that name: its value, which is read from
standard input, and where it may go change together, and count at the next check. One newline
at the end of the value is not part of it. No argument is ever a value: all on a machine can
read those.

NAME has 1 to 64 letters, digits, underscores and dashes. service.NAME is one that
webhooks refer to, and no record can.`,
		Example: `  rounds secret set KF --host qyapi.weixin.qq.com --kind wecom-kf < kf.txt
  pass show mail/me | rounds secret set MAIL --host imap.example.com:993 --kind imap
  rounds secret set CRM --host 'api.example.com,*.crm.example.com' < token`,
		Args: cobra.ExactArgs(1),
		RunE: env.Calls(func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if err := secret.ValidateFullName(args[0]); err != nil {
				return fmt.Errorf("NAME %w", err) // the name is not quoted: it may be the secret itself
			}
			if _, err := (secret.Binding{Hosts: hosts, Kinds: kinds}).Normalized(); err != nil {
				return fmt.Errorf("--%s", strings.NewReplacer("hosts: ", "host ", "kinds: ", "kind ", "\n", "\n--").Replace(err.Error()))
			}
			if env.Terminal(env.Stdin) {
				fmt.Fprintln(env.Stderr, "Type the secret, then Enter and Ctrl-D. It shows as you type: better have a file or a program write it here.")
			}
			value, err := readSecret(env.Stdin)
			if err != nil {
				return err
			}
			s, err := calls.SetSecret(cmd.Context(), args[0], api.SecretRequest{Value: value, Hosts: hosts, Kinds: kinds})
			if err != nil {
				return err
			}
			fmt.Fprintf(env.Stdout, "%s is stored, %s\n", oneLine(s.Name), oneLine(boundTo(&s)))
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&hosts, "host", nil, "where it may go, as `HOST` or HOST:PORT, or *.HOST for all below; several, or separated by commas")
	flags.StringSliceVar(&kinds, "kind", nil, "the `KIND` of accounts that may use it; several, or separated by commas")
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

func newSecretList(env Env) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List stored secrets and where they may go, never a value",
		Long: `List stored secrets: where they may go, when and by whom they were set, and for which
key they are sealed. Secrets in files and variables are not stored, and not listed.`,
		Example: `  rounds secret list
  rounds secret list --json | jq -r 'select(.hosts == null).name'`,
		Args: cobra.NoArgs,
		RunE: env.Calls(func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			current, none := "", true
			list := newTable(env.Stdout, jsonOutput, "NAME\tHOSTS\tKINDS\tSET\tBY\tKEY", func(s api.Secret) string {
				return secretRow(&s, current)
			})
			for cursor := ""; ; {
				page, err := calls.Secrets(cmd.Context(), cursor, pageSize)
				if err != nil {
					return err
				}
				if none = none && len(page.Secrets) == 0; none && !jsonOutput {
					fmt.Fprintln(env.Stdout, "no stored secrets")
					return nil
				}
				current = page.Key
				if err := list.print(page.Secrets); err != nil {
					return err
				}
				if cursor = page.Next; cursor == "" {
					return nil
				}
			}
		}),
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	return cmd
}

func secretRow(s *api.Secret, current string) string {
	or := func(list []string, none string) string {
		if len(list) == 0 {
			return none
		}
		return oneLine(strings.Join(list, ","))
	}
	key := s.Key
	switch {
	case key == "":
		key = "unreadable"
	case current != "" && key != current:
		key += " (not the API's)"
	}
	return strings.Join([]string{oneLine(s.Name), or(s.Hosts, "any"), or(s.Kinds, "all"), clockTime(s.Set), oneLine(s.By), key}, "\t")
}

func newSecretRemove(env Env) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:     "rm NAME",
		Short:   "Forget a stored secret",
		Long:    "Forget a stored secret, for good. Checks of accounts that refer to it fail from then on, and\ncount against no account. It asks before it does, unless --yes says so.",
		Example: "  rounds secret rm OLD --yes",
		Args:    cobra.ExactArgs(1),
		RunE: env.Calls(func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if err := secret.ValidateFullName(args[0]); err != nil {
				return fmt.Errorf("NAME %w", err)
			}
			if !yes {
				if ok, err := env.Ask(calls, "Forget the secret "+args[0]+"? Nobody can bring it back.", "--yes"); err != nil || !ok {
					return err
				}
			}
			if err := calls.RemoveSecret(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(env.Stdout, "%s is forgotten\n", args[0])
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
