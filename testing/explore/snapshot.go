package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/rounds-dev/rounds/circulate"
)

// tag begins the keys of the first shard: the only one, unless the number of shards
// changes.
const tag = "{rounds:0}:"

// metaName is the key that says how the namespace is divided.
const metaName = "rounds:meta"

// splitTag splits a key's name. It returns false for a key of no shard.
func splitTag(name string) (shard, rest string, ok bool) {
	shard, rest, ok = strings.Cut(name, "}:")
	return shard + "}:", rest, ok && strings.HasPrefix(shard, "{rounds:")
}

// before is what every record says, before each step.
const before = "before"

// frozen is the time at which everything happens.
func frozen() time.Time { return time.UnixMilli(1_500_000_000_000) }

// key is a key of Redis and what it holds: a list's elements, a hash's fields
// and values by field, a sorted set's members and scores by member, a text.
type key struct {
	name, kind string
	elements   []string
}

// snapshot is everything that the shard holds, by key, without what no step's other
// effects depend on; see normalise.
type snapshot []key

const unit, group, record = "\x1f", "\x1e", "\x1d"

func (s snapshot) String() string {
	var b strings.Builder
	for _, k := range s {
		b.WriteString(k.name + group + k.kind + group + strings.Join(k.elements, unit) + record)
	}
	return b.String()
}

func parseSnapshot(text string) snapshot {
	var s snapshot
	for _, line := range strings.Split(strings.TrimSuffix(text, record), record) {
		if parts := strings.Split(line, group); len(parts) == 3 {
			s = append(s, key{parts[0], parts[1], strings.Split(parts[2], unit)})
		}
	}
	return s
}

func (s snapshot) get(name string) []string {
	for _, k := range s {
		if k.name == tag+name {
			return k.elements
		}
	}
	return nil
}

// shard returns what one shard holds, as if it were the first.
func (s snapshot) shard(of string) snapshot {
	var all snapshot
	for _, k := range s {
		if at, rest, ok := splitTag(k.name); ok && at == of {
			all = append(all, key{tag + rest, k.kind, k.elements})
		}
	}
	return all
}

// emitted is a message that a step appended to a shard's stream.
type emitted struct {
	shard   string // its tag
	account string
	id      string
}

// dump reads the server and separates what is kept apart: the messages.
func dump(m *miniredis.Miniredis) (snapshot, []emitted, error) {
	var s snapshot
	var out []emitted
	names := m.Keys()
	slices.Sort(names)
	for _, name := range names {
		k := key{name: name, kind: m.Type(name)}
		var err error
		switch k.kind {
		case "list":
			k.elements, err = m.List(name)
		case "hash":
			var fields []string
			fields, err = m.HKeys(name)
			slices.Sort(fields)
			for _, f := range fields {
				k.elements = append(k.elements, f, m.HGet(name, f))
			}
		case "zset":
			var scores map[string]float64
			scores, err = m.SortedSet(name)
			for member, score := range scores {
				k.elements = append(k.elements, member+group+strconv.FormatFloat(score, 'f', -1, 64))
			}
			slices.Sort(k.elements)
			k.elements = strings.Split(strings.Join(k.elements, group), group)
		case "set":
			k.elements, err = m.Members(name)
		case "string":
			var text string
			text, err = m.Get(name)
			k.elements = []string{text}
		case "stream":
			if _, rest, _ := splitTag(name); rest == "events" {
				continue // no step reads them
			}
			var entries []miniredis.StreamEntry
			entries, err = m.Stream(name)
			for _, e := range entries {
				var found emitted
				found.shard, _, _ = splitTag(name)
				for i := 0; i+1 < len(e.Values); i += 2 {
					switch e.Values[i] {
					case "account":
						found.account = e.Values[i+1]
					case "id":
						found.id = e.Values[i+1]
					}
				}
				out = append(out, found)
			}
		default:
			err = fmt.Errorf("type %q", k.kind)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("dump %s: %w", name, err)
		}
		if k, ok := normalise(k); ok {
			s = append(s, k)
		}
	}
	return s, out, nil
}

// normalise drops and levels what says nothing about where accounts are. It would only
// distinguish states that behave alike. No step's other effects depend on
//
//   - strikes, changes: counted and listed for the caller; a quarantine decides by strikes,
//     and is explored with any number of them;
//   - what a record says: it is compared with a new one, and here every update
//     brings one that differs;
//   - how often a send was attempted: that is counted for people;
//   - for how long nothing is claimed from a shard whose accounts move, and since
//     when what has moved is kept: any time may pass, and here it always has;
//   - an account's history, and the rule that decided when it is due: they are
//     copied along, except a nudge's rule, which decides upon the lane.
//
// The turns of the lanes do decide; the explorer chooses them at each claim. So does the
// sequence of tickets: before each step it is set above every ticket that is in use, each
// step must leave it there (sequences), and its mark matters only if the sequence is
// lost.
func normalise(k key) (key, bool) {
	_, name, ours := splitTag(k.name)
	switch {
	case k.name == metaName:
		return k, true
	case !ours && strings.Contains(k.name, ":"):
		return k, false // the namespace's, written once
	case !ours:
		name = k.name // of the bare pattern
	}
	switch name {
	case "messages", "strikes", "changes", "turns", "ticket_seq", "ticket_mark":
		return k, false
	case "sends":
		for i := 1; i < len(k.elements); i += 2 {
			k.elements[i] = levelSend(k.elements[i])
		}
	case "accounts":
		for i := 1; i < len(k.elements); i += 2 {
			k.elements[i] = before
		}
	case "leaving":
		k.elements = []string{past} // how long nothing is claimed: that time may be over
	case "departed":
		for i := 1; i < len(k.elements); i += 2 {
			k.elements[i] = past + k.elements[i][len(past):] // whether it is long ago
		}
	case "tickets":
		for i := 1; i < len(k.elements); i += 2 {
			k.elements[i] = level(k.elements[i])
		}
	}
	return k, true
}

// level drops what no step depends on from an account's value in tickets.
func level(v string) string {
	// ticket(14) lane(1) rule(1) success(8) marks(8) cursor
	if len(v) < 32 {
		return v
	}
	rule := byte('d')
	if v[15] == byte(circulate.RuleNudged) {
		rule = v[15]
	}
	return v[:15] + string(rule) + "00000000--------" + v[32:]
}

// past is a time that is over, as scripts write it.
const past = "0000000000001"

// restore makes the server hold a snapshot of some shards and nothing else.
func restore(m *miniredis.Miniredis, shards []string, s snapshot, turns int) error {
	m.FlushAll()
	for _, k := range s {
		switch k.kind {
		case "list":
			if _, err := m.Push(k.name, k.elements...); err != nil {
				return err
			}
		case "hash":
			m.HSet(k.name, k.elements...)
		case "set":
			if _, err := m.SetAdd(k.name, k.elements...); err != nil {
				return err
			}
		case "zset":
			for i := 0; i+1 < len(k.elements); i += 2 {
				score, err := strconv.ParseFloat(k.elements[i+1], 64)
				if err != nil {
					return err
				}
				if _, err := m.ZAdd(k.name, score, k.elements[i]); err != nil {
					return err
				}
			}
		case "string":
			if err := m.Set(k.name, k.elements[0]); err != nil {
				return err
			}
		}
	}
	for _, shard := range shards {
		if err := m.Set(shard+"ticket_seq", ticketText(fresh)); err != nil {
			return err
		}
		if err := m.Set(shard+"turns", strconv.Itoa(turns)); err != nil {
			return err
		}
	}
	return nil
}
