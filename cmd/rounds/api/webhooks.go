package api

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/message"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// Webhook is a webhook endpoint.
type Webhook struct {
	Name     string    `json:"name"`
	Disabled bool      `json:"disabled" doc:"It gets no messages until it is enabled."`
	Since    time.Time `json:"since,omitzero" doc:"Since when it is disabled."`
	Reason   string    `json:"reason,omitempty" doc:"Why it is disabled."`
	Group    *Group    `json:"group,omitempty" doc:"How far it has got; left out if no message was ever delivered to it."`

	Deferred string `json:"deferred,omitempty" doc:"Why a process that delivers to it puts off all its messages, such as a missing secret."`

	Standing *WebhookStanding `json:"standing,omitempty" doc:"Its state, from the reports of the last minute by the processes that deliver to it; left out if there is none."`
}

// WebhookStanding is the state of a webhook endpoint.
type WebhookStanding struct {
	Processes     int       `json:"processes" doc:"Processes that deliver to it."`
	LastStatus    int       `json:"last_status,omitempty" doc:"The status of its last answer; left out if the last attempt had none."`
	LastOutcome   string    `json:"last_outcome,omitempty" doc:"How the last attempt ended: delivered, rejected, failed, unreachable, throttled or disabled."`
	LastError     string    `json:"last_error,omitempty" doc:"Why the last attempt had no answer, such as a refused connection; left out if it had one."`
	LastAttempt   time.Time `json:"last_attempt,omitzero"`
	LastDelivered time.Time `json:"last_delivered,omitzero" doc:"When it last took a message, as far as these processes know."`
	Breaker       string    `json:"breaker" enum:"closed,half-open,open" doc:"The worst state of its breaker in a process."`
	BreakerUntil  time.Time `json:"breaker_until,omitzero" doc:"The process with the worst state sends nothing before this time: its breaker is open, or the endpoint asked for a pause."`

	WaitingAccounts int       `json:"waiting_accounts" doc:"Accounts with a message that waits to be tried again."`
	WaitingMessages int       `json:"waiting_messages" doc:"Waiting messages, including those behind others."`
	Attempt         int       `json:"attempt" doc:"Failed deliveries of the waiting message that failed most often; 0: none has failed."`
	MaxDeliveries   int       `json:"max_deliveries" doc:"The number of failed deliveries after which a message is a dead letter."`
	NextTry         time.Time `json:"next_try,omitzero" doc:"When the first waiting message is tried again."`

	Waiting []WebhookWaiting `json:"waiting,omitempty" doc:"The first message of each account, sorted by the next try; only some if there are many. Only in the reply for one endpoint."`
}

// WebhookWaiting is a message that waits to be tried again.
type WebhookWaiting struct {
	Account  string    `json:"account"`
	Shard    int       `json:"shard"`
	Position string    `json:"position" doc:"Its position in the shard's stream."`
	Attempt  int       `json:"attempt" doc:"How many of its deliveries failed."`
	Behind   int       `json:"behind" doc:"Messages of the account that wait behind it."`
	NextTry  time.Time `json:"next_try"`
	Error    string    `json:"error,omitempty" doc:"The error of the last try."`
}

// WebhookRetryRequest says which messages are tried now.
type WebhookRetryRequest struct {
	_       struct{} `additionalProperties:"false"`
	Account string   `json:"account,omitempty" doc:"Messages of this account; left out: of all accounts."`
}

// WebhookRetried is the result of a retry.
type WebhookRetried struct {
	Processes int `json:"processes" doc:"Processes that deliver to the endpoint, and try within a second or two."`
	Accounts  int `json:"accounts" doc:"Accounts whose messages waited, and are tried now."`
}

// WebhookSkipRequest says which messages are skipped.
type WebhookSkipRequest struct {
	_       struct{} `additionalProperties:"false"`
	Account string   `json:"account,omitempty" doc:"The first message of this account."`
	All     bool     `json:"all,omitempty" doc:"The first message of each account, however many there are."`
}

// WebhookSkipped is the result of a skip.
type WebhookSkipped struct {
	Skipped []SkippedMessage `json:"skipped" nullable:"false" doc:"Messages that are dead letters now."`
	Gone    int              `json:"gone" doc:"The number of messages that were taken, or became dead letters, in the meantime."`
	Left    int              `json:"left" doc:"Further accounts whose messages wait: ask again."`
}

// SkippedMessage is a message that was skipped.
type SkippedMessage struct {
	Account string `json:"account"`
	DeadID  string `json:"dead_id" doc:"The id for replaying it."`
}

// WebhookList is all webhook endpoints.
type WebhookList struct {
	Webhooks []Webhook `json:"webhooks" nullable:"false"`
}

type webhooksReply struct {
	Body WebhookList
}

type webhookReply struct {
	Body Webhook
}

// WebhookName is the endpoint in a path.
type WebhookName struct {
	Name string `path:"name" maxLength:"56" doc:"The endpoint's name."`
}

