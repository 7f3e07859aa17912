package concern

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

const (
	// groupsAsked is about how many groups Collect asks Redis itself at most.
	groupsAsked = 8
	// consumersWithin is for how long a silent consumer counts as alive.
	consumersWithin = time.Minute
)

// GroupOf returns how far a group has read in all shards.
func GroupOf(name string, sum circulate.GroupState) Group {
	oldest := max(sum.OldestUnread, sum.OldestPending)
	g := Group{Name: name, Messages: sum.Lag + sum.Pending, Oldest: oldest.Seconds()}
	if oldest > 0 {
		g.Arrived = sum.Now.Add(-oldest).UTC()
	}
	return g
}

// Ask asks the consumers of groups why messages wait, whatever their number at once.
func Ask(ctx context.Context, ring *circulate.Ring, all []*Group) error {
	if len(all) == 0 {
		return nil
	}
	names := make([]string, len(all))
	for i, g := range all {
		names[i] = g.Name
	}
	present, err := group.Of(ring).PresentIn(ctx, names, consumersWithin)
	if err != nil {
		return err
	}
	now := time.Now()
	back := now.Sub(ring.LastOutage(now).Till) < consumersWithin // consumers may not have reported themselves again
	for _, g := range all {
		g.Alone = g.Lags() && len(present[g.Name]) == 0 && !back
		for _, consumer := range present[g.Name] {
			g.Deferred = cmp.Or(g.Deferred, consumer.Deferred)
		}
	}
	return nil
}

// lookAgain looks at those groups that a concern would name, which may have read everything
// since a monitor looked, may be gone, or may lag by now. The others are as they were told.
func (f *facts) lookAgain(ctx context.Context, ring *circulate.Ring) error {
	told := f.watched.Groups
	if told == nil {
		return nil
	}
	named := f.named()
	if len(named) == 0 {
		return nil
	}
	states, err := group.Of(ring).States(ctx, func(name string) bool { return slices.Contains(named, name) })
	if err != nil {
		return fmt.Errorf("concerns: %w", err)
	}
	sums := group.Sum(states)
	var fresh []*Group
	told.All = slices.DeleteFunc(slices.Clone(told.All), func(was Group) bool {
		if !slices.Contains(named, was.Name) {
			return false
		}
		if sum, there := sums[was.Name]; there {
			g := GroupOf(was.Name, sum)
			g.lagsSince(&was, told.At)
			g.Seen, g.current = was.Seen, true
			g.Near = was.Near && (g.Lags() || g.Messages >= was.Messages)
			fresh = append(fresh, &g)
		}
		return true
	})
	if err := Ask(ctx, ring, fresh); err != nil {
		return fmt.Errorf("concerns: %w", err)
	}
	for _, g := range fresh {
		told.All = append(told.All, *g)
	}
	return nil
}

// named returns the groups that a concern would name if nothing had been read since a monitor
// looked, those that wait longest first.
func (f *facts) named() []string {
	since := f.now.Sub(f.watched.Groups.At)
	var all []Group
	for _, g := range f.watched.Groups.All {
		late := g
		late.Oldest += since.Seconds()
		endpoint, ofWebhook := strings.CutPrefix(g.Name, webhookGroup)
		if g.Messages > 0 && (g.Near || late.Lags() || ofWebhook && f.troubled(endpoint)) {
			all = append(all, g)
		}
	}
	slices.SortStableFunc(all, func(a, b Group) int { return cmp.Compare(b.Oldest, a.Oldest) })
	names := make([]string, min(len(all), groupsAsked))
	for i := range names {
		names[i] = all[i].Name
	}
	return names
}

// troubled reports whether an endpoint is disabled or refuses messages, or no process delivers
// to it.
func (f *facts) troubled(endpoint string) bool {
	if slices.ContainsFunc(f.disabled, func(d circulate.DisabledEndpoint) bool { return d.Name == endpoint }) || len(f.reports[endpoint]) == 0 {
		return true
	}
	_, refuses := f.refused(endpoint, f.reports[endpoint])
	return refuses
}
