package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"github.com/rounds-dev/rounds/circulate"
)

// foreign begins the numbers, in a step, of an operation's tokens that Redis does not
// know. Those that Redis issues begin after fresh.
const foreign = 200

// place is a snapshot that was reached, in canonical form: its tokens are numbered in the
// order in which they appear in it.
type place struct {
	text    string
	tokens  int
	current []int  // tokens that are current tickets
	fault   string // how it breaks the law
	strict  string // how it breaks the law if nobody is under way
	lanes   bool   // the turns of the lanes matter
}

// question is an operation on a snapshot. Known are the operation's tokens, numbered as
// in the snapshot or from foreign on.
type question struct {
	place, option int
	known         [maxTokens]int16
}

// answer is what Redis did. Tokens are numbered as in the question, and fresh ones from
// fresh+1 on.
type answer struct {
	turns   int
	place   int
	tokens  []int // which token each token of the place is
	reply   int
	told    []int // the reply's tokens
	emitted []int // the tickets under which messages were written
	fault   string
}

// steps does operations on snapshots, each of them once, on the real Redis.
type steps struct {
	store   *store
	law     law
	renewed bool // a ticket that was not current must never become it again
	places  []place
	byText  map[string]int
	replies []string
	byReply map[string]int
	memo    map[question][]answer
	done    int // how many operations Redis did
}

func newSteps(s *store, l law, renewed bool) *steps {
	return &steps{store: s, law: l, renewed: renewed, byText: make(map[string]int), byReply: make(map[string]int), memo: make(map[question][]answer)}
}

// enter interns a snapshot and returns which of its tokens is which.
func (st *steps) enter(s snapshot) (int, []int, error) {
	text, order := canonical(s.String())
	if id, ok := st.byText[text]; ok {
		return id, order, nil
	}
	s = parseSnapshot(text)
	p := place{text: text, tokens: len(order)}
	p.lanes = severalLanes(s, st.store.shards)
	for _, of := range everyTicket(s) {
		p.current = append(p.current, tokens(of)...)
	}
	p.fault, p.strict = st.law.holds(s)
	if p.fault == "" {
		var err error
		if p.fault, err = st.law.recovers(st.store, s); err != nil {
			return 0, nil, err
		}
	}
	id := len(st.places)
	st.places = append(st.places, p)
	st.byText[text] = id
	return id, order, nil
}

// severalLanes reports whether a claim may find accounts in more than one lane, so that
// it matters whose turn it is. No account here is in the low lane.
func severalLanes(s snapshot, shards []string) bool {
	return slices.ContainsFunc(shards, func(shard string) bool { return severalLanesIn(s.shard(shard)) })
}

func severalLanesIn(s snapshot) bool {
	urgent, normal := s.get("message_queue:urgent") != nil, s.get("message_queue") != nil
	scheduled, tickets := s.get("schedule"), s.get("tickets")
	for i := 0; i < len(scheduled); i += 2 {
		nudged := false
		for j := 0; j+1 < len(tickets); j += 2 {
			nudged = nudged || tickets[j] == scheduled[i] && tickets[j+1][15] == byte(circulate.RuleNudged)
		}
		urgent, normal = urgent || nudged, normal || !nudged
	}
	return urgent && normal
}

// do answers a question: with one answer, or with several if any lane's turn is possible.
func (st *steps) do(q question, o *option) ([]answer, error) {
	if answers, ok := st.memo[q]; ok {
		return answers, nil
	}
	turns := []int{0}
	if st.places[q.place].lanes && strings.Contains(o.text, "}:turns") {
		turns = []int{0, 3}
	}
	op := parseOperation(rewrite(o.text, func(t int) int { return int(q.known[slices.Index(o.known, t)]) }))
	var answers []answer
	for _, turn := range turns {
		a, err := st.run(q.place, op, turn)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(answers, func(b answer) bool {
			return a.place == b.place && a.reply == b.reply && slices.Equal(a.tokens, b.tokens)
		}) {
			answers = append(answers, a)
		}
	}
	st.memo[q] = answers
	return answers, nil
}

func (st *steps) run(from int, op operation, turns int) (answer, error) {
	m := st.store.embedded.Miniredis()
	was := parseSnapshot(st.places[from].text)
	if err := restore(m, st.store.shards, was, turns); err != nil {
		return answer{}, err
	}
	reply, err := st.store.do(op)
	if err != nil {
		return answer{}, err
	}
	st.done++
	after, out, err := dump(m)
	if err != nil {
		return answer{}, err
	}
	a := answer{turns: turns}
	if a.fault, err = sequences(m, st.store.shards, after, reply); err != nil {
		return answer{}, err
	}
	for _, e := range out {
		of := tokens(e.id)
		if len(of) != 1 {
			return answer{}, fmt.Errorf("message %q bears no ticket", e.id)
		}
		a.emitted = append(a.emitted, of[0])
		if a.fault == "" {
			a.fault = st.law.mayWrite(was, e)
		}
	}
	if a.fault == "" && st.renewed {
		a.fault = revived(was, after)
	}
	if a.fault == "" {
		a.fault = st.law.goesOn(was, after, st.store.scripts.name(op))
	}
	if a.place, a.tokens, err = st.enter(after.apart(fresh)); err != nil {
		return answer{}, err
	}
	if st.replyOf(apart(reply, fresh), &a); len(a.told) > maxTokens {
		return answer{}, fmt.Errorf("a reply has %d tokens", len(a.told))
	}
	return a, nil
}

// sequences returns what a step did wrong to a shard's sequence of tickets, which restore
// has set to fresh. A step must leave it at least where it was, and at least at the
// highest ticket that it issued. Then it is above every existing ticket. Because scripts
// only add to it, nothing else need be known of it.
func sequences(m *miniredis.Miniredis, shards []string, after snapshot, reply string) (fault string, err error) {
	highest := 0
	for _, shard := range shards {
		text, err := m.Get(shard + "ticket_seq")
		if err != nil {
			return "", fmt.Errorf("%sticket_seq: %w", shard, err)
		}
		at := tokens(text)
		if len(at) != 1 || len(text) != len(ticketText(fresh)) || at[0] < fresh {
			return fmt.Sprintf("sequence: that of %s went back, to %s", shard, text), nil
		}
		if t := slices.Max(append(tokens(after.shard(shard).String()), 0)); t > at[0] {
			return fmt.Sprintf("sequence: %s handed out %s, and would do so again: it is at %s", shard, ticketText(t), text), nil
		}
		highest = max(highest, at[0])
	}
	if t := slices.Max(append(tokens(reply), 0)); t > highest {
		return fmt.Sprintf("sequence: a step told of %s, and no shard has come so far", ticketText(t)), nil
	}
	return "", nil
}

func (st *steps) replyOf(text string, a *answer) {
	a.told = tokens(text)
	id, ok := st.byReply[text]
	if !ok {
		id = len(st.replies)
		st.replies = append(st.replies, text)
		st.byReply[text] = id
	}
	a.reply = id
}
