package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

// kept is the cursor that every account has at first. No check changes it.
const kept = "kept"

// reshardLaw is the conservation law while the number of shards changes. In each shard
// the ring's law holds. Each account is in one shard, or on its way. Only actors that may
// do so make an account appear, disappear or begin again.
type reshardLaw struct {
	from, to int
	tags     []string            // the old shards', then the new ones'
	homes    map[string][]string // of each account: its old shard and its new one
}

// home is where an account is: a shard's tag, or "on its way".
type home struct{ where, cursor string }

// residents returns every account with everything that counts as its home. An account
// that has departed is on its way until its new shard knows it, by its arrival or because
// it was registered there.
func (l reshardLaw) residents(s snapshot) map[string][]home {
	all := make(map[string][]home)
	for _, shard := range l.tags {
		held := s.shard(shard).get("tickets")
		for i := 0; i+1 < len(held); i += 2 {
			all[held[i]] = append(all[held[i]], home{shard, cursorOf(held[i+1][14:])})
		}
	}
	for _, source := range l.tags[:l.from] {
		departures := s.shard(source).get("departures")
		for i := 0; i+1 < len(departures); i += 2 {
			name, _, _ := strings.Cut(departures[i], ":")
			_, number, _ := strings.Cut(name, ".")
			n, err := strconv.Atoi(number)
			if err != nil || n >= l.to {
				all["departure "+departures[i]] = []home{{}, {}}
				continue
			}
			target := s.shard(l.tags[l.from+n])
			for id, behind := range travellers(departures[i+1]) {
				if !slices.Contains(target.get("arrivals"), id) && tickets(target)[id] == "" {
					all[id] = append(all[id], home{"on its way", cursorOf(behind)})
				}
			}
		}
	}
	return all
}

// cursorOf takes the cursor from what stands after a ticket.
func cursorOf(behind string) string {
	if len(behind) < 18 {
		return ""
	}
	return behind[18:]
}

// travellers reads what depart wrote: four texts for each account, and its fields.
func travellers(accounts string) map[string]string {
	const parts, behind, fields = 4, 3, 8
	all := make(map[string]string)
	for len(accounts) > 0 {
		var read [parts + fields]string
		for i := range read {
			if rest, none := strings.CutPrefix(accounts, "-"); none {
				accounts = rest
				continue
			}
			length, rest, _ := strings.Cut(accounts, ":")
			n, err := strconv.Atoi(length)
			if err != nil || n > len(rest) {
				return map[string]string{"unreadable": ""}
			}
			read[i], accounts = rest[:n], rest[n:]
		}
		all[read[0]] = read[behind]
	}
	return all
}

func (l reshardLaw) holds(s snapshot) (fault, strict string) {
	for _, shard := range l.tags {
		f, rests := ringLaw{}.holds(s.shard(shard))
		if f != "" {
			return shard + " " + f, ""
		}
		if rests != "" {
			strict = shard + " " + rests
		}
	}
	for id, homes := range l.residents(s) {
		if len(homes) > 1 {
			return fmt.Sprintf("doubled: %s is at home in %v", id, homes), ""
		}
		if w := homes[0].where; w != "on its way" && !slices.Contains(l.homes[id], w) {
			return fmt.Sprintf("astray: %s is in %s", id, w), ""
		}
	}
	return "", strict
}

func (reshardLaw) mayWrite(before snapshot, e emitted) string {
	return ringLaw{}.mayWrite(before.shard(e.shard), e)
}

func (l reshardLaw) goesOn(before, after snapshot, step string) string {
	was, is := l.residents(before), l.residents(after)
	for id := range was {
		switch {
		case is[id] == nil && step != "deregister":
			return fmt.Sprintf("lost: %s was in %v, and is in no shard and not on its way", id, was[id])
		case is[id] != nil && is[id][0].cursor != was[id][0].cursor:
			return fmt.Sprintf("begun anew: %s had the cursor %q, and has %q", id, was[id][0].cursor, is[id][0].cursor)
		}
	}
	for id := range is {
		if was[id] == nil && step != "register" {
			return fmt.Sprintf("come back: %s was nowhere, and is in %v", id, is[id])
		}
	}
	return ""
}

