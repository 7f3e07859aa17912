package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// sendBounds are what an exploration of the outbox begins with: how many senders, and how
// many sends to each of some peers, all of one account.
type sendBounds struct {
	senders int
	sends   []int
}

func (b sendBounds) names() string {
	sends := 0
	for _, n := range b.sends {
		sends += n
	}
	return fmt.Sprintf("%s to %s, %s", count(sends, "send"), count(len(b.sends), "peer"), count(b.senders, "sender"))
}

// sendConfig explores the outbox. Attempts are swept at any time, as if their replicas
// were dead. Changes are sends that somebody cancels or has sent again.
func sendConfig(b sendBounds) Config {
	c := Config{Law: sendLaw{}, Rest: true}
	s := sender()
	for range b.senders {
		c.Actors = append(c.Actors, s)
	}
	ids := sendIDs(b.sends)
	c.Surroundings = []*program{
		{name: "sweeper", run: func(a *actor) error {
			_, err := a.ring.Sends().Sweep(context.Background(), 0, 8, 0, nil)
			return err
		}},
		{name: "canceler", changes: true, run: func(a *actor) error {
			_, err := a.ring.Sends().Cancel(context.Background(), ids[a.choose(len(ids))])
			return unless(errors.Is(err, circulate.ErrSendState), err)
		}},
	}
	c.Actors = append(c.Actors, resolver(ids))
	c.Begin = func(st *store) error {
		d := &direct{store: st}
		a, err := newActor(nameText(reserved), nil, d, st.scripts)
		if err != nil {
			return err
		}
		ctx := context.Background()
		if _, err := a.ring.Register(ctx, 0, []circulate.Registration{{ID: accountID(0), Record: []byte("after")}}); err != nil {
			return err
		}
		for i, id := range ids {
			if _, _, err := a.ring.Sends().Queue(ctx, circulate.Send{ID: id, Account: accountID(0), Kind: accountKind, Peer: peerOf(id)}, "", circulate.SendBounds{}); err != nil {
				return fmt.Errorf("send %d: %w", i, err)
			}
		}
		return d.err
	}
	return c
}

// sendIDs returns the ids of so many sends to each peer.
func sendIDs(sends []int) []string {
	var ids []string
	for peer, n := range sends {
		for i := range n {
			ids = append(ids, fmt.Sprintf("%08XPEER%dSEND%015d", crc32.ChecksumIEEE([]byte(accountID(0))), peer, i))
		}
	}
	return ids
}

func peerOf(id string) string { return strings.ToLower(id[8:13]) }

// vendor is a list of the sends that a vendor has, which stands for the world outside
// Redis: what is in it cannot be taken back. again is a list of the sends that somebody
// decided to send again.
const (
	vendor = tag + "vendor"
	again  = tag + "again"
)

// sender is a replica that attempts a send, sends it, and settles it. It may be slow
// anywhere, and stop anywhere.
func sender() *program {
	return &program{name: "sender", named: true, renamed: true, run: func(a *actor) error {
		ctx := context.Background()
		attempts, _, err := a.ring.Sends().Attempt(ctx, 0, circulate.AttemptOrder{
			Replica: a.name, Step: a.name, Kinds: []string{accountKind}, Most: 1, Lasts: time.Hour,
		})
		if circulate.Unknown(err) {
			return nil // it could not withdraw what it may have taken
		}
		if err != nil || len(attempts) == 0 {
			return err
		}
		at := circulate.Settlement{ID: attempts[0].ID, Fence: attempts[0].Fence}
		a.at("sends", at.ID, at.Fence)
		switch a.pick(3) {
		case 0:
			at.Outcome = circulate.AttemptNotBegun
		case 1:
			at.Outcome = circulate.AttemptRejected // before a byte left
		case 2:
			at.Outcome = circulate.AttemptAccepted
			if err := a.push(vendor, at.ID); errors.Is(err, errCut) {
				at.Outcome = circulate.AttemptUnknown
			} else if err != nil {
				return err
			}
		}
		for {
			a.at("settles "+string(at.Outcome), at.ID, at.Fence)
			_, err := a.ring.Sends().Settle(ctx, []circulate.Settlement{at})
			if !circulate.Unknown(err) || a.pick(2) == 1 {
				return unless(circulate.Unknown(err), err)
			}
		}
	}}
}

