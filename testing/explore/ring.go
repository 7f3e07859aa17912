package main

import (
	"context"
	"slices"

	"github.com/rounds-dev/rounds/circulate"
)

// ringConfig explores package circulate: so many pollers and monitors over so
// many accounts, and the roles of the surroundings. Strangers are pollers that check
// other kinds: they hand over what they claim.
func ringConfig(pollers, strangers, monitors, accounts int, roles []string) (Config, error) {
	if strangers > 0 {
		roles = append(slices.Clone(roles), "recaller")
	}
	around, err := surroundings(roles, accounts)
	if err != nil {
		return Config{}, err
	}
	c := Config{Surroundings: around, Law: ringLaw{}, Rest: true, Crashes: 2, Cuts: 1}
	p, m := poller(accounts, []int{0}, everyWay()), monitor([]int{0})
	if strangers > 0 {
		p = poller(accounts, []int{0}, everyWay(), accountKind)
	}
	s := poller(accounts, []int{0}, []int{handOver, release}, "another")
	for range strangers {
		c.Actors = append(c.Actors, s)
	}
	for range pollers {
		c.Actors = append(c.Actors, p)
	}
	for range monitors {
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
		}
		return d.err
	}
	return c, nil
}
