package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

func newServeCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service",
		Long: `Run the service, with all its roles or some: api serves HTTP, poller checks
accounts, monitor requeues what dead or stuck pollers held, and delivery, which
must be asked for, hands messages to the endpoints of ROUNDS_WEBHOOKS_FILE. Any
number of processes of any roles may share one Redis.

` + settingsHelp(),
		Example: `  rounds serve
  ROUNDS_REDIS_URL=redis://127.0.0.1:6379 rounds serve --roles poller
  rounds serve --roles api,poller,monitor,delivery --webhooks-file webhooks.json
  rounds serve --redis-url redis://127.0.0.1:6379 --api-addr 127.0.0.1:9000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readSettings(env, cmd.Flags(), settings.InProcess)
			if err != nil {
				return err
			}
			log := newLogger(env.stderr, s.Log, env.terminal(env.stderr))
			for _, name := range settings.UnknownVariables(env.environ) {
				if s.Redis.URL == "" {
					return misspelt(name)
				}
				log.Warn("unknown variable: is it misspelt?", "name", name, "likely", settings.Likely(name))
			}
			service.LimitMemory(env.lookup, log)
			options := serviceOptions(env)
			options.Log = log
			return service.Run(cmd.Context(), s, options)
		},
	}
	settings.AddFlags(cmd.Flags())
	for flag, words := range settings.Choices() {
		if flag == "roles" {
			complete(cmd, flag, completeList(words))
			continue
		}
		offer(cmd, flag, words...)
	}
	return cmd
}

// misspelt refuses an unknown variable where no Redis is named: it may be the one that
// should name it, and everything would be kept in memory and forgotten.
func misspelt(name string) error {
	hint := ""
	if likely := settings.Likely(name); likely != "" {
		hint = " (is it " + likely + "?)"
	}
	return fmt.Errorf("%s: no setting has this name%s; it is refused because ROUNDS_REDIS_URL is not set and everything would be kept in this process' memory", name, hint)
}

// settingsHelp is the list of all variables.
func settingsHelp() string {
	var b strings.Builder
	_ = settings.Write(&b) // a strings.Builder takes everything
	return b.String()
}

// serviceOptions are what the service has of its surroundings.
func serviceOptions(env environment) service.Options {
	return service.Options{Version: version(), Lookup: env.lookup, Kinds: env.kinds}
}

// readSettings reads the settings of the service, and has it judge them, and others.
func readSettings(env environment, flags *pflag.FlagSet, checks ...func(settings.Settings) error) (settings.Settings, error) {
	return settings.Read(env.lookup, flags, append(checks, func(s settings.Settings) error {
		return service.Validate(s, serviceOptions(env))
	})...)
}
