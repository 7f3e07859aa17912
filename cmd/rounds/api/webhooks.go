package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/access"
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

	Source   string          `json:"source,omitempty" enum:"file,stored" doc:"file: the file ROUNDS_WEBHOOKS_FILE of a process declares it, and only the file changes it. stored: it was added while the service runs. Left out: no process delivers to it, and it is not stored."`
	Shadowed bool            `json:"shadowed,omitempty" doc:"It is stored too, which counts for nothing while a file declares it."`
	Revision int64           `json:"revision,omitempty" doc:"Of a stored endpoint, for If-Match; it differs after each change."`
	StoredAt time.Time       `json:"stored_at,omitzero" doc:"When it was stored last."`
	StoredBy string          `json:"stored_by,omitempty" doc:"The name of the key or person that stored it last."`
	Fields   json.RawMessage `json:"fields,omitempty" doc:"The fields of a stored endpoint, only in the reply for one endpoint. Callers who may not change it see of its URL only the host, and none of its headers and secrets."`

	Deferred string `json:"deferred,omitempty" doc:"Why a process that delivers to it puts off all its messages, such as a missing secret."`

	Standing *WebhookStanding `json:"standing,omitempty" doc:"Its state, from the reports of the last minute by the processes that deliver to it; left out if there is none."`
}

