package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/cmd/rounds/build"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
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
	return service.Options{Version: self.Version, Commit: self.Commit, Lookup: env.lookup, Kinds: env.kinds, Sinks: env.sinks}
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

// newLogger makes the logger of the process. It writes text to a terminal and JSON to
// everything else, unless the settings say which. The level can be changed later.
func newLogger(w io.Writer, s settings.Log, terminal bool) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	level.Set(s.Level)
	if s.Format == "json" || s.Format != "text" && !terminal {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readable})), level
	}
	return slog.New(&textHandler{out: &lockedWriter{w: w}, level: level}), level
}

// readable writes durations for people, and not as a number of nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// lockedWriter lets several handlers share one stream.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// textHandler writes a line for people: time of day, level, message, key=value.
type textHandler struct {
	out    *lockedWriter
	level  slog.Leveler
	prefix string // of keys: the open groups
	attrs  string // of the logger, in their written form
}

// Enabled implements slog.Handler.
func (h *textHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

// Handle implements slog.Handler.
func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	if !r.Time.IsZero() {
		b.WriteString(r.Time.Format("15:04:05.000 "))
	}
	fmt.Fprintf(&b, "%-5s %s", r.Level, oneLine(r.Message))
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, h.prefix, a)
		return true
	})
	b.WriteByte('\n')
	_, err := io.WriteString(h.out, b.String())
	return err
}

// WithAttrs implements slog.Handler.
func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attrs)
	for _, a := range attrs {
		writeAttr(&b, h.prefix, a)
	}
	with := *h
	with.attrs = b.String()
	return &with
}

// WithGroup implements slog.Handler.
func (h *textHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.prefix += name + "."
	return &with
}

func writeAttr(b *strings.Builder, prefix string, a slog.Attr) {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range value.Group() {
			writeAttr(b, prefix, member)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	b.WriteString(" " + prefix + a.Key + "=" + quoted(textOf(value)))
}

func textOf(value slog.Value) string {
	switch value.Kind() {
	case slog.KindTime:
		return value.Time().Format(time.RFC3339Nano)
	case slog.KindDuration:
		return value.Duration().Round(time.Microsecond).String()
	}
	return value.String()
}

// quoted quotes a value that would otherwise be more than one word.
func quoted(text string) string {
	odd := func(c rune) bool { return !unicode.IsPrint(c) || slices.Contains([]rune(" =\""), c) }
	if text == "" || strings.ContainsFunc(text, odd) {
		return strconv.Quote(text)
	}
	return text
}

// oneLine prevents a text from starting new lines or moving the cursor.
func oneLine(text string) string { return terminal.OneLine(text) }