// resolver looks at what is unknown and decides.
func resolver(ids []string) *program {
	return &program{name: "resolver", changes: true, run: func(a *actor) error {
		ctx := context.Background()
		id := ids[a.choose(len(ids))]
		s, err := a.ring.Sends().Look(ctx, id)
		if err != nil {
			return unless(circulate.Unknown(err), err)
		}
		if s.State != circulate.SendUnknown {
			return nil
		}
		r := circulate.Resolution{Fence: s.Fence, To: []circulate.SendState{circulate.SendAccepted, circulate.SendQueued}[a.pick(2)], Text: byHand}
		a.at("resolves "+r.To.String(), id, r.Fence)
		if r.To == circulate.SendQueued {
			if err := a.push(again, id); err != nil {
				return unless(errors.Is(err, errCut), err)
			}
		}
		_, err = a.ring.Sends().Resolve(ctx, id, r)
		return unless(circulate.Unknown(err) || errors.Is(err, circulate.ErrSendState), err)
	}}
}

// push appends a value to one of the lists that stand for the world outside.
func (a *actor) push(list, value string) error {
	conn, err := a.server.Conn(context.Background(), "")
	if err != nil {
		return err
	}
	_, err = conn.Do("RPUSH", list, value)
	return errors.Join(err, conn.Close())
}

// sendLaw is what must hold of the outbox.
type sendLaw struct{}

// sendRecord is a send in a snapshot.
type sendRecord struct {
	id, state, fence, peer, place, at string
}

// sendFields reads a record: see sends.lua.
func sendFields(record string) []string {
	var fields []string
	lengths, rest, _ := strings.Cut(record, "|")
	for length := range strings.SplitSeq(strings.TrimSuffix(lengths, ","), ",") {
		n, err := strconv.Atoi(length)
		if err != nil || n > len(rest) {
			return nil
		}
		fields, rest = append(fields, rest[:n]), rest[n:]
	}
	return fields
}

func sendsOf(s snapshot) (all []sendRecord, fault string) {
	elements := s.get("sends")
	for i := 0; i+1 < len(elements); i += 2 {
		f := sendFields(elements[i+1])
		if len(f) != 24 {
			return nil, fmt.Sprintf("%s has a record of %d fields", elements[i], len(f))
		}
		all = append(all, sendRecord{id: elements[i], state: f[0], fence: f[1], peer: f[2] + "\x00" + f[4], place: f[11], at: f[12]})
	}
	return all, ""
}

// members returns the members of a sorted set.
func (s snapshot) members(name string) []string {
	var members []string
	all := s.get(name)
	for i := 0; i < len(all); i += 2 {
		members = append(members, all[i])
	}
	return members
}

func numberOf(all []string, value string) (n int) {
	for _, other := range all {
		if other == value {
			n++
		}
	}
	return n
}

func (sendLaw) holds(s snapshot) (fault, strict string) {
	sends, fault := sendsOf(s)
	if fault != "" {
		return fault, ""
	}
	line, due, index := s.members("sends:line"), s.members("sends:due"), s.members("sends:index")
	had, resolved := s.get("vendor"), s.get("again")
	heads := make(map[string]string)
	for _, member := range line {
		peer := member[:strings.LastIndexByte(member, 0)]
		if heads[peer] == "" {
			heads[peer] = member[len(member)-circulate.SendIDLength:]
		}
	}
	placed, dues := 0, 0
	for _, r := range sends {
		sent := numberOf(had, r.id)
		if sent > 1+numberOf(resolved, r.id) {
			return fmt.Sprintf("doubled: the vendor has %s %d times", r.id, sent), ""
		}
		// A send that waits or has ended without being sent has not been sent, unless
		// somebody had a send again whose fate he did not know.
		if sent > 0 && numberOf(resolved, r.id) == 0 && strings.Contains("qncx", r.state) {
			return fmt.Sprintf("untrue: the vendor has %s, and its state is %s", r.id, r.state), ""
		}
		if sent == 0 && numberOf(resolved, r.id) == 0 && r.state == "y" && !resolvedByHand(s, r) {
			return fmt.Sprintf("untrue: %s is accepted, and the vendor does not have it", r.id), ""
		}
		n := slices.IndexFunc(index, func(m string) bool { return strings.HasSuffix(m, r.id) && m[:1] == groupOf(r.state) })
		if n < 0 {
			return fmt.Sprintf("lost: %s is in no list of its state, %s", r.id, r.state), ""
		}
		if at := len(index[n]) - len(r.id) - 13; numberOf(index, "t"+index[n][:1]+index[n][at:]) != 1 {
			return fmt.Sprintf("lost: %s is %s, and not in the order of time", r.id, r.state), ""
		}
		in := numberOf(line, r.peer+"\x00"+r.place+r.id)
		if wants := r.state == "q" || r.state == "a"; wants != (in == 1) {
			return fmt.Sprintf("lost: %s is %s, and %d times in line", r.id, r.state, in), ""
		}
		placed += in
		if r.state == "a" && heads[r.peer] != r.id {
			return fmt.Sprintf("overtaken: %s is attempted before %s", r.id, heads[r.peer]), ""
		}
		if r.state == "q" && heads[r.peer] == r.id {
			dues++
			if numberOf(due, accountKind+"\t"+r.at+r.peer) != 1 {
				return fmt.Sprintf("lost: %s is the first of its peer, and not due", r.id), ""
			}
		}
	}
	if placed != len(line) || dues != len(due) || 2*len(sends) != len(index) {
		return fmt.Sprintf("strays: %d sends, line %q, due %q, index %q", len(sends), line, due, index), ""
	}
	return "", ""
}