// WebhookStanding is the state of a webhook endpoint.
type WebhookStanding struct {
	Processes     int       `json:"processes" doc:"Processes that deliver to it."`
	LastStatus    int       `json:"last_status,omitempty" doc:"The status of its last answer; left out if the last attempt had none."`
	LastOutcome   string    `json:"last_outcome,omitempty" doc:"How the last attempt ended: delivered, rejected, failed, unreachable, throttled or disabled; unready: the process cannot deliver to it, and last_error says why."`
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

// WebhookAttempt is a call of a webhook endpoint.
type WebhookAttempt struct {
	Time    time.Time `json:"time" doc:"When it ended."`
	Took    float64   `json:"seconds" doc:"How long it took."`
	Account string    `json:"account,omitempty" doc:"The account of the message."`
	Address string    `json:"address,omitempty" doc:"The address and port that were connected, of a proxy if there is one; left out: none was."`
	Status  int       `json:"status,omitempty" doc:"Of the answer; left out: there was none."`
	Outcome string    `json:"outcome" doc:"delivered, rejected, failed, unreachable, throttled or disabled."`
	Error   string    `json:"error,omitempty" doc:"What went wrong."`
	Answer  string    `json:"answer,omitempty" doc:"The first KiB of the answer's body, less if there are many endpoints: a stranger's text. *** stands for the endpoint's secrets and what is behind the host in its URL."`
}

// WebhookAttempts are the latest attempts at a webhook endpoint.
type WebhookAttempts struct {
	Attempts []WebhookAttempt `json:"attempts" nullable:"false" doc:"At most 20: failures before others, and the latest first."`
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

// WebhookName is the endpoint in a path.
type WebhookName struct {
	Name string `path:"name" maxLength:"56" doc:"The endpoint's name."`
}

// webhookRoutes adds the routes of webhook endpoints.
func (s *Server) webhookRoutes(api huma.API) {
	answer(s, api, "list webhooks", huma.Operation{
		OperationID: "list-webhooks", Method: http.MethodGet, Path: "/v1/webhooks", Tags: []string{"delivery"},
		Summary: "List webhook endpoints", Description: "Endpoints that were added, those that messages were delivered to, and disabled ones: how far each has got, its last answer, and its waiting messages.", Errors: []int{401, 503},
	}, s.listWebhooks)
	answer(s, api, "get webhook", huma.Operation{
		OperationID: "get-webhook", Method: http.MethodGet, Path: "/v1/webhooks/{name}", Tags: []string{"delivery"},
		Summary: "Get a webhook endpoint", Description: "With the messages that wait to be tried again, the first of each account.", Errors: []int{401, 404, 503},
	}, s.getWebhook)
	answer(s, api, "list webhook's attempts", huma.Operation{
		OperationID: "list-webhook-attempts", Method: http.MethodGet, Path: "/v1/webhooks/{name}/attempts", Tags: []string{"delivery"},
		Summary: "The latest attempts at a webhook endpoint", Description: "The processes that deliver to it report them within ten seconds, and remember 20 each, of which five at least may be successes. Those of a process that has ended are gone after about ten minutes.", Errors: []int{401, 404, 503},
	}, s.listAttempts)
	answer(s, api, "retry webhook", takesBody(huma.Operation{
		OperationID: "retry-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/retry", Tags: []string{"delivery"},
		Summary: "Retry the waiting messages of a webhook endpoint now",
		Description: "All processes that deliver to it do so within a second or two, even if its breaker is open or it asked for a pause. " +
			"Messages of an account keep their order, and a failed try counts like any other. 409 if the endpoint is disabled, or no process delivers to it. The body may be left out.",
		Errors: []int{400, 401, 404, 409, 413, 422, 503},
	}), s.retryWebhook)
	answer(s, api, "skip webhook", takesBody(huma.Operation{
		OperationID: "skip-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/skip", Tags: []string{"delivery"},
		Summary: "Skip waiting messages of a webhook endpoint",
		Description: "The first waiting message of an account, or of each account, becomes a dead letter, and its next one is tried. Nothing is lost: replay-dead delivers it again. " +
			"409 for several messages unless the body has all. A message that is being sent at that moment may still arrive.",
		Errors: []int{400, 401, 404, 409, 413, 422, 503},
	}), s.skipWebhook)
	answer(s, api, "enable webhook", huma.Operation{
		OperationID: "enable-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/enable", Tags: []string{"delivery"},
		Summary: "Deliver to a disabled webhook endpoint again", Description: "From where it stopped, within a second or two. An enabled endpoint stays as it is.",
		Errors: []int{401, 404, 503},
	}, s.enableWebhook)
	s.webhookStoreRoutes(api)
}

// webhookFor is webhookOf with what the caller may see of a stored endpoint's fields.
func (s *Server) webhookFor(ctx context.Context, w *message.Webhook, whole bool) Webhook {
	out := webhookOf(w, whole)
	if w.Stored != nil {
		caller, _ := access.From(ctx)
		storedOf(&out, w.Stored, caller.May(access.Admin) && !caller.Bound())
	}
	if !whole {
		out.Fields = nil
	}
	return out
}

// webhookOf returns the endpoint in the form of replies, with the waiting messages if
// they are asked for.
func webhookOf(w *message.Webhook, waiting bool) Webhook {
	out := Webhook{Name: w.Name, Deferred: w.Deferred}
	switch {
	case w.Declared:
		out.Source, out.Shadowed = "file", w.Stored != nil
	case w.Stored != nil:
		out.Source = "stored"
	}
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

func (s *Server) listWebhooks(ctx context.Context, _ *struct{}) (WebhookList, error) {
	webhooks, err := s.messages.Webhooks(ctx)
	return WebhookList{each(webhooks, func(w *message.Webhook) Webhook { return s.webhookFor(ctx, w, false) })}, err
}

func (s *Server) enableWebhook(ctx context.Context, r *WebhookName) (Webhook, error) {
	w, err := s.messages.EnableWebhook(ctx, r.Name)
	return s.webhookFor(ctx, &w, false), err
}

func (s *Server) getWebhook(ctx context.Context, r *WebhookName) (Webhook, error) {
	w, err := s.messages.Webhook(ctx, r.Name)
	return s.webhookFor(ctx, &w, true), err
}

func (s *Server) listAttempts(ctx context.Context, r *WebhookName) (WebhookAttempts, error) {
	all, err := s.messages.Attempts(ctx, r.Name)
	return WebhookAttempts{each(all, func(a *message.Attempt) WebhookAttempt {
		return WebhookAttempt{
			Time: inUTC(a.At), Took: a.Took.Seconds(), Account: a.Account, Address: a.Address, Status: a.Status, Outcome: a.Outcome, Error: a.Why, Answer: a.Answer,
		}
	})}, err
}

type webhookInput struct {
	WebhookName
	RawBody []byte `contentType:"application/json"`
}

func (s *Server) retryWebhook(ctx context.Context, r *webhookInput) (WebhookRetried, error) {
	choice, err := message.DecodeWebhookChoice(r.RawBody, false)
	if err != nil {
		return WebhookRetried{}, err
	}
	trail.Of(ctx).Account(choice.Account)
	done, err := s.messages.RetryWebhook(ctx, r.Name, choice.Account)
	if err == nil {
		trail.Of(ctx).Count("accounts", done.Accounts)
	}
	return WebhookRetried{Processes: done.Processes, Accounts: done.Accounts}, err
}

func (s *Server) skipWebhook(ctx context.Context, r *webhookInput) (WebhookSkipped, error) {
	choice, err := message.DecodeWebhookChoice(r.RawBody, true)
	if err != nil {
		return WebhookSkipped{}, err
	}
	draft := trail.Of(ctx)
	draft.Account(choice.Account)
	done, err := s.messages.SkipWebhook(ctx, r.Name, choice)
	draft.Counts(map[string]int{"skipped": len(done.Skipped), "gone": done.Gone, "left": done.Left})
	if n := len(done.Skipped); n > 0 {
		s.options.Log.WarnContext(ctx, "messages to a webhook endpoint are skipped, as ordered", "endpoint", r.Name, "messages", n,
			"account", done.Skipped[0].Account, "dead_id", done.Skipped[0].DeadID)
	}
	skipped := func(m *message.Skipped) SkippedMessage { return SkippedMessage{Account: m.Account, DeadID: m.DeadID} }
	return WebhookSkipped{Skipped: each(done.Skipped, skipped), Gone: done.Gone, Left: done.Left}, err
}
