package message

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate/endpoint"
	"github.com/rounds-dev/rounds/circulate/group"
)

var (
	// ErrWebhookDisabled reports a webhook endpoint that gets nothing until it is enabled.
	ErrWebhookDisabled = errors.New("message: the webhook endpoint is disabled")
	// ErrWebhookIdle reports a webhook endpoint that no process delivers to.
	ErrWebhookIdle = errors.New("message: no process delivers to the webhook endpoint")
	// ErrNoneWaits reports an account of which no message waits at a webhook endpoint.
	ErrNoneWaits = errors.New("message: no message of the account waits at the webhook endpoint")
	// ErrNotNamed reports an account of which nobody can tell whether a message waits:
	// too many do.
	ErrNotNamed = errors.New("message: too many messages wait to name them all")
	// ErrSeveralWait reports that several messages would be skipped and nobody said so.
	ErrSeveralWait = errors.New("message: several messages wait at the webhook endpoint")
)

// WebhookChoice says which of the messages are meant that wait at a webhook endpoint.
type WebhookChoice struct {
	Account string // the first of this account; empty: the first of each account
	All     bool   // even if there are several
}

// DecodeWebhookChoice reads a choice strictly:
//
//	{"account": "ID"} or, where several may be skipped, {"all": true}
//
// All may be left out, and so may the whole text. It returns every fault at once, as
// Faults.
func DecodeWebhookChoice(text []byte, several bool) (WebhookChoice, error) {
	var c WebhookChoice
	if len(bytes.TrimSpace(text)) == 0 {
		return c, nil
	}
	fields, err := strict.Object(text)
	if err != nil {
		return c, err
	}
	known := "is not a field of this choice, which has account"
	if several {
		known += " and all"
	}
	var faults strict.Faults
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name]; {
		case name == "account":
			if faults.Text(name, value, &c.Account); c.Account == "" && !strict.IsNull(value) && len(faults) == 0 {
				faults.Add(name, "must not be empty")
			}
		case name == "all" && several:
			if json.Unmarshal(value, &c.All) != nil {
				faults.Add(name, "must be true or false")
			}
		default:
			faults.Add(name, known)
		}
	}
	if c.All && c.Account != "" {
		faults.Add("all", "must not be given together with account")
	}
	if len(faults) > 0 {
		return c, faults
	}
	return c, nil
}

// WebhookRetry is what a retry is about.
type WebhookRetry struct {
	Processes int // that deliver to the endpoint, and were told
	Accounts  int // whose messages are tried now
}

// RetryWebhook has the messages tried now that wait to be tried again at an endpoint: of
// one account or of all. All processes that deliver to it learn of it within a second
// or two, forget why they sent nothing (their breakers, a pause that the endpoint asked
// for), and try the first message of each account. A try that fails counts as any other.
//
// The error is ErrNoWebhook, ErrWebhookDisabled, ErrWebhookIdle or ErrNoneWaits, or the
// ring's.
func (r *Reader) RetryWebhook(ctx context.Context, name, account string) (WebhookRetry, error) {
	w, err := r.delivered(ctx, name)
	if err != nil {
		return WebhookRetry{}, err
	}
	waiting := w.Standing.waitingOf(account)
	if account != "" && len(waiting) == 0 && w.Standing.names() {
		return WebhookRetry{}, fmt.Errorf("%w: %q", ErrNoneWaits, account)
	}
	retry := WebhookRetry{Processes: w.Standing.Processes, Accounts: len(waiting)}
	if account == "" {
		retry.Accounts = w.Standing.Accounts
	}
	return retry, endpoint.Of(r.ring).Tell(ctx, endpoint.Order{Endpoint: name, Action: endpoint.Retry, Account: account})
}

// delivered returns an endpoint that processes deliver to.
func (r *Reader) delivered(ctx context.Context, name string) (Webhook, error) {
	w, err := r.Webhook(ctx, name)
	switch {
	case err != nil:
		return w, err
	case w.Disabled != nil:
		return w, fmt.Errorf("%w: %q", ErrWebhookDisabled, name)
	case w.Standing == nil:
		return w, fmt.Errorf("%w: %q", ErrWebhookIdle, name)
	}
	return w, nil
}

// WebhookSkip is what was skipped.
type WebhookSkip struct {
	Skipped []Skipped
	Gone    int // were taken, or buried, in the meantime
	Left    int // accounts of which messages wait that were not named
}

// Skipped is a message that became a dead letter by a person's order.
type Skipped struct {
	Account string
	DeadID  string
}

// SkipWebhook puts messages that wait at an endpoint into the dead letters, with the
// reason and that they were skipped: the first of one account, or of each account. What
// waits behind them is tried at once. A dead letter can be delivered again. It goes by
// what the processes said a second or two ago: a message that was taken since is left
// alone.
//
// Unless the choice says all, more than one is ErrSeveralWait. Other errors are
// ErrNoWebhook, ErrWebhookIdle, ErrNoneWaits, ErrNotNamed, or the ring's; some may have
// been skipped before.
func (r *Reader) SkipWebhook(ctx context.Context, name string, c WebhookChoice) (WebhookSkip, error) {
	var done WebhookSkip
	w, err := r.delivered(ctx, name)
	if err != nil && !errors.Is(err, ErrWebhookDisabled) || err != nil && w.Standing == nil {
		return done, err
	}
	waiting := w.Standing.waitingOf(c.Account)
	switch {
	case len(waiting) == 0 && c.Account != "" && !w.Standing.names():
		return done, fmt.Errorf("%w: %d", ErrNotNamed, w.Standing.Accounts)
	case len(waiting) == 0 && c.Account != "":
		return done, fmt.Errorf("%w: %q", ErrNoneWaits, c.Account)
	case c.Account == "" && !c.All && w.Standing.Accounts > 1:
		return done, fmt.Errorf("%w: %d", ErrSeveralWait, w.Standing.Accounts)
	}
	if c.Account == "" {
		done.Left = max(0, w.Standing.Accounts-len(waiting))
	}
	for _, m := range waiting {
		letter := ""
		if m.Shard >= 0 && m.Shard < r.ring.Shards() {
			why := "skipped by an operator"
			if m.Why != "" {
				why += ": " + m.Why
			}
			if letter, err = group.Of(r.ring).Skip(ctx, m.Shard, WebhookGroup+name, m.Position, m.Account, why); err != nil {
				return done, err
			}
		}
		if letter == "" {
			done.Gone++
			continue
		}
		done.Skipped = append(done.Skipped, Skipped{Account: m.Account, DeadID: fmt.Sprintf("%d:%s", m.Shard, letter)})
	}
	if len(done.Skipped) == 0 {
		return done, nil
	}
	// What waits behind goes on by itself, but later.
	_ = endpoint.Of(r.ring).Tell(ctx, endpoint.Order{Endpoint: name, Action: endpoint.Refresh, Account: c.Account})
	return done, nil
}