func groupOf(state string) string {
	if strings.Contains("qau", state) {
		return state
	}
	return "e"
}

// resolvedByHand reports whether somebody said that a send was accepted.
func resolvedByHand(s snapshot, r sendRecord) bool {
	elements := s.get("sends")
	at := slices.Index(elements, r.id)
	return sendFields(elements[at+1])[15] == byHand
}

// byHand is the text of what a resolver accepts.
const byHand = "by hand"

func (sendLaw) mayWrite(snapshot, emitted) string { return "" }

// goesOn: what is unknown or rejected is queued again by nobody but a resolver, and what
// else has ended stays as it is.
func (sendLaw) goesOn(before, after snapshot, step string) string {
	was, _ := sendsOf(before)
	is, _ := sendsOf(after)
	for _, b := range was {
		at := slices.IndexFunc(is, func(r sendRecord) bool { return r.id == b.id })
		if at < 0 {
			return fmt.Sprintf("lost: %s is gone after %s", b.id, step)
		}
		a := is[at]
		if strings.Contains("yncx", b.state) && a.state != b.state && !(b.state == "n" && a.state == "q" && step == "resolve send") {
			return fmt.Sprintf("undone: %s was %s, and is %s after %s", b.id, b.state, a.state, step)
		}
		if b.state == "u" && strings.Contains("qa", a.state) && step != "resolve send" {
			return fmt.Sprintf("repeated: %s was unknown, and is %s after %s", b.id, a.state, step)
		}
	}
	return ""
}

// recovers has a monitor and a sender take over that come later. Then each send has
// ended, and what was not under an attempt has not become unknown.
func (sendLaw) recovers(st *store, from snapshot) (string, error) {
	m := st.embedded.Miniredis()
	if err := restore(m, st.shards, from, 0); err != nil {
		return "", err
	}
	d := &direct{store: st}
	a, err := newActor(nameText(reserved), nil, d, st.scripts)
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	if _, err := a.ring.Sends().Sweep(ctx, 0, 8, 0, nil); err != nil {
		return "", err
	}
	was, _ := sendsOf(from)
	sent := make(map[string]bool)
	for step := range 2 * (len(was) + 1) {
		attempts, _, err := a.ring.Sends().Attempt(ctx, 0, circulate.AttemptOrder{
			Replica: a.name, Step: fmt.Sprint("later", step), Kinds: []string{accountKind}, Most: 10, Lasts: time.Hour,
		})
		if err != nil {
			return "", err
		}
		for _, at := range attempts {
			if sent[at.ID] {
				return fmt.Sprintf("after all have stopped, %s is attempted twice", at.ID), nil
			}
			sent[at.ID] = true
			if _, err := a.ring.Sends().Settle(ctx, []circulate.Settlement{{ID: at.ID, Fence: at.Fence, Outcome: circulate.AttemptAccepted}}); err != nil {
				return "", err
			}
		}
	}
	for _, b := range was {
		s, err := a.ring.Sends().Look(ctx, b.id)
		if err != nil {
			return "", err
		}
		wants := map[string]circulate.SendState{"q": circulate.SendAccepted, "a": circulate.SendUnknown}[b.state]
		if wants == 0 {
			wants = circulate.SendState(b.state[0])
		}
		if s.State != wants || sent[b.id] != (b.state == "q") {
			return fmt.Sprintf("after all have stopped, %s was %s, and becomes %s", b.id, b.state, s.State), d.err
		}
	}
	return "", d.err
}

// levelSend drops from a record what no step depends on: how often it was attempted.
func levelSend(record string) string {
	fields := sendFields(record)
	if len(fields) != 24 {
		return record
	}
	fields[13] = "1"
	var lengths strings.Builder
	for _, field := range fields {
		fmt.Fprintf(&lengths, "%d,", len(field))
	}
	return lengths.String() + "|" + strings.Join(fields, "")
}
