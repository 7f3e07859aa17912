package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/rounds-dev/rounds/circulate"
)

// reshardBounds are the bounds within which a change of the number of shards is explored.
type reshardBounds struct {
	from, to                  int
	accounts                  int
	pollers, monitors, movers int
	auditors                  int
	registrars                []string // for each, old or new: the shards that it knows when it begins
	deeds                     []string // what registrars do
	ways                      []int    // to continue with a claim
	ends                      bool     // the movers end the change too
	aborts                    bool     // the movers abort it too
	empty                     bool     // no account is registered at first
	crashes, cuts, changes    int
}

// movingID returns accounts that are spread over two shards.
func movingID(i int) string { return accountID(4 * i) }

// steadyMeta and movingMeta are how a namespace is divided before a change, and while
// accounts move.
func steadyMeta(from int) map[string]string {
	return map[string]string{"format": "2", "shards": strconv.Itoa(from)}
}

func movingMeta(from, to int) map[string]string {
	return map[string]string{"format": "3", "shards": strconv.Itoa(from), "next": strconv.Itoa(to)}
}

// reshardConfig explores a change of the number of shards. It has begun, the new shards
// accept accounts, and none has moved.
func reshardConfig(b reshardBounds) (Config, error) {
	var tags []string
	for shard := range b.from {
		tags = append(tags, fmt.Sprintf("{rounds:%d}:", shard))
	}
	for shard := range b.to {
		tags = append(tags, fmt.Sprintf("{rounds:g1:%d}:", shard))
	}
	moving := movingMeta(b.from, b.to)
	a, err := newActor("", moving, nil, newScripts(nil))
	if err != nil {
		return Config{}, err
	}
	var ids []string
	var shards, sources []int // where accounts may be
	homes := make(map[string][]string)
	for i := range b.accounts {
		id := movingID(i)
		source := a.ring.ShardOf(id)
		target := b.from
		if b.to > 1 {
			target += i % b.to
		}
		ids, shards, sources = append(ids, id), append(shards, source, target), append(sources, source)
		homes[id] = []string{tags[source], tags[target]}
	}
	slices.Sort(shards)
	slices.Sort(sources)
	shards, sources = slices.Compact(shards), slices.Compact(sources)

	law := reshardLaw{from: b.from, to: b.to, tags: tags, homes: homes}
	c := Config{Law: law, Shards: tags, Rest: true, Crashes: b.crashes, Cuts: b.cuts, Changes: b.changes}
	add := func(n int, p *program) {
		for range n {
			c.Actors = append(c.Actors, p)
		}
	}
	p, m := poller(b.accounts, shards, b.ways), monitor(shards)
	p.meta, m.meta = moving, moving
	add(b.pollers, p)
	add(b.monitors, m)
	mv := mover(sources, b.ends, b.aborts)
	mv.meta = moving
	add(b.movers, mv)
	au := auditor(shards)
	au.meta = moving
	add(b.auditors, au)
	for _, knows := range b.registrars {
		r, err := movedRegistrar(knows, ids, b.deeds)
		if err != nil {
			return Config{}, err
		}
		r.meta = steadyMeta(b.from)
		add(1, r)
	}
	c.Surroundings = []*program{lateness(homes, ids, moving)}
	c.Begin = func(st *store) error { return beginResharding(st, b, ids) }
	return c, nil
}

// beginResharding registers accounts that were checked once and have a cursor, and begins
// to change the number of shards.
func beginResharding(st *store, b reshardBounds, ids []string) error {
	ctx := context.Background()
	d := &direct{store: st}
	s := &server{holder: d, scripts: st.scripts}
	m := st.embedded.Miniredis()
	for i, shard := range st.shards {
		if i >= b.from {
			m.Del(shard + "ticket_seq")
		} else if err := m.Set(shard+"ticket_seq", ticketText(fresh+i*100_000)); err != nil {
			return err
		}
	}
	ring, err := circulate.Open(ctx, s, circulate.Options{Shards: b.from})
	if err != nil {
		return errors.Join(err, d.err)
	}
	if b.empty {
		ids = nil
	}
	for _, id := range ids {
		shard := ring.ShardOf(id)
		if _, err := ring.Register(ctx, shard, []circulate.Registration{{ID: id, Record: []byte("after")}}); err != nil {
			return err
		}
		claimed, err := ring.Claim(ctx, shard, nameText(reserved), 1, 0)
		if err != nil || len(claimed.Claims) != 1 {
			return fmt.Errorf("explore: claimed %v: %w", claimed, err)
		}
		if _, err := ring.Return(ctx, shard, []circulate.Return{{
			Claim: &claimed.Claims[0], Rule: 'd', Mark: circulate.MarkOK, Cursor: []byte(kept),
		}}); err != nil {
			return err
		}
	}
	if _, err := ring.Mover().Begin(ctx, b.to); err != nil {
		return err
	}
	if ring, err = circulate.Open(ctx, s, circulate.Options{}); err != nil {
		return err
	}
	if err := ring.Mover().Receive(ctx); err != nil {
		return err
	}
	for i, shard := range st.shards[b.from:] {
		if err := m.Set(shard+"ticket_seq", ticketText(fresh+(b.from+i)*100_000)); err != nil {
			return err
		}
	}
	return d.err
}
