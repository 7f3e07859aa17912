package command

import (
	"context"
	"fmt"
	"net/http"
	"slices"

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

// unknownAccounts returns the ids that are not registered.
func unknownAccounts(ctx context.Context, calls *client.Client, ids []string) (unknown []string) {
	for _, id := range ids {
		if _, err := calls.Get(ctx, id); client.Status(err) == http.StatusNotFound {
			unknown = append(unknown, id)
		}
	}
	return unknown
}

// whyNothing tells a person who waits for messages that there is none yet, and which
// accounts fail.
func whyNothing(ctx context.Context, calls *client.Client) string {
	const most = 100
	failing, err := calls.List(ctx, client.Query{Selector: accounts.Selector{States: []string{accounts.StateFailing}}, Limit: most})
	switch n := len(failing.Accounts); {
	case err != nil:
		return "nothing yet"
	case n == 1 && failing.Next == "":
		return fmt.Sprintf("nothing yet; %s fails: see rounds account why %[1]s", oneLine(failing.Accounts[0].ID))
	case failing.Next != "":
		return fmt.Sprintf("nothing yet; %d accounts fail or more: see rounds problems", n)
	case n > 1:
		return fmt.Sprintf("nothing yet; %d accounts fail: see rounds problems", n)
	}
	if any, err := calls.List(ctx, client.Query{Limit: 1}); err == nil && len(any.Accounts) == 0 && any.Next == "" {
		return "nothing yet; no account is registered: see rounds account add --help"
	}
	return "nothing yet; no account fails"
}
