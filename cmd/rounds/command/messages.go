package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// dataWidth is how much of a message's data is shown in a line for people.
const dataWidth = 200

// errEnough ends a tail that has shown as many messages as were asked for.
var errEnough = errors.New("enough")

func newMessagesCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:     "messages",
		Short:   "Read found messages",
		Example: `  rounds messages tail`,
	}, newTailCommand(env), newSearchCommand(env), newSaveCommand(env))
}

func newTailCommand(env environment) *cobra.Command {
	from, group, events, limit, jsonOutput := "", "", false, 0, false
	var accounts, kinds, types []string
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print found messages as they come, until interrupted",
		Long: `Print found messages as they arrive, until interrupted. After a lost connection it
connects again, and continues where it stopped.

With --group the command reads as a consumer of that group, which is created if it is new.
Each message goes to one consumer of the group, is printed and then acknowledged. A
message that was printed but could not be acknowledged is printed again by the next
consumer. Without --group nothing is acknowledged, and no other reader is affected.

With --events the group also gets events from now on, which say what becomes of sends.

--account, --kind and --type print only messages that match all of them; each may be repeated.

If nothing comes for five seconds, standard error says which accounts fail, or that the
service cannot tell. After the first message it looks only at the accounts that --account
names.`,
		Example: `  rounds messages tail
  rounds messages tail --from start --json | jq .data
  rounds messages tail --limit 1
  rounds messages tail --account news --account inbox
  rounds messages tail --kind telegram --type message --from start
  rounds messages tail --group audit --from start
  rounds messages tail --group audit --events`,
		Args: cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			if from != client.FromStart && from != client.FromNow {
				return fmt.Errorf("--from is %q: must be start or now", from)
			}
			if group != "" && len(accounts)+len(kinds)+len(types) > 0 {
				return misuse("--account, --kind and --type are not for --group: what a group's consumer does not print, it would still acknowledge")
			}
			if events && group == "" {
				return misuse("--events needs --group: only a group gets events")
			}
			if err := unknownKind(cmd.Context(), calls, kinds); err != nil {
				return err
			}
			for _, id := range unknownAccounts(cmd.Context(), calls, accounts) {
				fmt.Fprintln(env.stderr, env.says("no account is named %s", quoted(id)))
			}
			chosen := &choice{accounts: accounts, kinds: kinds, types: types}
			silent, stop := watch(cmd.Context(), env, calls, chosen)
			defer stop()
			fits := func(wanted []string, is string) bool { return len(wanted) == 0 || slices.Contains(wanted, is) }
			shown := 0
			show := func(m api.Message) error {
				if !fits(accounts, m.Account) || !fits(kinds, m.Kind) {
					return nil
				}
				if !fits(types, m.Type) {
					chosen.pass(m.Type)
					return nil
				}
				silent.heard()
				if err := printMessage(env.stdout, m, jsonOutput); err != nil {
					return err
				}
				if shown++; shown == limit {
					return errEnough
				}
				return nil
			}
			lost := func(err error, pause time.Duration) {
				silent.disconnected()
				fmt.Fprintln(env.stderr, env.says("rounds: %v; trying again in %v", err, pause.Round(100*time.Millisecond)))
			}
			if group != "" {
				// The API enforces the limit, so that no more messages are read than
				// printed.
				err := calls.Consume(cmd.Context(), group, from, events, limit, func(m api.GroupMessage) error {
					silent.heard()
					return printMessage(env.stdout, m.Message, jsonOutput)
				}, lost)
				return ended(cmd.Context(), err)
			}
			if from == client.FromNow && env.terminal(env.stderr) {
				fmt.Fprintln(env.stderr, env.says("messages from now on; --from start begins with those found before"))
			}
			err := calls.Tail(cmd.Context(), from, show, lost)
			if errors.Is(err, errEnough) {
				return nil
			}
			return ended(cmd.Context(), err)
		}),
	}
	cmd.Flags().StringVar(&from, "from", client.FromNow, "where to begin: `start` or now; with --group, where the group begins if it is new")
	cmd.Flags().StringVar(&group, "group", "", "read as a consumer of this `group`, and acknowledge the printed messages")
	cmd.Flags().BoolVar(&events, "events", false, "with --group: also what becomes of sends")
	cmd.Flags().StringArrayVar(&accounts, "account", nil, "only messages of the account with this `id`")
	cmd.Flags().StringArrayVar(&kinds, "kind", nil, "only messages of accounts of this `kind`")
	cmd.Flags().StringArrayVar(&types, "type", nil, "only messages of this `type`, as the checker names it")
	complete(cmd, "account", completeIDs(env))
	complete(cmd, "kind", completeKinds(env))
	complete(cmd, "group", completeGroups(env))
	offer(cmd, "from", client.FromStart, client.FromNow)
	cmd.Flags().IntVar(&limit, "limit", 0, "end after this many messages; 0: never")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	return cmd
}

