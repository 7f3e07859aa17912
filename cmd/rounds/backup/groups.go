package backup

import (
	"context"
	"fmt"

	"github.com/rounds-dev/rounds/circulate"
)

type groupLine struct {
	Name    string           `json:"name"`
	Shard   int              `json:"shard"`
	After   string           `json:"after"`             // the last message that it has read
	Pending []pendingMessage `json:"pending,omitempty"` // messages up to there that it has not acknowledged
	Events  bool             `json:"events,omitempty"`  // it asks for events
}

type pendingMessage struct {
	At         string `json:"at"`
	Deliveries int    `json:"n"`
}

// position returns how far the group had read in the shard of the backup.
func (l *groupLine) position() (circulate.GroupPosition, error) {
	p := circulate.GroupPosition{Group: l.Name, Shard: l.Shard, Events: l.Events}
	fault := func(err error) (circulate.GroupPosition, error) {
		return p, fmt.Errorf("group %q: shard %d: %w", l.Name, l.Shard, err)
	}
	if err := circulate.ValidateGroup(l.Name); err != nil {
		return fault(err)
	}
	if l.Shard < 0 || l.Shard >= circulate.MaxShards || len(l.Pending) > circulate.MostPending {
		return fault(fmt.Errorf("there can be no such shard, or no %d pending messages", len(l.Pending)))
	}
	var err error
	if p.After, err = circulate.ParseStreamID(l.After); err != nil {
		return fault(err)
	}
	p.Pending = make([]circulate.PendingMessage, len(l.Pending))
	for i, m := range l.Pending {
		at, err := circulate.ParseStreamID(m.At)
		if err != nil {
			return fault(err)
		}
		p.Pending[i] = circulate.PendingMessage{Position: at, Deliveries: max(0, m.Deliveries)}
	}
	return p, nil
}

// groups finds out, while messages are restored, where each consumer group stands among them.
//
// In a shard, a group begins behind the messages that it had read, up to the first one that it had
// not. So if a shard inherits from several, the group may get messages again that it has
// acknowledged, and misses none. Messages that it had read and not acknowledged are pending again.
// All positions are positions of existing messages, because another server's clock may be behind,
// and later messages must come after them.
type groups struct {
	archive circulate.Archive
	before  int // shards
	of      map[string]*groupReading
}

// groupReading is a group with how far it had read, by the shard of the backup.
type groupReading struct {
	was map[int]wasRead
	now map[int]*circulate.GroupPosition // by the new shard
	met map[int]bool                     // the new shards with a message that the group had not read
}

type wasRead struct {
	after   circulate.StreamID
	pending map[circulate.StreamID]int // number of deliveries
}

func (g *groups) add(p circulate.GroupPosition) {
	group := g.of[p.Group]
	if group == nil {
		group = &groupReading{was: make(map[int]wasRead), now: make(map[int]*circulate.GroupPosition), met: make(map[int]bool)}
		g.of[p.Group] = group
	}
	was := wasRead{after: p.After, pending: make(map[circulate.StreamID]int, len(p.Pending))}
	for _, m := range p.Pending {
		was.pending[m.Position] = m.Deliveries
	}
	group.was[p.Shard] = was
	for shard := range g.archive.Heirs(g.before, p.Shard) {
		if group.now[shard] == nil {
			group.now[shard] = &circulate.GroupPosition{Group: p.Group, Shard: shard, Events: p.Events}
		}
	}
}

// message notes that a message at one position is now at another. The messages of a shard must come
// in their order.
func (g *groups) message(account string, was circulate.StreamID, shard int, is circulate.StreamID) {
	if len(g.of) == 0 {
		return
	}
	source := g.archive.SourceOf(g.before, account)
	for _, group := range g.of {
		now := group.now[shard]
		if now == nil || group.met[shard] {
			continue
		}
		read, known := group.was[source]
		if !known || read.after.Before(was) {
			group.met[shard] = true
			continue
		}
		now.After = is
		if n, ok := read.pending[was]; ok {
			now.Pending = append(now.Pending, circulate.PendingMessage{Position: is, Deliveries: n})
		}
	}
}

// restore makes the groups.
func (g *groups) restore(ctx context.Context) error {
	for _, group := range g.of {
		for _, p := range group.now {
			if err := g.archive.LoadGroup(ctx, *p); err != nil {
				return err
			}
		}
	}
	return nil
}
