package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// law is what must hold of a protocol.
type law interface {
	// holds returns how a snapshot breaks the law. Fault must not happen at any time,
	// strict must not happen while nobody is under way and nothing has failed before.
	holds(s snapshot) (fault, strict string)
	// mayWrite returns why a message must not be written in a snapshot.
	mayWrite(before snapshot, e emitted) string
	// goesOn returns what a step did to an account that no step may do. A script's step
	// has its name.
	goesOn(before, after snapshot, step string) string
	// recovers stops all actors for ever, and returns which account then does not come
	// round.
	recovers(s *store, from snapshot) (fault string, err error)
}

// ringLaw is the conservation law of package circulate, by the key names that the
// protocol documents. Where accounts are late, none of them starves either.
type ringLaw struct{ late bool }

// everyTicket returns the current tickets, by shard and account.
func everyTicket(s snapshot) map[string]string {
	all := make(map[string]string)
	for _, k := range s {
		if shard, rest, ok := splitTag(k.name); ok && rest == "tickets" {
			for id, ticket := range tickets(s.shard(shard)) {
				all[shard+id] = ticket
			}
		}
	}
	return all
}

// tickets returns the current tickets, by account.
func tickets(s snapshot) map[string]string {
	current := make(map[string]string)
	all := s.get("tickets")
	for i := 0; i+1 < len(all); i += 2 {
		current[all[i]] = all[i+1][:14]
	}
	return current
}

// revived returns which ticket became current in a step without being fresh.
func revived(before, after snapshot) string {
	was := everyTicket(before)
	for id, ticket := range everyTicket(after) {
		if t := tokens(ticket); was[id] != ticket && (len(t) != 1 || t[0] <= fresh) {
			return fmt.Sprintf("revived: %s has the ticket %s again", id, ticket)
		}
	}
	return ""
}

// whereabouts returns the places of each registered account under its current ticket: the
// key, and the entry if that is a list. The lanes of message_queue count as one place.
func whereabouts(s snapshot) (registered map[string]string, places map[string][]string) {
	registered, places = tickets(s), make(map[string][]string)
	for _, k := range s {
		name := strings.TrimPrefix(k.name, tag)
		switch {
		case name == "schedule" || name == "parked":
			for i := 0; i < len(k.elements); i += 2 {
				places[k.elements[i]] = append(places[k.elements[i]], name)
			}
		case k.kind == "list" && (strings.Contains(name, "message_queue") || name == "processing_list"):
			for _, entry := range k.elements {
				if id := entry[40:]; registered[id] != "" && registered[id] == entry[:14] {
					list, _, _ := strings.Cut(name, ":")
					places[id] = append(places[id], list+" "+entry)
				}
			}
		case name == "message_queue:by_kind":
			// KIND, a tab, a rank, | and the entry, each with its score.
			for i := 0; i < len(k.elements); i += 2 {
				_, rest, _ := strings.Cut(k.elements[i], "\t")
				_, entry, _ := strings.Cut(rest, "|")
				if id := entry[40:]; registered[id] != "" && registered[id] == entry[:14] {
					places[id] = append(places[id], "message_queue:by_kind "+entry)
				}
			}
		}
	}
	return registered, places
}

func (ringLaw) holds(s snapshot) (fault, strict string) {
	registered, places := whereabouts(s)
	for id, in := range places {
		if registered[id] == "" {
			return fmt.Sprintf("%s is not registered and in %v", id, in), ""
		}
	}
	reasons := s.get("park_reasons")
	for id := range registered {
		in := places[id]
		distinct := slices.Compact(slices.Sorted(slices.Values(in)))
		switch {
		case len(in) == 0:
			return "lost: " + id + " is nowhere under its current ticket", ""
		case len(distinct) > 1 || len(in) > 1 && !strings.HasPrefix(in[0], "message_queue"):
			return fmt.Sprintf("doubled: %s is in %s", id, strings.Join(in, " and ")), ""
		case in[0] == "parked" && !slices.Contains(reasons, id):
			return id + " is parked without a reason", ""
		case len(in) > 1:
			// A copy that a monitor pushed and has not yet taken out again, or never
			// will. The next claim makes one of them void.
			strict = fmt.Sprintf("doubled at rest: %s is in %s", id, strings.Join(in, " and "))
		}
	}
	return "", strict
}

func (ringLaw) mayWrite(before snapshot, e emitted) string {
	registered, places := whereabouts(before)
	of := tokens(e.id)
	current := tokens(registered[e.account])
	in := places[e.account]
	if len(current) != 1 || current[0] != of[0] {
		return fmt.Sprintf("written by a fenced holder: %s under %s, and the ticket is %q", e.account, e.id, registered[e.account])
	}
	if !slices.ContainsFunc(in, func(p string) bool { return strings.HasPrefix(p, "processing_list ") }) {
		return fmt.Sprintf("written by one whose claim was taken away: %s under %s is in %v", e.account, e.id, in)
	}
	return ""
}

func (ringLaw) goesOn(before, after snapshot, step string) string {
	if step == "release" {
		return releasedFirst(before, after)
	}
	return ""
}