// silence watches a tail, and says on standard error why no message comes.
type silence struct {
	env    environment
	calls  *client.Client
	chosen *choice

	mu       sync.Mutex
	messages int       // so far
	last     time.Time // when the last one came, or the tail began
	lost     bool      // the tail has said that it lost the connection, and nothing has answered since
	said     string    // in this silence
}

// watch begins to watch. stop ends it: nothing is said after it has returned.
func watch(ctx context.Context, env environment, calls *client.Client, chosen *choice) (s *silence, stop func()) {
	s = &silence{env: env, calls: calls, chosen: chosen, last: time.Now()}
	if env.quiet == 0 {
		return s, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.run(ctx) })
	return s, func() {
		cancel()
		watching.Wait()
	}
}

// heard notes a message. Nothing is said of the silence before it once heard has returned.
func (s *silence) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages++
	s.last, s.said = time.Now(), ""
}

// disconnected notes that the tail has said that it lost the connection.
func (s *silence) disconnected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
}

// run asks what fails whenever nothing came for a while. It goes on asking, because something may
// begin to fail later, and says the same only once.
func (s *silence) run(ctx context.Context) {
	told := false // why there is nothing yet
	for wait := s.env.quiet; pause(ctx, wait); {
		s.mu.Lock()
		before := s.messages
		wait = s.env.quiet - time.Since(s.last)
		s.mu.Unlock()
		if wait > 0 {
			continue
		}
		wait = s.env.quiet
		ask := whatFails
		if before == 0 && !told {
			ask = whyNothing
		}
		why, err := ask(ctx, s.calls, s.chosen)
		if ctx.Err() != nil {
			return
		}
		told = told || err == nil
		s.say(before, why, err)
	}
}

// say says what was learnt when so many messages had come, unless another has come since.
func (s *silence) say(before int, why string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.lost = false
	case !s.lost: // otherwise the tail says it
		why = fmt.Sprintf("no messages now: %v", err)
	}
	if s.messages != before {
		return
	}
	if why != "" && why != s.said {
		fmt.Fprintln(s.env.stderr, s.env.spoken(why))
	}
	s.said = why
}

func printMessage(w io.Writer, m api.Message, jsonOutput bool) error {
	if jsonOutput {
		return printJSON(w, m)
	}
	when := "-"
	if !m.Time.IsZero() {
		when = clockTime(m.Time)
	}
	_, err := fmt.Fprintf(w, "%s  %s  %s  %s  %s\n", when, oneLine(m.Account), quoted(m.Type), quoted(m.ID), shorten(string(m.Data)))
	return err
}

// shorten cuts a text that is too long for a line.
func shorten(text string) string {
	text = oneLine(text)
	if utf8.RuneCountInString(text) <= dataWidth {
		return text
	}
	return string([]rune(text)[:dataWidth]) + "…"
}

// unknownKind returns an error if nothing can be found because a kind does not exist: the service
// does not know it, and no account has it. If the service cannot say, there is no error.
func unknownKind(ctx context.Context, calls *client.Client, wanted []string) error {
	if len(wanted) == 0 {
		return nil
	}
	list, err := calls.Kinds(ctx)
	if err != nil || len(list.Kinds) == 0 {
		return nil
	}
	for _, kind := range wanted {
		if slices.ContainsFunc(list.Kinds, func(k api.Kind) bool { return k.Name == kind }) {
			continue
		}
		page, err := calls.List(ctx, client.Query{Selector: accounts.Selector{Kinds: []string{kind}}, Limit: 1})
		if err == nil && len(page.Accounts) == 0 && page.Next == "" {
			return fmt.Errorf("--kind: %w", noKind(list, kind))
		}
	}
	return nil
}

// ofAccount names the account in an error if there is no such account.
func ofAccount(id string, err error) error {
	if client.Status(err) == http.StatusNotFound {
		return fmt.Errorf("%s: %w", oneLine(id), err)
	}
	return err
}