// webhookOf returns the endpoint in the form of replies, with the waiting messages if
// they are asked for.
func webhookOf(w *message.Webhook, waiting bool) Webhook {
	out := Webhook{Name: w.Name, Deferred: w.Deferred}
	if d := w.Disabled; d != nil {
		out.Disabled, out.Since, out.Reason = true, inUTC(d.Since), d.Reason
	}
	if w.Group != nil {
		g := groupOf(w.Group)
		out.Group = &g
	}
	if w.Standing != nil {
		out.Standing = standingOf(w.Standing, waiting)
	}
	return out
}

func standingOf(s *message.WebhookStanding, waiting bool) *WebhookStanding {
	out := &WebhookStanding{
		Processes: s.Processes, LastStatus: s.LastStatus, LastOutcome: s.LastOutcome, LastError: s.LastError,
		LastAttempt: inUTC(s.LastAttempt), LastDelivered: inUTC(s.LastDelivered), Breaker: s.Breaker, BreakerUntil: inUTC(s.Until),
		WaitingAccounts: s.Accounts, WaitingMessages: s.Messages, Attempt: s.Attempt, MaxDeliveries: s.MaxDeliveries, NextTry: inUTC(s.Next),
	}
	for _, m := range s.Waiting {
		if waiting {
			out.Waiting = append(out.Waiting, WebhookWaiting{
				Account: m.Account, Shard: m.Shard, Position: m.Position, Attempt: m.Failed, Behind: m.Behind, NextTry: inUTC(m.Next), Error: m.Why,
			})
		}
	}
	return out
}

func (s *Server) listWebhooks(ctx context.Context, _ *struct{}) (*webhooksReply, error) {
	webhooks, err := s.messages.Webhooks(ctx)
	if err != nil {
		return nil, s.errorReply(ctx, "list webhooks", err)
	}
	list := WebhookList{Webhooks: make([]Webhook, len(webhooks))}
	for i := range webhooks {
		list.Webhooks[i] = webhookOf(&webhooks[i], false)
	}
	return &webhooksReply{list}, nil
}

func (s *Server) enableWebhook(ctx context.Context, r *WebhookName) (*webhookReply, error) {
	w, err := s.messages.EnableWebhook(ctx, r.Name)
	if err != nil {
		return nil, s.errorReply(ctx, "enable webhook", err)
	}
	return &webhookReply{webhookOf(&w, false)}, nil
}

func (s *Server) getWebhook(ctx context.Context, r *WebhookName) (*webhookReply, error) {
	w, err := s.messages.Webhook(ctx, r.Name)
	if err != nil {
		return nil, s.errorReply(ctx, "get webhook", err)
	}
	return &webhookReply{webhookOf(&w, true)}, nil
}

type webhookInput struct {
	WebhookName
	RawBody []byte `contentType:"application/json"`
}

type webhookRetriedReply struct {
	Body WebhookRetried
}

func (s *Server) retryWebhook(ctx context.Context, r *webhookInput) (*webhookRetriedReply, error) {
	choice, err := message.DecodeWebhookChoice(r.RawBody, false)
	if err != nil {
		return nil, s.errorReply(ctx, "retry webhook", err)
	}
	trail.Of(ctx).Account(choice.Account)
	done, err := s.messages.RetryWebhook(ctx, r.Name, choice.Account)
	if err != nil {
		return nil, s.errorReply(ctx, "retry webhook", err)
	}
	trail.Of(ctx).Count("accounts", done.Accounts)
	return &webhookRetriedReply{WebhookRetried{Processes: done.Processes, Accounts: done.Accounts}}, nil
}

type webhookSkippedReply struct {
	Body WebhookSkipped
}

func (s *Server) skipWebhook(ctx context.Context, r *webhookInput) (*webhookSkippedReply, error) {
	choice, err := message.DecodeWebhookChoice(r.RawBody, true)
	if err != nil {
		return nil, s.errorReply(ctx, "skip webhook", err)
	}
	draft := trail.Of(ctx)
	draft.Account(choice.Account)
	done, err := s.messages.SkipWebhook(ctx, r.Name, choice)
	draft.Count("skipped", len(done.Skipped))
	draft.Count("gone", done.Gone)
	draft.Count("left", done.Left)
	if n := len(done.Skipped); n > 0 {
		s.options.Log.WarnContext(ctx, "messages to a webhook endpoint are skipped, as ordered", "endpoint", r.Name, "messages", n,
			"account", done.Skipped[0].Account, "dead_id", done.Skipped[0].DeadID)
	}
	if err != nil {
		return nil, s.errorReply(ctx, "skip webhook", err)
	}
	reply := WebhookSkipped{Skipped: make([]SkippedMessage, len(done.Skipped)), Gone: done.Gone, Left: done.Left}
	for i, m := range done.Skipped {
		reply.Skipped[i] = SkippedMessage{Account: m.Account, DeadID: m.DeadID}
	}
	return &webhookSkippedReply{reply}, nil
}
