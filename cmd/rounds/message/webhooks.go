package message

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/circulate/group"
)

// WebhookGroup is the prefix that turns an endpoint's name into the name of its consumer group.
const WebhookGroup = "webhook."

// ErrNoWebhook reports a webhook endpoint that the ring does not know.
var ErrNoWebhook = errors.New("message: no such webhook endpoint")

// Webhook is a webhook endpoint that the ring knows, because it is stored, has a consumer group, is
// disabled, or a process delivers to it.
type Webhook struct {
	Name     string
	Disabled *circulate.DisabledEndpoint // nil: it is not disabled
	Group    *Group                      // nil: it has none
	Standing *WebhookStanding            // nil: no process delivers to it
	Deferred string                      // why a process puts off all its messages, such as a missing secret; empty: none does

	Stored   *endpoint.Endpoint // it was added while the service runs; nil: it was not
	Declared bool               // a process that delivers to it has it from its file
}

// Webhooks returns the webhook endpoints, sorted by name. A stored endpoint is listed at once, and a
// declared one once a process has delivered to it. Either stays until its group is removed and it is
// enabled.
func (r *Reader) Webhooks(ctx context.Context) ([]Webhook, error) {
	groups, err := r.groupsOf(ctx, func(group string) bool { return strings.HasPrefix(group, WebhookGroup) })
	if err != nil {
		return nil, err
	}
	disabled, err := r.ring.Endpoints().All(ctx)
	if err != nil {
		return nil, err
	}
	reports, _, err := document.Of(r.ring).Endpoints().Reports(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := endpoint.Of(r.ring).All(ctx)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*Webhook)
	of := func(name string) *Webhook {
		if byName[name] == nil {
			byName[name] = &Webhook{Name: name}
		}
		return byName[name]
	}
	for i := range groups {
		if name, ok := strings.CutPrefix(groups[i].Name, WebhookGroup); ok {
			of(name).Group = &groups[i]
			if of(name).Deferred, err = r.deferredBy(ctx, &groups[i]); err != nil {
				return nil, err
			}
		}
	}
	for i := range disabled {
		of(disabled[i].Name).Disabled = &disabled[i]
	}
	for name, said := range reports {
		of(name).Standing, of(name).Declared = standingOf(said), declared(said)
	}
	for i := range stored {
		of(stored[i].Name).Stored = &stored[i]
	}
	all := make([]Webhook, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, *byName[name])
	}
	return all, nil
}

// Attempts returns the latest attempts at a webhook endpoint, as processes reported them: failures
// before others, and the latest first. It returns ErrNoWebhook for an endpoint that is not known.
func (r *Reader) Attempts(ctx context.Context, name string) ([]Attempt, error) {
	if _, err := r.Webhook(ctx, name); err != nil {
		return nil, err
	}
	all, err := document.Of(r.ring).Endpoints().Attempts(ctx, name)
	slices.SortStableFunc(all, func(a, b document.Attempt) int { return b.At.Compare(a.At) })
	slices.SortStableFunc(all, failuresFirst)
	return all[:min(len(all), MostAttempts)], err
}

// Attempt is one call of a webhook endpoint.
type Attempt = document.Attempt

// MostAttempts is the most attempts that Attempts returns.
const MostAttempts = 20

func failuresFirst(a, b Attempt) int {
	delivered := func(a Attempt) int {
		if a.Outcome == "delivered" {
			return 1
		}
		return 0
	}
	return delivered(a) - delivered(b)
}

// Webhook returns a webhook endpoint, or ErrNoWebhook.
func (r *Reader) Webhook(ctx context.Context, name string) (Webhook, error) {
	w := Webhook{Name: name}
	g, err := r.Group(ctx, WebhookGroup+name)
	if err == nil {
		w.Group = &g
		w.Deferred, err = r.deferredBy(ctx, &g)
	}
	if err != nil && !errors.Is(err, ErrNoGroup) {
		return w, err
	}
	d, disabled, err := r.ring.Endpoints().Disabled(ctx, name)
	if err != nil {
		return w, err
	}
	if disabled {
		w.Disabled = &d
	}
	reports, _, err := document.Of(r.ring).Endpoints().Reports(ctx)
	if err != nil {
		return w, err
	}
	w.Standing, w.Declared = standingOf(reports[name]), declared(reports[name])
	if stored, err := endpoint.Of(r.ring).Get(ctx, name); err == nil {
		w.Stored = &stored
	} else if !errors.Is(err, endpoint.ErrNone) {
		return w, err
	}
	if w.Group == nil && w.Disabled == nil && w.Standing == nil && w.Stored == nil {
		return w, fmt.Errorf("%w: %q", ErrNoWebhook, name)
	}
	return w, nil
}

// declared reports whether a process has an endpoint from its file. One of a version without stored
// endpoints has no others.
func declared(reports []document.Report) bool {
	return slices.ContainsFunc(reports, func(r document.Report) bool { return r.Revision == 0 })
}

// deferredBy returns why a living consumer of a group puts off all its messages.
func (r *Reader) deferredBy(ctx context.Context, g *Group) (why string, err error) {
	if len(g.Consumers) == 0 {
		return "", nil
	}
	conditions, err := group.Of(r.ring).Conditions(ctx, g.Name)
	for _, c := range g.Consumers {
		why = cmp.Or(why, conditions[c.Name].Deferred)
	}
	return why, err
}

// EnableWebhook enables a disabled endpoint, which gets messages again from where it stopped.
// All processes know within a second or two. An enabled endpoint stays as it is.
// EnableWebhook returns ErrNoWebhook for an endpoint that the ring does not know.
func (r *Reader) EnableWebhook(ctx context.Context, name string) (Webhook, error) {
	enabled, err := r.ring.Endpoints().Enable(ctx, name)
	if err != nil {
		return Webhook{}, err
	}
	if enabled {
		// A process that misses the order finds out within 15 s.
		_ = document.Of(r.ring).Endpoints().Tell(ctx, document.Order{Endpoint: name, Action: document.Refresh})
	}
	w, err := r.Webhook(ctx, name)
	if errors.Is(err, ErrNoWebhook) && enabled {
		return w, nil
	}
	return w, err
}
