package message

import (
	"context"
	"errors"
	"fmt"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/circulate/group"
)

var (
	// ErrWebhookDisabled reports a webhook endpoint that gets no messages until it is enabled.
	ErrWebhookDisabled = errors.New("message: the webhook endpoint is disabled")
	// ErrWebhookIdle reports a webhook endpoint to which no process delivers.
	ErrWebhookIdle = errors.New("message: no process delivers to the webhook endpoint")
	// ErrNoneWaits reports an account without waiting messages at a webhook endpoint.
	ErrNoneWaits = errors.New("message: no message of the account waits at the webhook endpoint")
	// ErrNotNamed reports an account of which nobody knows whether it has a waiting
	// message: too many messages wait for the processes to name them all.
	ErrNotNamed = errors.New("message: too many messages wait to name them all")
	// ErrSeveralWait reports a skip of several messages that the caller did not ask for.
	ErrSeveralWait = errors.New("message: several messages wait at the webhook endpoint")
)

// WebhookChoice selects waiting messages of a webhook endpoint.
type WebhookChoice struct {
	Account string `strict:"account,given"` // the first message of this account; empty: the first of each account
	All     bool   `strict:"all"`           // allow several messages
}

// DecodeWebhookChoice reads a choice strictly:
//
//	{"account": "ID"} or, with several, {"all": true}
//
// Each field may be left out, and so may the whole text. It returns every fault at once, as
// Faults.
func DecodeWebhookChoice(text []byte, several bool) (WebhookChoice, error) {
	if !several {
		one, faults := webhookOneDecoder.Decode(strict.OrEmpty(text))
		return WebhookChoice{Account: one.Account}, faults.Err()
	}
	c, faults := webhookChoiceDecoder.Decode(strict.OrEmpty(text))
	if c.All && c.Account != "" {
		faults.Add("all", "must not be given together with account")
	}
	return c, faults.Err()
}

var (
	webhookChoiceDecoder = strict.NewDecoder[WebhookChoice]("this choice")
	webhookOneDecoder    = strict.NewDecoder[struct {
		Account string `strict:"account,given"`
	}]("this choice")
)

// WebhookRetry is the result of ordering a retry.
type WebhookRetry struct {
	Processes int // processes that deliver to the endpoint and get the order
	Accounts  int // accounts whose first message is tried now
}

// RetryWebhook orders a retry of an endpoint's waiting messages, of one account or, if account is
// empty, of all. The processes that deliver to the endpoint get the order within a second or two.
// They reset their breakers, end a pause that the endpoint asked for, and try the first message of
// each account. A failed try counts like any other.
//
// The error is ErrNoWebhook, ErrWebhookDisabled, ErrWebhookIdle or ErrNoneWaits, or the
// ring's.
func (r *Reader) RetryWebhook(ctx context.Context, name, account string) (WebhookRetry, error) {
	w, err := r.delivered(ctx, name)
	if err != nil {
		return WebhookRetry{}, err
	}
	waiting := w.Standing.waitingOf(account)
	if account != "" && len(waiting) == 0 && w.Standing.namesAll() {
		return WebhookRetry{}, fmt.Errorf("%w: %q", ErrNoneWaits, account)
	}
	retry := WebhookRetry{Processes: w.Standing.Processes, Accounts: len(waiting)}
	if account == "" {
		retry.Accounts = w.Standing.Accounts
	}
	return retry, document.Of(r.ring).Endpoints().Tell(ctx, document.Order{Endpoint: name, Action: document.Retry, Account: account})
}

// delivered returns an endpoint to which processes deliver.
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

// WebhookSkip is the result of a skip.
type WebhookSkip struct {
	Skipped []Skipped
	Gone    int // messages that were delivered, or became dead letters, in the meantime
	Left    int // accounts whose waiting messages the processes did not name
}

// Skipped is a message that became a dead letter because an operator skipped it.
type Skipped struct {
	Account string
	DeadID  string
}

// SkipWebhook turns waiting messages of an endpoint into dead letters: the first message of one
// account, or of each account. Their error says that they were skipped, and why they waited. The
// messages behind them are tried at once. A dead letter can be replayed. SkipWebhook relies on what
// the processes reported a second or two ago. It does not touch messages that were delivered since.
//
// It returns ErrSeveralWait for more than one message unless the choice has All. Other errors are
// ErrNoWebhook, ErrWebhookIdle, ErrNoneWaits, ErrNotNamed, or the ring's. Some messages may have
// been skipped before an error.
func (r *Reader) SkipWebhook(ctx context.Context, name string, c WebhookChoice) (WebhookSkip, error) {
	var done WebhookSkip
	w, err := r.delivered(ctx, name)
	if err != nil && (w.Standing == nil || !errors.Is(err, ErrWebhookDisabled)) {
		return done, err
	}
	waiting := w.Standing.waitingOf(c.Account)
	switch {
	case len(waiting) == 0 && c.Account != "" && !w.Standing.namesAll():
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
	// Without this order the messages behind also go on, but later.
	_ = document.Of(r.ring).Endpoints().Tell(ctx, document.Order{Endpoint: name, Action: document.Refresh, Account: c.Account})
	return done, nil
}
