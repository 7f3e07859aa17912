package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// crew is how many of each work on a ring with so many accounts. Strangers are pollers that check
// other kinds: they hand over what they claim. Keepers are pollers whose third parties hold calls.
// If late is set, what is due is always an hour late, and a poller claims one account at a time.
type crew struct {
	pollers, strangers, keepers, monitors, accounts int

	late bool
}

// names counts them, such as "1 account, 2 pollers, 1 monitor".
func (n crew) names() string {
	var parts []string
	for _, part := range []struct {
		n    int
		noun string
	}{{n.accounts, "account"}, {n.pollers, "poller"}, {n.strangers, "stranger"}, {n.keepers, "keeper"}, {n.monitors, "monitor"}} {
		if part.n > 0 {
			parts = append(parts, count(part.n, part.noun))
		}
	}
	if n.late {
		parts = append(parts, "late")
	}
	return strings.Join(parts, ", ")
}

// ringConfig explores package circulate: a crew, and the roles of the surroundings.
func ringConfig(n crew, roles []string) (Config, error) {
	accounts := n.accounts
	if n.strangers > 0 {
		roles = append(slices.Clone(roles), "recaller")
	}
	claimed, due := accounts, frozen()
	if n.late {
		claimed, due = 1, due.Add(-time.Hour)
	}
	around, err := surroundings(roles, accounts, due)
	if err != nil {
		return Config{}, err
	}
	c := Config{Surroundings: around, Law: ringLaw{late: n.late}, Rest: true, Crashes: 2, Cuts: 1}
	p, m := poller(claimed, []int{0}, everyWay()), monitor([]int{0})
	if n.strangers > 0 {
		p = poller(claimed, []int{0}, everyWay(), accountKind)
	}
	s := poller(claimed, []int{0}, []int{handOver, release}, "another")
	for range n.strangers {
		c.Actors = append(c.Actors, s)
	}
	for range n.pollers {
		c.Actors = append(c.Actors, p)
	}
	h := keeper()
	for range n.keepers {
		c.Actors = append(c.Actors, h)
	}
	for range n.monitors {
		c.Actors = append(c.Actors, m)
	}
	c.Begin = func(st *store) error {
		d := &direct{store: st}
		a, err := newActor(nameText(reserved), nil, d, st.scripts)
		if err != nil {
			return err
		}
		for i := range accounts {
			if _, err := a.ring.Register(context.Background(), 0, []circulate.Registration{{ID: accountID(i), Record: []byte("after")}}); err != nil {
				return err
			}
			if _, err := st.embedded.Miniredis().ZAdd(tag+"schedule", float64(due.UnixMilli()), accountID(i)); err != nil {
				return err
			}
		}
		return d.err
	}
	return c, nil
}