// takeOver restores a snapshot and has a monitor requeue what is held in it. It returns a poller
// that comes later.
func takeOver(ctx context.Context, st *store, from snapshot) (*direct, *actor, error) {
	if err := restore(st.embedded.Miniredis(), st.shards, from, 0); err != nil {
		return nil, nil, err
	}
	d := &direct{store: st}
	a, err := newActor(nameText(reserved), nil, d, st.scripts)
	if err != nil {
		return nil, nil, err
	}
	held, _, err := a.ring.Oldest(ctx, 0, 0, 1000)
	if err != nil {
		return nil, nil, err
	}
	for _, h := range held {
		if _, _, err := a.ring.Requeue(ctx, 0, h); err != nil {
			return nil, nil, err
		}
	}
	return d, a, nil
}

// recovers has a monitor and a poller take over that come later. Each registered account
// that is not parked must be claimed once in each of two rounds.
func (l ringLaw) recovers(st *store, from snapshot) (string, error) {
	ctx := context.Background()
	d, a, err := takeOver(ctx, st, from)
	if err != nil {
		return "", err
	}
	registered, places := whereabouts(from)
	for round := range 2 {
		d.passTime()
		claimed, err := a.claimAll(ctx)
		if err != nil {
			return "", err
		}
		for id := range registered {
			want := 1
			if places[id][0] == "parked" {
				want = 0
			}
			if claimed[id] != want {
				return fmt.Sprintf("after all have stopped, %s is claimed %d times in round %d and not %d", id, claimed[id], round+1, want), nil
			}
		}
	}
	after, _, err := dump(st.embedded.Miniredis())
	if err != nil {
		return "", err
	}
	fault, strict := l.holds(after)
	if fault == "" && strict != "" {
		fault = strict
	}
	if fault != "" || !l.late {
		return fault, nil
	}
	return starves(st, from)
}

// atOnce is how many accounts a poller claims at once in starves.
const atOnce = 4

// starves has a monitor and a poller take over that come later, while more accounts than
// they can ever take are relatively later than each of the snapshot's own. It returns which
// account is not claimed all the same. A claim promotes if fewer wait than it takes, and
// then at most twice as many as that, one of them the earliest due. So each account costs
// at most two claims, and a third one takes what waits at first.
func starves(st *store, from snapshot) (string, error) {
	ctx := context.Background()
	d, a, err := takeOver(ctx, st, from)
	if err != nil {
		return "", err
	}
	m := st.embedded.Miniredis()
	// wait has an account due, as one whose checks succeed at an interval.
	wait := func(id, before string, late, interval time.Duration) error {
		due := frozen().Add(-late)
		m.HSet(tag+"tickets", id, before+fmt.Sprintf("%08x", due.Add(-interval).Unix())+"++++++++")
		_, err := m.ZAdd(tag+"schedule", float64(due.UnixMilli()), id)
		return err
	}
	registered, places := whereabouts(from)
	left := make(map[string]bool)
	all := from.get("tickets")
	for i := 0; i+1 < len(all); i += 2 {
		id := all[i]
		if places[id][0] == "parked" {
			continue
		}
		left[id] = true
		if places[id][0] != "schedule" {
			continue
		}
		if err := wait(id, all[i+1][:16], 2*time.Hour, 24*time.Hour); err != nil {
			return "", err
		}
	}
	claims := 2*len(registered) + 1
	for i := range 2 * atOnce * (claims + 1) {
		if err := wait(fmt.Sprint("other", i), ticketText(reserved)+"nd", time.Hour, time.Second); err != nil {
			return "", err
		}
	}
	for range claims {
		b, err := a.ring.Claim(ctx, 0, a.name, atOnce, 0)
		if err != nil {
			return "", err
		}
		for i := range b.Claims {
			delete(left, b.Claims[i].ID)
		}
	}
	for id := range left {
		return fmt.Sprintf("%s starves: it is not claimed within %d claims of %d, where others are relatively later", id, claims, atOnce), d.err
	}
	return "", d.err
}

// claimAll claims and returns, for later, until nothing is left.
func (a *actor) claimAll(ctx context.Context) (map[string]int, error) {
	claimed := make(map[string]int)
	for range 100 {
		b, err := a.ring.Claim(ctx, a.shard, a.name, 10, 0)
		if err != nil {
			return nil, err
		}
		if len(b.Claims) == 0 && b.Void == 0 {
			return claimed, nil
		}
		for i := range b.Claims {
			claimed[b.Claims[i].ID]++
			if err := a.give(ctx, &b.Claims[i], later()); err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("explore: claims never end: %v", claimed)
}

// later is a due time that comes only when time passes.
func later() time.Time { return frozen().Add(time.Hour) }

// direct is a driver that holds nothing.
type direct struct {
	store *store
	err   error
}

func (d *direct) step(o operation) string {
	if err := d.store.elapse(); err != nil {
		d.err = err
		return cut
	}
	reply, err := d.store.do(o)
	if err != nil {
		d.err = errors.Join(d.err, err)
		return cut
	}
	return reply
}

func (d *direct) pick(int) int        { return 0 }
func (d *direct) at(string, []string) {}

// passTime makes all that is scheduled due.
func (d *direct) passTime() {
	m := d.store.embedded.Miniredis()
	for _, shard := range d.store.shards {
		scheduled, err := m.SortedSet(shard + "schedule")
		if err != nil {
			continue // there is none
		}
		for id := range scheduled {
			if _, err := m.ZAdd(shard+"schedule", float64(frozen().UnixMilli()), id); err != nil {
				d.err = err
			}
		}
	}
}
