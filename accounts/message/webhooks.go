package message

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

// WebhookGroup is what the consumer group of a webhook endpoint has before the
// endpoint's name.
const WebhookGroup = "webhook."

// ErrNoWebhook reports a webhook endpoint that the ring has never heard of.
var ErrNoWebhook = errors.New("message: no such webhook endpoint")

// Webhook is a webhook endpoint, as far as the ring knows of it: by its consumer
// group, or because it is disabled.
type Webhook struct {
	Name     string
	Disabled *circulate.DisabledEndpoint // nil: it is not
	Group    *Group                      // nil: it has none
}

// Webhooks returns the webhook endpoints, by name. One that was never begun with is
// not among them; one that nobody delivers to any more stays until its group is
// removed and it is enabled.
func (r *Reader) Webhooks(ctx context.Context) ([]Webhook, error) {
	groups, err := r.Groups(ctx)
	if err != nil {
		return nil, err
	}
	disabled, err := r.ring.Endpoints().All(ctx)
	if err != nil {
		return nil, err
	}
	var all []Webhook
	for i := range groups {
		if name, ok := strings.CutPrefix(groups[i].Name, WebhookGroup); ok {
			all = append(all, Webhook{Name: name, Group: &groups[i]})
		}
	}
	for i := range disabled {
		at := slices.IndexFunc(all, func(w Webhook) bool { return w.Name == disabled[i].Name })
		if at < 0 {
			at = len(all)
			all = append(all, Webhook{Name: disabled[i].Name})
		}
		all[at].Disabled = &disabled[i]
	}
	slices.SortFunc(all, func(a, b Webhook) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// EnableWebhook lets a disabled endpoint have messages again, from where it
// stopped. One that is enabled is left alone. It returns ErrNoWebhook for one that
// the ring has never heard of.
func (r *Reader) EnableWebhook(ctx context.Context, name string) (Webhook, error) {
	enabled, err := r.ring.Endpoints().Enable(ctx, name)
	if err != nil {
		return Webhook{}, err
	}
	g, err := r.Group(ctx, WebhookGroup+name)
	if errors.Is(err, ErrNoGroup) {
		if !enabled {
			return Webhook{}, fmt.Errorf("%w: %q", ErrNoWebhook, name)
		}
		return Webhook{Name: name}, nil
	}
	return Webhook{Name: name, Group: &g}, err
}
