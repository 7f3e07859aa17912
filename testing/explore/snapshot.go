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

// The tag of the one shard's keys, and the names that the law speaks of.
const tag = "{rounds:0}:"

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

// snapshot is all that the shard holds, by key, without what no step's other
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

// emitted is a message that a step appended to the stream.
type emitted struct {
	account string
	id      string
}

// dump reads the server and takes out of it what is kept apart: the messages.
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
		case "string":
			var text string
			text, err = m.Get(name)
			k.elements = []string{text}
		case "stream":
			var entries []miniredis.StreamEntry
			entries, err = m.Stream(name)
			for _, e := range entries {
				var found emitted
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

// normalise drops and levels what says nothing about who is where: it would
// only tell states apart that behave alike. No step's other effects depend on
//
//   - strikes, changes: counted and listed for the caller, never decided upon;
//   - what a record says: it is compared with a new one, and here every update
//     brings one that differs;
//   - an account's history, and the rule that decided when it is due: they are
//     copied along; but for a nudge's, which decides upon the lane.
//
// The turns of the lanes do decide; the explorer chooses them at each claim. The
// sequence of tickets is set before each step above every ticket that is in use.
func normalise(k key) (key, bool) {
	name, ours := strings.CutPrefix(k.name, tag)
	if !ours && strings.Contains(k.name, ":") {
		return k, false // the namespace's, written once
	}
	switch name {
	case "messages", "strikes", "changes", "turns", "ticket_seq":
		return k, false
	case "accounts":
		for i := 1; i < len(k.elements); i += 2 {
			k.elements[i] = before
		}
	case "tickets":
		for i := 1; i < len(k.elements); i += 2 {
			// ticket(14) lane(1) rule(1) success(8) marks(8) cursor
			if v := k.elements[i]; len(v) >= 32 {
				rule := byte('d')
				if v[15] == byte(circulate.RuleNudged) {
					rule = v[15]
				}
				k.elements[i] = v[:15] + string(rule) + "00000000--------" + v[32:]
			}
		}
	}
	return k, true
}

// restore makes the server hold a snapshot and nothing else.
func restore(m *miniredis.Miniredis, s snapshot, turns int) error {
	m.FlushAll()
	for _, k := range s {
		switch k.kind {
		case "list":
			if _, err := m.Push(k.name, k.elements...); err != nil {
				return err
			}
		case "hash":
			m.HSet(k.name, k.elements...)
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
	if err := m.Set(tag+"ticket_seq", ticketText(fresh)); err != nil {
		return err
	}
	return m.Set(tag+"turns", strconv.Itoa(turns))
}
