package main

import (
	"fmt"
	"strings"
)

// A search is one whose number of states testing/README.md publishes. The tests make the
// short ones, and compare each with the number that is published.
type search struct {
	name  string
	short bool

	crew
	reshard                *reshardBounds
	outbox                 *sendBounds
	crashes, cuts, changes int
}

// searches are all of them.
func searches() []search {
	var all []search
	add := func(prefix string, short bool, c crew, crashes, cuts, changes int) {
		all = append(all, search{name: prefix + c.names(), short: short, crew: c, crashes: crashes, cuts: cuts, changes: changes})
	}
	ring := func(short bool, accounts, pollers, monitors, crashes, cuts, changes int) {
		add("", short, crew{accounts: accounts, pollers: pollers, monitors: monitors}, crashes, cuts, changes)
	}
	ring(true, 1, 1, 1, 0, 1, 0)
	ring(true, 1, 2, 2, 1, 0, 0)
	ring(true, 1, 2, 2, 0, 1, 0)
	ring(false, 1, 2, 2, 1, 1, 0)
	ring(false, 1, 2, 2, 2, 1, 0)
	ring(false, 1, 2, 2, 0, 0, 1)
	ring(false, 1, 2, 2, 0, 0, 2)
	ring(false, 1, 2, 2, 1, 0, 1)
	ring(false, 2, 1, 1, 0, 0, 1)
	ring(false, 2, 1, 1, 1, 1, 0)
	ring(false, 2, 2, 1, 0, 0, 0)
	ring(false, 1, 2, 2, 1, 1, 1)
	ring(false, 1, 3, 2, 2, 1, 0)
	ring(false, 2, 2, 1, 1, 0, 0)
	ring(false, 2, 2, 2, 0, 0, 0)
	late := func(short bool, accounts, pollers, monitors, crashes, cuts, changes int) {
		add("", short, crew{accounts: accounts, pollers: pollers, monitors: monitors, late: true}, crashes, cuts, changes)
	}
	late(true, 2, 1, 1, 0, 0, 0)
	late(false, 2, 1, 1, 1, 1, 0)
	late(false, 2, 2, 1, 0, 0, 0)
	late(false, 1, 1, 1, 0, 1, 2)
	kinds := func(short bool, pollers, strangers, monitors, crashes, cuts, changes int) {
		add("kinds: ", short, crew{accounts: 1, pollers: pollers, strangers: strangers, monitors: monitors}, crashes, cuts, changes)
	}
	kinds(true, 1, 1, 1, 1, 1, 0)
	kinds(false, 1, 1, 1, 0, 0, 1)
	kinds(false, 1, 1, 2, 1, 1, 0)
	kinds(false, 2, 1, 2, 1, 1, 0)
	held := func(short bool, accounts, keepers, monitors, crashes, cuts, changes int) {
		add("held: ", short, crew{accounts: accounts, keepers: keepers, monitors: monitors}, crashes, cuts, changes)
	}
	held(true, 1, 1, 1, 1, 1, 0)
	held(true, 1, 2, 1, 1, 1, 0)
	held(true, 1, 1, 1, 0, 0, 1)
	held(false, 2, 1, 1, 0, 1, 0)
	held(false, 1, 2, 2, 1, 1, 0)
	held(false, 1, 2, 1, 1, 1, 1)
	held(false, 2, 1, 1, 1, 1, 0)
	outbox := func(short bool, b sendBounds, crashes, cuts, changes int) {
		all = append(all, search{name: "outbox: " + b.names(), short: short, outbox: &b, crashes: crashes, cuts: cuts, changes: changes})
	}
	outbox(true, sendBounds{2, []int{1}}, 1, 1, 0)
	outbox(true, sendBounds{2, []int{2}}, 1, 1, 0)
	outbox(false, sendBounds{2, []int{2}}, 0, 0, 1)
	outbox(false, sendBounds{1, []int{2}}, 0, 1, 1)
	outbox(false, sendBounds{2, []int{2, 1}}, 1, 0, 0)
	outbox(false, sendBounds{2, []int{2}}, 1, 1, 1)
	outbox(false, sendBounds{3, []int{2, 1}}, 1, 1, 0)
	for _, r := range reshardings() {
		b := r.reshardBounds
		all = append(all, search{name: "resharding: " + r.name, short: r.short, reshard: &b, crashes: b.crashes, cuts: b.cuts, changes: b.changes})
	}
	return all
}

