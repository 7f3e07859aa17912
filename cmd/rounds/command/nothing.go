package command

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

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

// quotedAll returns texts with commas between them.
func quotedAll(texts []string) string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = quoted(text)
	}
	return strings.Join(all, ", ")
}

// whyNothing tells a person who waits for messages that there is none yet, and which of the
// accounts that may have them fail.
func whyNothing(ctx context.Context, calls *client.Client, chosen *choice) string {
	if others := chosen.others(); len(others) > 0 {
		return fmt.Sprintf("nothing yet of the type %s; messages of other types came: %s", quotedAll(chosen.types), quotedAll(others))
	}
	const most = 100
	if len(chosen.accounts) > 0 {
		var failing []string
		for _, id := range chosen.accounts[:min(most, len(chosen.accounts))] {
			if account, err := calls.Get(ctx, id); err == nil && account.State.Failing {
				failing = append(failing, id)
			}
		}
		return nothingOf(failing, false)
	}
	failing, err := calls.List(ctx, client.Query{Selector: accounts.Selector{States: []string{accounts.StateFailing}, Kinds: chosen.kinds}, Limit: most})
	if err != nil {
		return "nothing yet"
	}
	if len(failing.Accounts) == 0 && failing.Next == "" && len(chosen.kinds) == 0 {
		if any, err := calls.List(ctx, client.Query{Limit: 1}); err == nil && len(any.Accounts) == 0 && any.Next == "" {
			return "nothing yet; no account is registered: see rounds account add --help"
		}
		return "nothing yet; no account fails"
	}
	ids := make([]string, len(failing.Accounts))
	for i := range failing.Accounts {
		ids[i] = failing.Accounts[i].ID
	}
	return nothingOf(ids, failing.Next != "")
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
