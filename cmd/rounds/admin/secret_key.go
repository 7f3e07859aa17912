package admin

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/secrets"
)

func newSecretKeygen(env Env) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Print a new pair of keys for stored secrets",
		Long: `Print a new pair of keys: the private one opens stored secrets, and is for pollers and
delivery; the public one seals them, and is all that the API needs. Nothing else changes:
put them where the processes find them. Whoever has the private key and reads Redis
reads every stored secret; who loses it has lost them all.`,
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
				return printJSON(env.Stdout, struct {
					Private string `json:"private"`
					Public  string `json:"public"`
					ID      string `json:"id"`
				}{private, key.Public().String(), key.Public().ID()})
			}
			fmt.Fprintf(env.Stdout, "# key %s\n# for pollers and delivery:\nROUNDS_SECRETS_KEY=%s\n# for the API, unless it has the line above:\nROUNDS_SECRETS_PUBLIC_KEY=%s\n",
				key.Public().ID(), private, key.Public())
			return nil
		},
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON")
	return cmd
}

func newSecretRotate(env Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Seal all stored secrets anew, for the newest key",
		Long: `Seal all stored secrets anew, for the first of the keys in ROUNDS_SECRETS_KEY; all of
them open. It goes to the Redis of ROUNDS_REDIS_URL itself, not to an API, which cannot open
what it seals. The service goes on meanwhile. It may be interrupted, and run again: what
is done stays done, and what somebody sets meanwhile is left alone.

To change the key: make one with "rounds secret keygen". Give it to pollers and delivery,
before the old one: ROUNDS_SECRETS_KEY=NEW,OLD. Give its public key to the API. Run this.
Then take the old key away. It ends with 1 where a secret could not be opened.`,
		Example: `  ROUNDS_SECRETS_KEY=NEW,OLD ROUNDS_REDIS_URL=redis://127.0.0.1:6379 rounds secret rotate
  rounds secret rotate --redis-url redis://127.0.0.1:6379 --secrets-key-file keys`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lookup, faults := settings.Layer(env.Lookup, cmd.Flags())
			redis, seal, err := settings.ReadSeal(lookup, cmd.Flags())
			if err := errors.Join(faults, err); err != nil {
				return err
			}
			done, err := service.RotateSecrets(cmd.Context(), redis, seal, func(so secrets.Rotated) {
				fmt.Fprintf(env.Stderr, "%s\n", rotated(so))
			})
			if err != nil && done.Sealed+done.Already > 0 {
				return fmt.Errorf("%s, and not all: run it again: %w", rotated(done), err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(env.Stdout, rotated(done))
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