// recovers has a mover, a monitor and a poller take over that come later. All accounts
// must move, and each registered account that is not parked must be claimed once.
func (l reshardLaw) recovers(st *store, from snapshot) (string, error) {
	m := st.embedded.Miniredis()
	if err := restore(m, st.shards, from, 0); err != nil {
		return "", err
	}
	d := &direct{store: st}
	a, err := newActor(nameText(reserved), movingMeta(l.from, l.to), d, st.scripts)
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	if fault, err := l.finish(ctx, a); err != nil || fault != "" {
		return fault, err
	}
	now, err := a.ring.Mover().State(ctx)
	if err != nil {
		return "", err
	}
	first, last, home := l.from, len(l.tags), 1
	if now.Phase == circulate.Steady && now.To == l.from { // it was aborted
		first, last, home = 0, l.from, 0
	}
	all := l.residents(from)
	parked := make(map[string]bool)
	for _, shard := range l.tags[first:last] {
		if set, err := m.SortedSet(shard + "parked"); err == nil {
			for id := range set {
				parked[id] = true
			}
		}
	}
	d.passTime()
	claimed := make(map[string]int)
	for a.shard = first; a.shard < last; a.shard++ {
		some, err := a.claimAll(ctx)
		if err != nil {
			return "", err
		}
		maps.Copy(claimed, some)
	}
	for id := range all {
		want := 1
		if parked[id] {
			want = 0
		}
		if claimed[id] != want {
			return fmt.Sprintf("after all have stopped, %s is claimed %d times and not %d", id, claimed[id], want), nil
		}
	}
	if len(claimed) > len(all) {
		return fmt.Sprintf("after all have stopped, %v are claimed", claimed), nil
	}
	after, _, err := dump(m)
	if err != nil {
		return "", err
	}
	fault, strict := l.holds(after)
	if fault == "" {
		fault = strict
	}
	if fault == "" {
		for id, homes := range l.residents(after) {
			if homes[0].where != l.homes[id][home] {
				fault = fmt.Sprintf("after all have stopped, %s is in %v", id, homes)
			}
		}
	}
	return fault, d.err
}

// finish takes what stopped actors hold, and moves everything.
func (l reshardLaw) finish(ctx context.Context, a *actor) (fault string, err error) {
	for shard := range l.tags {
		held, _, err := a.ring.Oldest(ctx, shard, 0, 1000)
		if err != nil {
			return "", err
		}
		for _, h := range held {
			if _, _, err := a.ring.Requeue(ctx, shard, h); err != nil {
				return "", err
			}
		}
	}
	for source := range l.from {
		for tries := 0; ; tries++ {
			if tries == 8 {
				return fmt.Sprintf("after all have stopped, accounts never leave shard %d", source), nil
			}
			if _, left, err := a.ring.Mover().Move(ctx, source); errors.Is(err, circulate.ErrAborted) {
				if now, err := a.ring.Mover().Abort(ctx); err == nil && now.Phase == circulate.Steady {
					return "", nil
				} else if !errors.Is(err, circulate.ErrNoReturn) {
					return "", fmt.Errorf("explore: abort: %+v: %w", now, err)
				}
				continue
			} else if refused(err) {
				return fmt.Sprintf("after all have stopped: %v", err), nil
			} else if err != nil {
				return "", err
			} else if left > 0 {
				continue
			}
			break
		}
		if err := a.ring.Mover().Confirm(ctx, source); err != nil {
			return "", err
		}
	}
	if done, err := a.ring.Mover().FinishMove(ctx); err != nil {
		return "", err
	} else if !done {
		return "after all have stopped, the change does not end", nil
	}
	return "", nil
}
