package main

import (
	"fmt"
	"strings"
)

// mutation breaks one rule of the protocol on purpose.
type mutation struct {
	name        string
	script      string // which step, by its own name; "" = none
	old, new    string // of its text
	compensates bool   // or the monitor breaks it

	// The bounds within which it is found.
	pollers, monitors, crashes, cuts, changes int
}

// mutations are the rules, each broken. A mutation of a script that does not fit
// any more is an error: whoever changes the script says anew how it breaks.
func mutations() []mutation {
	const compare = "sub(current[i], 1, 14) == sub(ARGV[2 * i], 1, 14)"
	return []mutation{
		{name: "no fresh ticket at claim", script: "claim",
			old: "local fresh = format('%014d', ticket + i)", new: "local fresh = sub(redis.call('HGET', tickets, id), 1, 14)",
			pollers: 2, monitors: 2},
		{name: "no fresh ticket at return", script: "return",
			old: "format('%014d', ticket + k)", new: "sub(behind, 1, 14)",
			pollers: 2, monitors: 2},
		{name: "no fresh ticket at release", script: "release",
			old: "local fresh = renew(tickets, ticket_seq, id, current, now)", new: "local fresh = ticket_of(current)",
			pollers: 2, monitors: 2},
		{name: "no fresh ticket at pause", script: "park",
			old: "redis.call('HSET', tickets, id, fresh .. lane_behind(current) .. rule_behind(current) .. sub(current, 17))", new: "",
			pollers: 1, monitors: 1, changes: 1},
		{name: "return accepted without LREM = 1", script: "return",
			old: "if removed[i] and current[i] and " + compare, new: "if current[i] and " + compare,
			pollers: 2, monitors: 1},
		{name: "return accepted without the ticket", script: "return",
			old: "if removed[i] and current[i] and " + compare, new: "if removed[i] and current[i]",
			pollers: 1, monitors: 1, changes: 1},
		{name: "progress accepted without the ticket", script: "progress",
			old: "or ticket_of(current) ~= ticket_of(entry)", new: "",
			pollers: 1, monitors: 1, changes: 1},
		{name: "tickets reused after deregistering", script: "register",
			old: "take_ticket(ticket_seq, now)\n    local reason", new: "current and take_ticket(ticket_seq, now) or '" + ticketText(firstTicket) + "'\n    local reason",
			pollers: 1, monitors: 2, changes: 4},
		{name: "promote without removing from the schedule", script: "claim",
			old: "redis.call('ZREM', schedule, unpack(ids))", new: "",
			pollers: 1},
		{name: "a claim leaves void entries be claimed", script: "claim",
			old: "current[i] and sub(current[i], 1, 14) == sub(entry, 1, 14) and not once[id]", new: "current[i] and not once[id]",
			pollers: 1, monitors: 2},
		{name: "compensate after an unknown outcome", compensates: true,
			pollers: 1, monitors: 1, cuts: 1},
	}
}

// config is the ring with the rule broken. Everything written is remembered, so
// that it is the consequence that is found.
func (m mutation) config() (Config, error) {
	var roles []string
	if m.changes > 0 {
		roles = []string{"registrar", "pauser"}
	}
	c, err := ringConfig(m.pollers, m.monitors, 1, append(roles, "clock"))
	if err != nil {
		return Config{}, err
	}
	c.Crashes, c.Cuts, c.Changes, c.Remember = m.crashes, m.cuts, m.changes, true
	if m.compensates {
		breaks := monitor(true)
		for i, p := range c.Actors {
			if p.name == breaks.name {
				c.Actors[i] = breaks
			}
		}
	}
	c.Mutate = func(name, text string) (string, error) {
		if m.script == "" || name != m.script {
			return text, nil
		}
		if strings.Count(text, m.old) != 1 {
			return "", fmt.Errorf("mutation %q: %s.lua has %d times %q", m.name, name, strings.Count(text, m.old), m.old)
		}
		return strings.Replace(text, m.old, m.new, 1), nil
	}
	return c, nil
}