// resharding is a change of the number of shards that is explored.
type resharding struct {
	name  string
	short bool
	reshardBounds
}

func reshardings() []resharding {
	now, later := []int{returnNow}, []int{returnNow, returnLater}
	comeAndGo := []string{"register", "deregister"}
	return []resharding{
		{"claims", false, reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, monitors: 1, movers: 1, ways: now, crashes: 1, cuts: 1}},
		{"two movers", true, reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, movers: 2, ways: later, crashes: 1, cuts: 1}},
		{"all", false, reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, monitors: 1, movers: 1, ways: now, changes: 1,
			registrars: []string{"old", "new"}, deeds: []string{"upsert", "deregister", "pause", "resume"}}},
		{"come and go", true, reshardBounds{
			from: 1, to: 2, accounts: 1, movers: 1, crashes: 1, cuts: 1, changes: 3,
			registrars: []string{"old", "new"}, deeds: comeAndGo}},
		{"never missed", true, reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, movers: 1, ways: now, changes: 2,
			registrars: []string{"new"}, deeds: []string{"upsert", "pause", "resume"}}},
		{"the end, from nothing", false, reshardBounds{
			from: 1, to: 2, accounts: 1, movers: 2, changes: 2, ends: true, empty: true,
			registrars: []string{"old", "new"}, deeds: comeAndGo}},
		{"the end, with claims", true, reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, monitors: 1, movers: 1, ways: now, crashes: 1, ends: true}},
		{"audits", false, reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, movers: 1, auditors: 1, ways: now, crashes: 1}},
		{"two accounts of one shard", true, reshardBounds{
			from: 1, to: 2, accounts: 2, pollers: 1, movers: 1, ways: now, cuts: 1}},
		{"two accounts to one shard", false, reshardBounds{
			from: 2, to: 1, accounts: 2, movers: 1, changes: 2,
			registrars: []string{"new"}, deeds: comeAndGo}},
		{"given up", false, reshardBounds{
			from: 2, to: 1, accounts: 2, movers: 2, crashes: 1, cuts: 1, aborts: true}},
		{"given up, come and go", true, reshardBounds{
			from: 1, to: 2, accounts: 1, movers: 2, changes: 2, aborts: true,
			registrars: []string{"old", "new"}, deeds: comeAndGo}},
	}
}

// String names a search and its bounds, as testing/README.md has it.
func (s search) String() string {
	name := s.name + ";"
	for _, b := range []struct {
		n    int
		noun string
	}{{s.crashes, "crash"}, {s.cuts, "cut"}, {s.changes, "change"}} {
		if b.n > 0 {
			name += " " + count(b.n, b.noun) + ","
		}
	}
	if bare, none := strings.CutSuffix(name, ";"); none {
		return bare + "; no failure, no change"
	}
	return strings.TrimSuffix(name, ",")
}

func (s search) config() (Config, error) {
	if s.reshard != nil {
		return reshardConfig(*s.reshard)
	}
	if s.outbox != nil {
		c := sendConfig(*s.outbox)
		c.Crashes, c.Cuts, c.Changes = s.crashes, s.cuts, s.changes
		return c, nil
	}
	c, err := ringConfig(s.crew, strings.Split(everyRole, ","))
	c.Crashes, c.Cuts, c.Changes = s.crashes, s.cuts, s.changes
	return c, err
}

// everyRole names all surroundings.
const everyRole = "registrar,pauser,nudger,clock"

func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case noun == "crash":
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
