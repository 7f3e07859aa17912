package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/cmd/rounds/build"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

func newServeCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service",
		Long: `Run the service, with all its roles or some: api serves HTTP, poller checks
accounts, monitor requeues the accounts of dead or stuck pollers, and delivery, which
must be requested, delivers messages to the endpoints of ROUNDS_WEBHOOKS_FILE. Any
number of processes of any roles may share one Redis.

Without ROUNDS_REDIS_URL a process has a Redis of its own. It stores accounts, messages
and everything else in a directory (--data), and goes on from there at its next start.
kill -9 loses nothing, and a power failure loses the last second. --data memory stores
nothing.

SIGHUP makes the process read its settings again, as "rounds reload" does: limits,
webhooks, callbacks, the API's token, secrets and the level of the log change
without a restart. If there is any fault, none of them changes.

` + settingsHelp(),
		Example: `  rounds serve
  rounds serve --data ~/accounts
  ROUNDS_REDIS_URL=redis://127.0.0.1:6379 rounds serve --roles poller
  rounds serve --roles api,poller,monitor,delivery --webhooks-file webhooks.json
  rounds serve --redis-url redis://127.0.0.1:6379 --api-addr 127.0.0.1:9000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options := serviceOptions(env)
			if env.hangups != nil {
				options.Hangups = env.hangups() // first of all: the signal must never end a serving process
			}
			var file settings.Source
			options.Read = func() (settings.Settings, settings.Lookup, error) {
				return readSettings(env, &file, cmd.Flags(), settings.InProcess)
			}
			s, lookup, err := options.Read()
			if err != nil {
				return err
			}
			log, level := newLogger(env.stderr, s.Log, env.terminal(env.stderr))
			for _, name := range settings.UnknownVariables(env.environ) {
				if s.Redis.URL == "" {
					return misspelt(name)
				}
				log.Warn("unknown variable: is it misspelt?", "name", name, "likely", settings.Likely(name))
			}
			service.LimitMemory(env.lookup, log)
			options.Log, options.Lookup = log, lookup
			options.Applied = func(s settings.Settings) { level.Set(s.Log.Level) }
			options.Hurry, options.Holding = env.haste.channel(), service.HeldMemory(env.lookup)
			err = service.Run(cmd.Context(), s, options)
			if refused, ok := errors.AsType[*service.ListenError](err); ok && errors.Is(err, syscall.EADDRINUSE) {
				err = fmt.Errorf("%w: %s", err, holderOf(cmd.Context(), refused, s.Access.Token))
			}
			return err
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

// holderOf says which process seems to have an address that is in use, and which setting chooses
// another.
func holderOf(ctx context.Context, taken *service.ListenError, token string) string {
	other := "choose another with " + taken.Setting
	if taken.Setting == "ROUNDS_API_ADDR" {
		other += ", and ROUNDS_API_URL for the commands"
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	calls := client.New("http://"+taken.Addr, token)
	defer calls.Close()
	who, err := calls.Whoami(ctx)
	switch {
	case err == nil && who.Service != nil:
		return "rounds " + oneLine(who.Service.String()) + " is there; stop it, or " + other
	case client.Status(err) == http.StatusUnauthorized, client.Status(err) == http.StatusServiceUnavailable:
		return "another rounds seems to be there; stop it, or " + other
	}
	return other
}

// misspelt refuses an unknown variable if no Redis is named. The variable may be the
// one that should name it, and everything would then be stored where nobody looks for
// it.
func misspelt(name string) error {
	hint := ""
	if likely := settings.Likely(name); likely != "" {
		hint = " (is it " + likely + "?)"
	}
	return fmt.Errorf("%s: no setting has this name%s; it is refused because ROUNDS_REDIS_URL is not set and everything would be kept on this machine alone", name, hint)
}

// settingsHelp returns the list of all variables.
func settingsHelp() string {
	var b strings.Builder
	_ = settings.Write(&b) // a strings.Builder never fails
	return b.String()
}

// serviceOptions are what the service gets from its surroundings.
func serviceOptions(env environment) service.Options {
	self := build.Read()
	return service.Options{Version: self.Version, Commit: self.Commit, Lookup: env.lookup, Kinds: env.kinds}
}

// byHandOptions are those of a command that checks by itself.
func byHandOptions(env environment) service.Options {
	o := serviceOptions(env)
	o.Program = "this command"
	return o
}

// readSettings reads the settings of the service and others, and validates them. The
// lookup finds variables that are not settings in the same places.
func readSettings(env environment, file *settings.Source, flags *pflag.FlagSet, checks ...func(settings.Settings) error) (settings.Settings, settings.Lookup, error) {
	lookup, faults := file.Layer(env.lookup, flags)
	env.lookup = lookup
	s, err := settings.Read(lookup, flags, append(checks, func(s settings.Settings) error {
		return service.Validate(s, serviceOptions(env))
	})...)
	return s, lookup, errors.Join(faults, err)
}
