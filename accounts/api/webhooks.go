package api

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/accounts/message"
)

// Webhook is a webhook endpoint.
type Webhook struct {
	Name     string    `json:"name"`
	Disabled bool      `json:"disabled" doc:"It gets nothing until it is enabled."`
	Since    time.Time `json:"since,omitzero" doc:"Since when it is disabled."`
	Reason   string    `json:"reason,omitempty" doc:"Why it is disabled."`
	Group    *Group    `json:"group,omitempty" doc:"How far it has got; left out where nothing was ever delivered to it."`
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

// webhookName is the endpoint in a path.
type webhookName struct {
	Name string `path:"name" maxLength:"56" doc:"The endpoint's name."`
}

func webhookOf(w *message.Webhook) Webhook {
	out := Webhook{Name: w.Name}
	if d := w.Disabled; d != nil {
		out.Disabled, out.Since, out.Reason = true, inUTC(d.Since), d.Reason
	}
	if w.Group != nil {
		g := groupOf(w.Group)
		out.Group = &g
	}
	return out
}

func (s *Server) listWebhooks(ctx context.Context, _ *struct{}) (*webhooksReply, error) {
	webhooks, err := s.messages.Webhooks(ctx)
	if err != nil {
		return nil, s.problem(ctx, "list webhooks", err)
	}
	list := WebhookList{Webhooks: make([]Webhook, len(webhooks))}
	for i := range webhooks {
		list.Webhooks[i] = webhookOf(&webhooks[i])
	}
	return &webhooksReply{list}, nil
}

func (s *Server) enableWebhook(ctx context.Context, r *webhookName) (*webhookReply, error) {
	w, err := s.messages.EnableWebhook(ctx, r.Name)
	if err != nil {
		return nil, s.problem(ctx, "enable webhook", err)
	}
	return &webhookReply{webhookOf(&w)}, nil
}
