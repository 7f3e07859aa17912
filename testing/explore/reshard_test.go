package main

import "testing"

// TestReshard explores a change of the number of shards, to the end, within several
// bounds.
func TestReshard(t *testing.T) {
	now, later := []int{returnNow}, []int{returnNow, returnLater}
	comeAndGo := []string{"register", "deregister"}
	for _, c := range []struct {
		name string
		reshardBounds
	}{
		{"claims, a crash and a cut", reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, monitors: 1, movers: 1, ways: now, crashes: 1, cuts: 1}},
		{"two movers, a crash and a cut", reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, movers: 2, ways: later, crashes: 1, cuts: 1}},
		{"all, a change", reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, monitors: 1, movers: 1, ways: now, changes: 1,
			registrars: []string{"old", "new"}, deeds: []string{"upsert", "deregister", "pause", "resume"}}},
		{"come and go", reshardBounds{
			from: 1, to: 2, accounts: 1, movers: 1, crashes: 1, cuts: 1, changes: 3,
			registrars: []string{"old", "new"}, deeds: comeAndGo}},
		{"never missed", reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, movers: 1, ways: now, changes: 2,
			registrars: []string{"new"}, deeds: []string{"upsert", "pause", "resume"}}},
		{"the end, from nothing", reshardBounds{
			from: 1, to: 2, accounts: 1, movers: 2, changes: 2, ends: true, empty: true,
			registrars: []string{"old", "new"}, deeds: comeAndGo}},
		{"the end, with claims", reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, monitors: 1, movers: 1, ways: now, crashes: 1, ends: true}},
		{"audits", reshardBounds{
			from: 1, to: 2, accounts: 1, pollers: 1, movers: 1, auditors: 1, ways: now, crashes: 1}},
		{"two accounts of one shard", reshardBounds{
			from: 1, to: 2, accounts: 2, pollers: 1, movers: 1, ways: now, cuts: 1}},
		{"two accounts to one shard", reshardBounds{
			from: 2, to: 1, accounts: 2, movers: 1, changes: 2,
			registrars: []string{"new"}, deeds: comeAndGo}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config, err := reshardConfig(c.reshardBounds)
			if err != nil {
				t.Fatal(err)
			}
			config.Replays = 20
			r := search(t, config)
			if r.Fault != "" {
				t.Fatalf("%s\n%s", r.Fault, r.Text)
			}
			if !r.Complete || r.Replayed != 20 || r.States < 500 {
				t.Errorf("%+v", r)
			}
		})
	}
}