// unknownAccounts returns the ids that are not registered.
func unknownAccounts(ctx context.Context, calls *client.Client, ids []string) (unknown []string) {
	for _, id := range ids {
		if _, err := calls.Get(ctx, id); client.Status(err) == http.StatusNotFound {
			unknown = append(unknown, id)
		}
	}
	return unknown
}

// choice is which messages a person waits for; empty fields choose all.
type choice struct {
	accounts, kinds, types []string

	mu     sync.Mutex
	passed []string // types of messages of these accounts that were not chosen, a few of them
}

// pass notes the type of a message that is not chosen for its type alone.
func (c *choice) pass(kind string) {
	const most = 5
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.passed) < most && !slices.Contains(c.passed, kind) {
		c.passed = append(c.passed, kind)
	}
}

// others returns the types that pass noted.
func (c *choice) others() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.passed)
}

// whyNothing tells a person who waits for messages that there is none yet, and which of the
// accounts that may have them fail. An error means that the service cannot tell.
func whyNothing(ctx context.Context, calls *client.Client, chosen *choice) (string, error) {
	if others := chosen.others(); len(others) > 0 {
		return fmt.Sprintf("nothing yet of the type %s; messages of other types came: %s", joined(chosen.types, quoted), joined(others, quoted)), nil
	}
	if len(chosen.accounts) > 0 {
		failing, known, err := failingOf(ctx, calls, chosen.accounts)
		switch {
		case err != nil:
			return "", err
		case known == 0:
			return "nothing yet; none of these accounts is registered", nil
		case len(failing) == 0 && len(chosen.accounts) > mostAsked:
			return "nothing yet", nil
		}
		return nothingOf(failing, false), nil
	}
	failing, err := calls.List(ctx, client.Query{Selector: accounts.Selector{States: []string{accounts.StateFailing}, Kinds: chosen.kinds}, Limit: mostAsked})
	if err != nil {
		return "", err
	}
	if len(failing.Accounts) == 0 && failing.Next == "" && len(chosen.kinds) == 0 {
		any, err := calls.List(ctx, client.Query{Limit: 1})
		switch {
		case err != nil:
			return "", err
		case len(any.Accounts) == 0 && any.Next == "":
			return "nothing yet; no account is registered: see rounds account add --help", nil
		}
		return "nothing yet; no account fails", nil
	}
	ids := make([]string, len(failing.Accounts))
	for i := range failing.Accounts {
		ids[i] = failing.Accounts[i].ID
	}
	return nothingOf(ids, failing.Next != ""), nil
}

// whatFails tells a person which of the accounts that were chosen by their ids fail, or nothing. Of
// all accounts some nearly always fail, and that is not why the others have no messages. An error
// means that the service cannot tell.
func whatFails(ctx context.Context, calls *client.Client, chosen *choice) (string, error) {
	if len(chosen.accounts) == 0 {
		_, err := calls.List(ctx, client.Query{Limit: 1})
		return "", err
	}
	failing, _, err := failingOf(ctx, calls, chosen.accounts)
	switch {
	case err != nil || len(failing) == 0:
		return "", err
	case len(failing) == 1:
		return fmt.Sprintf("nothing new; %s fails: see rounds account why %[1]s", oneLine(failing[0])), nil
	}
	return fmt.Sprintf("nothing new; %d accounts fail: see rounds problems", len(failing)), nil
}

// mostAsked is the most accounts that are looked at.
const mostAsked = 100

// failingOf returns which of the first accounts fail, and how many of them are registered.
func failingOf(ctx context.Context, calls *client.Client, ids []string) (failing []string, known int, err error) {
	for _, id := range ids[:min(mostAsked, len(ids))] {
		account, err := calls.Get(ctx, id)
		switch {
		case client.Status(err) == http.StatusNotFound:
			continue
		case err != nil:
			return nil, 0, err
		case account.State.Failing:
			failing = append(failing, id)
		}
		known++
	}
	return failing, known, nil
}

// nothingOf says that nothing came, and which of the accounts that were looked at fail.
func nothingOf(failing []string, more bool) string {
	switch n := len(failing); {
	case more:
		return fmt.Sprintf("nothing yet; %d accounts fail or more: see rounds problems", n)
	case n == 1:
		return fmt.Sprintf("nothing yet; %s fails: see rounds account why %[1]s", oneLine(failing[0]))
	case n > 1:
		return fmt.Sprintf("nothing yet; %d accounts fail: see rounds problems", n)
	}
	return "nothing yet; none of these accounts fails"
}
