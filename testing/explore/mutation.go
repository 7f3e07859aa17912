package main

import "github.com/rounds-dev/rounds/testing/mutants"

// broken is the ring with a rule broken. Everything written is remembered, so that the
// result of the broken rule is found.
func broken(m mutants.Mutant) (Config, error) {
	c, err := around(m)
	if err != nil {
		return Config{}, err
	}
	c.Remember = true
	c.Mutate = m.Apply
	return c, nil
}

// around is the unbroken ring, within a mutant's bounds.
func around(m mutants.Mutant) (Config, error) {
	if b := m.Bounds; b.Movers > 0 {
		r := reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: b.Pollers, monitors: b.Monitors, movers: b.Movers,
			ways: everyWay(), crashes: b.Crashes, cuts: b.Cuts, changes: b.Changes, aborts: b.Aborts,
		}
		if b.Changes > 0 {
			r.registrars, r.deeds = []string{"old", "new"}, []string{"register", "deregister"}
		}
		return reshardConfig(r)
	}
	if b := m.Bounds; b.Senders > 0 {
		c := sendConfig(sendBounds{senders: b.Senders, sends: []int{2}})
		c.Crashes, c.Cuts, c.Changes = b.Crashes, b.Cuts, b.Changes
		return c, nil
	}
	var roles []string
	if m.Bounds.Changes > 0 {
		roles = []string{"registrar", "pauser"}
	}
	c, err := ringConfig(crew{pollers: m.Bounds.Pollers, strangers: m.Bounds.Strangers, keepers: m.Bounds.Keepers, monitors: m.Bounds.Monitors, accounts: max(1, m.Bounds.Accounts), late: m.Bounds.Late}, append(roles, "clock"))
	if err != nil {
		return Config{}, err
	}
	c.Crashes, c.Cuts, c.Changes = m.Bounds.Crashes, m.Bounds.Cuts, m.Bounds.Changes
	return c, nil
}
