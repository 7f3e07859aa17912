package ringtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

// returnMixed returns accounts together of which each brings something else or nothing, and
// some of which have been lost. What one brings must not become another's.
func returnMixed(f *fixture) {
	ctx := context.Background()
	f.tells(1000)
	for round := range 6 {
		var ids []string
		for i := range 50 {
			ids = append(ids, fmt.Sprintf("%d-%02d", round, i))
		}
		f.register(ids...)
		claims := f.claim(alice, ids...)
		entries := make(map[string]circulate.ClaimedEntry)
		f.do("DEL", f.key("messages"))
		all := make([]*mixed, len(claims))
		var messages []string
		for i, c := range claims {
			all[i] = mixedReturn(c)
			if all[i].page {
				if err := f.ring.Progress(ctx, c, circulate.Page{Kind: "page", Messages: []circulate.Message{message("0")}}); err != nil {
					f.Fatal(err)
				}
				messages = append(messages, c.ID+" page 0")
			}
		}
		for _, h := range f.oldest() {
			entries[h.Entry.ID] = h
		}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		items := make([]circulate.Return, len(all))
		want := make([]circulate.Outcome, len(all))
		for i, m := range all {
			items[i], want[i] = m.item, circulate.Written
			if m.lost {
				f.requeue(circulate.Moved, entries[m.item.Claim.ID])
				want[i] = circulate.Fenced
				continue
			}
			for _, msg := range m.item.Messages {
				messages = append(messages, fmt.Sprintf("%s %s %s", m.item.Claim.ID, m.item.Kind, msg.ID))
			}
		}
		if got, err := f.ring.Return(ctx, 0, items); err != nil || !slices.Equal(got, want) {
			f.Fatalf("%v, %v, want %v", got, err, want)
		}
		f.conserved()
		f.streams(messages)
		after := make(map[string]*circulate.Claim)
		b := f.batch(bob, len(all))
		for i := range b.Claims {
			after[b.Claims[i].ID] = &b.Claims[i]
		}
		for _, m := range all {
			m.expect(f, after[m.item.Claim.ID])
		}
		for _, c := range after {
			f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c), Cursor: c.Cursor, Failures: c.Failures, State: c.State})
		}
	}
}

// mixed is a return, and what becomes of it.
type mixed struct {
	item circulate.Return
	page bool // a page with a message comes before it
	lost bool
}

// mixedReturn makes up what a check brings: mostly little, and all of it now and then.
func mixedReturn(c *circulate.Claim) *mixed {
	rarely := func() bool { return rand.IntN(4) == 0 }
	m := &mixed{item: circulate.Return{Claim: c, Kind: []string{"feed", "mail"}[rand.IntN(2)], Mark: circulate.MarkOK}, page: rarely(), lost: rarely()}
	if rand.IntN(2) == 0 {
		m.item.Cursor = []byte([]string{"of " + c.ID, c.ID + strings.Repeat("c", 50)}[rand.IntN(2)])
	}
	if rand.IntN(2) == 0 {
		for n := range 1 + rand.IntN(3)*rand.IntN(2) {
			m.item.Messages = append(m.item.Messages, message(fmt.Sprint(n+1)))
		}
	}
	if rarely() {
		m.item.DropCursor = true
	}
	if rarely() {
		m.item.Failures, m.item.Error, m.item.Mark = 1, "http_500: of "+c.ID, 't'
	}
	if rarely() {
		m.item.State = "s" + c.ID
	}
	if rand.IntN(9) == 0 {
		m.item.Park = "gone " + c.ID
	}
	return m
}

// expect looks at the account's next claim, at its timeline and at where it is.
func (m *mixed) expect(f *fixture, next *circulate.Claim) {
	f.Helper()
	id, item := m.item.Claim.ID, m.item
	if m.lost {
		item = circulate.Return{Claim: item.Claim}
	}
	if (next == nil) != (item.Park != "") {
		f.Fatalf("%s is claimed again: %v, its return: %+v", id, next != nil, item)
	}
	if next == nil {
		if v := f.look(id); v.Place != circulate.Parked || v.Reason != item.Park {
			f.Errorf("%s is %s, %q", id, v.Place, v.Reason)
		}
	} else {
		if item.DropCursor {
			item.Cursor = nil
		}
		if string(next.Cursor) != string(item.Cursor) || next.Failures != item.Failures || next.State != item.State {
			f.Errorf("%s has cursor %q, %d failures, state %q, its return: %+v", id, next.Cursor, next.Failures, next.State, item)
		}
	}
	var want []string
	if n := len(item.Messages); m.page && !m.lost {
		want = append(want, fmt.Sprintf("found %d", n+1))
	} else if n > 0 {
		want = append(want, fmt.Sprintf("found %d", n))
	}
	switch {
	case m.lost:
		want = append(want, "requeued 0 "+alice)
	case item.Park != "":
		want = append(want, fmt.Sprintf("parked %d %s", item.Failures, item.Park))
	case item.Error != "" && m.item.DropCursor:
		want = append(want, "cursor_reset 1 "+item.Error)
	case item.Error != "":
		want = append(want, "failed 1 "+item.Error)
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(f.lines(id))); !slices.Equal(got, want) {
		f.Errorf("the timeline of %s is %q, want %q", id, got, want)
	}
}

// streams expects messages in the stream, in that order.
func (f *fixture) streams(want []string) {
	f.Helper()
	var got []string
	for _, m := range f.found() {
		got = append(got, fmt.Sprintf("%s %s %s", m.Account, m.Kind, m.Message.ID))
		if m.Message.Type != "text" || string(m.Message.Data) != `{"n":1}` || !m.Message.Time.Equal(message("").Time) {
			f.Errorf("a message of %s is %+v", m.Account, m.Message)
		}
	}
	if !slices.Equal(got, want) {
		f.Errorf("messages\n%q\nwant\n%q", got, want)
	}
}
