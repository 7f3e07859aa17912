package monitor

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// nearRetention is the part of the retention, or of the allowed number of messages, at
// which a group that has not dealt with them causes a warning.
const nearRetention = 0.8

// groupMetrics are metrics of consumer groups. The operators of the consumers name the
// groups, so there are few names.
type groupMetrics struct {
	lag, unread, pending, unsettled, near *prometheus.GaugeVec
}

func newGroupMetrics(gauges func(name, help string, labels ...string) *prometheus.GaugeVec) groupMetrics {
	return groupMetrics{
		lag:       gauges("group_lag", "Messages that a consumer group has not read.", "group"),
		unread:    gauges("group_oldest_unread_seconds", "How long the oldest message that a consumer group has not read has waited.", "group"),
		pending:   gauges("group_pending", "Messages that a consumer group has read and not acknowledged.", "group"),
		unsettled: gauges("group_oldest_pending_seconds", "Age of the oldest message that a consumer group has read and not acknowledged.", "group"),
		near: gauges("group_near_retention", "1 if a consumer group has not dealt with messages that are past 80 % of their retention, "+
			"or with 80 % of the number that may stay: it will soon hold the streams back.", "group"),
	}
}

func (g *groupMetrics) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{g.lag, g.unread, g.pending, g.unsettled, g.near}
}

func (g *groupMetrics) set(group string, s circulate.GroupState, near bool) {
	g.lag.WithLabelValues(group).Set(float64(s.Lag))
	g.unread.WithLabelValues(group).Set(s.OldestUnread.Seconds())
	g.pending.WithLabelValues(group).Set(float64(s.Pending))
	g.unsettled.WithLabelValues(group).Set(s.OldestPending.Seconds())
	value := 0.0
	if near {
		value = 1
	}
	g.near.WithLabelValues(group).Set(value)
}

// forget drops the metrics of a group, or of all.
func (g *groupMetrics) forget(groups ...string) {
	for _, vec := range g.all() {
		if len(groups) == 0 {
			vec.Reset()
		}
		for _, group := range groups {
			vec.DeleteLabelValues(group)
		}
	}
}

// groupWatch measures how far consumer groups have read.
type groupWatch struct {
	*Monitor
	near map[string]bool // by group, as of the last look
}

const (
	// groupsEvery is the time between two looks at consumer groups. A group that lags shows soon
	// after it does. Many groups are looked at less often: groupsRest times as long as a look
	// takes is left to others, up to Config.CountInterval.
	groupsEvery = 10 * time.Second
	groupsRest  = 20
)

// lookAtGroups looks at consumer groups again and again while this monitor is on duty.
func (m *Monitor) lookAtGroups(ctx context.Context) {
	watch := groupWatch{m, make(map[string]bool)}
	for m.duty.await(ctx) {
		began := time.Now()
		turn(ctx, m.log, "look at consumer groups", watch.look)
		took := time.Since(began)
		rest(ctx, max(dutyRest, min(m.config.CountInterval, max(groupsEvery, groupsRest*took))-took))
	}
}

// look shows how far each group has read, and warns of a group before it holds messages
// back.
func (w *groupWatch) look(ctx context.Context) error {
	shards, err := group.Of(w.ring).States(ctx, nil)
	if err != nil {
		return err
	}
	if err := w.recall(ctx); err != nil {
		return err
	}
	now, err := w.ring.Now(ctx, 0)
	if err != nil {
		return err
	}
	sums := group.Sum(shards)
	groups := slices.Sorted(maps.Keys(sums))
	for group := range w.near {
		if !slices.Contains(groups, group) {
			delete(w.near, group)
			w.metrics.groups.forget(group)
		}
	}
	watched := make([]concern.Group, 0, len(groups))
	for _, group := range groups {
		if !w.duty.held() {
			return nil
		}
		sum := sums[group]
		near := w.config.near(sum)
		w.metrics.groups.set(group, sum, near)
		w.tell(group, sum, near)
		g := concern.GroupOf(group, sum)
		g.Near = near
		watched = append(watched, g)
	}
	var lag []*concern.Group
	for i := range watched {
		if watched[i].Lags() {
			lag = append(lag, &watched[i])
		}
	}
	if err := concern.Ask(ctx, w.ring, lag); err != nil {
		return err
	}
	w.watch.grouped(watched, now)
	return nil
}

// near reports whether a group will soon hold messages back.
func (c Config) near(s circulate.GroupState) bool {
	oldest := max(s.OldestUnread, s.OldestPending)
	return c.Retention > 0 && float64(oldest) >= nearRetention*float64(c.Retention) ||
		c.Kept > 0 && float64(s.Lag+s.Pending) >= nearRetention*float64(c.Kept)
}

// tell logs a change once.
func (w *groupWatch) tell(group string, s circulate.GroupState, near bool) {
	was := w.near[group]
	w.near[group] = near
	switch {
	case near && !was:
		w.log.Warn("a consumer group falls behind: messages that it has not dealt with will soon be past their retention, or too many, and are kept all the same. "+
			"Let it catch up, or remove it", "group", group, "unread", s.Lag, "pending", s.Pending,
			"oldest", max(s.OldestUnread, s.OldestPending).Round(time.Second), "retention", w.config.Retention, "kept", w.config.Kept)
	case was && !near:
		w.log.Info("a consumer group has caught up", "group", group)
	}
}
