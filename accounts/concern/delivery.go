package concern

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// ofWebhooks returns the concerns about endpoints that get no messages, or accept none.
func (f *facts) ofWebhooks() (all []Concern) {
	disabled := make(map[string]bool)
	for _, d := range f.disabled {
		disabled[d.Name] = true
		c := Concern{Code: WebhookDisabled, Level: Bad, Subject: d.Name, Since: d.Since, Value: d.Reason}
		if g := f.groupOf(d.Name); g != nil {
			c.Messages, c.Seconds, c.AsOf = g.Messages, g.Oldest, f.asOf(g)
		}
		all = append(all, c)
	}
	for _, name := range slices.Sorted(maps.Keys(f.reports)) {
		if disabled[name] {
			continue
		}
		if c, refuses := f.refused(name, f.reports[name]); refuses {
			if g := f.groupOf(name); g != nil {
				if c.Since.IsZero() {
					c.Since = g.Arrived
				}
				c.Since = latest(c.Since, g.Seen)
				if !attempted(f.reports[name]) { // such as for want of a secret
					c.Value = g.Deferred
				}
				if g.Messages > c.Messages || g.Oldest > c.Seconds {
					c.AsOf = f.asOf(g)
				}
				c.Messages, c.Seconds = max(c.Messages, g.Messages), max(c.Seconds, g.Oldest)
			}
			all = append(all, c)
		}
	}
	all = append(all, f.ofWebhookKinds()...)
	delivers, since := f.has(roleDelivery)
	if f.webhooks && !delivers && !f.starts() && !f.returned() {
		all = append(all, Concern{Code: NoDeliveryRole, Level: Warn})
	}
	since = latest(since, f.stats.Outage.Till)
	starting := !since.IsZero() && f.stats.Now.Sub(since) < startingWithin
	for _, g := range f.groups() {
		name, ok := strings.CutPrefix(g.Name, webhookGroup)
		if ok && g.Messages > 0 && len(f.reports[name]) == 0 && !disabled[name] && !starting {
			since := latest(g.Arrived, latest(g.Seen, f.lastHeard(roleDelivery)))
			all = append(all, Concern{Code: NoDelivery, Level: Bad, Subject: name, Messages: g.Messages, Seconds: g.Oldest, Since: since, AsOf: f.asOf(&g)})
		}
	}
	return all
}

// ofWebhookKinds returns the endpoints that wait for a kind that no living replica checks.
func (f *facts) ofWebhookKinds() (all []Concern) {
	checked := f.kinds()
	if len(checked) == 0 {
		return nil // that no replica is alive is a concern of its own
	}
	for _, name := range slices.Sorted(maps.Keys(f.reports)) {
		var unchecked []string
		for _, r := range f.reports[name] {
			for _, kind := range r.Kinds {
				if !checked[kind] && !slices.Contains(unchecked, kind) {
					unchecked = append(unchecked, kind)
				}
			}
		}
		if len(unchecked) > 0 {
			slices.Sort(unchecked)
			all = append(all, Concern{Code: WebhookKind, Level: Warn, Subject: name, Value: strings.Join(unchecked, ", ")})
		}
	}
	return all
}

// starts reports whether all processes began so short a while ago that one which began with them
// may not have reported itself.
func (f *facts) starts() bool {
	return !slices.ContainsFunc(f.stats.Processes, func(p accounts.Process) bool {
		return f.alive(p.Beat) && f.stats.Now.Sub(p.Report.Since) >= f.deadAfter
	})
}

// refused returns the concern about an endpoint whose messages wait because it has not
// accepted some.
func (f *facts) refused(name string, reports []document.Report) (Concern, bool) {
	c := Concern{Code: WebhookRefused, Level: Warn, Subject: name}
	var last time.Time
	for _, r := range reports {
		c.Messages += r.Messages
		for _, w := range r.Waiting {
			age := circulate.PositionAge(f.now, w.Position)
			if came := f.now.Add(-age); age > 0 && (c.Since.IsZero() || came.Before(c.Since)) {
				c.Since = came
			}
			c.Seconds = max(c.Seconds, age.Seconds())
		}
		if r.Outcome != "" && !r.At.Before(last) {
			last, c.Value = r.At, cmp.Or(r.Why, r.Outcome)
			switch {
			case !r.Delivered.Before(r.At): // the endpoint accepts others
				c.Value = ""
			case r.Status > 0:
				c.Value = strconv.Itoa(r.Status)
			}
		}
		if r.Breaker == "open" {
			c.Level = Bad
		}
	}
	return c, c.Messages > 0
}

// attempted reports whether a process has tried to deliver to an endpoint.
func attempted(reports []document.Report) bool {
	return slices.ContainsFunc(reports, func(r document.Report) bool { return r.Outcome != "" })
}

// ofGroups returns the concerns about groups that fall behind, except groups of endpoints
// with a concern of their own.
func (f *facts) ofGroups() (all []Concern) {
	told, causes := make(map[string]bool), make(map[string]bool)
	for _, c := range f.ofWebhooks() {
		if c.Code != WebhookKind {
			told[webhookGroup+c.Subject] = true
		}
	}
	for _, g := range f.groups() {
		level := Warn
		if g.Near {
			level = Bad
		}
		if g.Near || g.Lags() && !told[g.Name] {
			c := Concern{Code: GroupLagging, Level: level, Subject: g.Name, Messages: g.Messages, Seconds: g.Oldest, Value: g.Deferred, Since: g.Since, AsOf: f.asOf(&g)}
			if c.Since.IsZero() && g.Lags() { // a monitor of an earlier version told it
				c.Since = g.Arrived.Add(laggingFrom)
			}
			if g.Alone {
				c.Value = NoConsumer
			}
			if len(causes) == causesTold && !causes[c.Value] {
				c.Value = ""
			}
			causes[c.Value] = true
			all = append(all, c)
		}
	}
	return all
}

// causesTold is how many causes of lagging groups are listed separately.
const causesTold = 10

// NoConsumer is the value of the concern about a group that lags while none of its consumers is
// alive.
const NoConsumer = "no_consumer"

// Lags reports whether a group falls behind.
func (g *Group) Lags() bool { return g.Messages > 0 && g.Oldest >= laggingFrom.Seconds() }

// asOf returns when a group was found as it is; the zero time: just now.
func (f *facts) asOf(g *Group) time.Time {
	if g.current {
		return time.Time{}
	}
	return f.watched.Groups.At
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (f *facts) groups() []Group {
	if f.watched.Groups == nil {
		return nil
	}
	return f.watched.Groups.All
}

func (f *facts) groupOf(endpoint string) *Group {
	for _, g := range f.groups() {
		if g.Name == webhookGroup+endpoint {
			return &g
		}
	}
	return nil
}
