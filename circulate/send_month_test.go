package circulate_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A month of windows: people write, answers are queued in time and too late, and three
// replicas attempt them, lose replies, and fail in every way. No attempt is made outside a
// window or beyond its count, and no count is lost.
func TestAMonthOfWindows(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		m := &month{T: t, ring: openRing(t, redistest.Embedded(t), 1), random: rand.New(rand.NewPCG(seed, 0)),
			windows: make(map[string]*modelWindow), late: make(map[string]bool), under: make(map[string]underAttempt), done: make(map[string]int)}
		if _, err := m.ring.Register(t.Context(), 0, []circulate.Registration{{ID: "a", Record: []byte("{}")}}); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); time.Since(began) < 30*24*time.Hour; {
			time.Sleep(time.Duration(m.random.IntN(int(2 * time.Hour))))
			m.step()
		}
		m.done["window"] = len(m.late)
		for outcome, n := range m.done {
			t.Logf("%s: %d", outcome, n)
		}
		for _, outcome := range []string{"attempted", "refused", "window", "withdrawn"} {
			if m.done[outcome] == 0 {
				t.Errorf("in a month nothing was %s", outcome)
			}
		}
	})
}

// month is what the test knows of the outbox.
type month struct {
	*testing.T
	ring    *circulate.Ring
	random  *rand.Rand
	windows map[string]*modelWindow // by peer
	under   map[string]underAttempt
	late    map[string]bool // sends that were rejected because their window was over
	steps   int
	done    map[string]int
}

type modelWindow struct {
	until time.Time
	left  int
}

// underAttempt is an attempt, and the window from which it took.
type underAttempt struct {
	circulate.Attempt
	from time.Time
}

func (m *month) step() {
	m.Helper()
	m.steps++
	peer := fmt.Sprint("peer", m.random.IntN(4))
	switch m.random.IntN(8) {
	case 0:
		m.writes(peer)
	case 1, 2, 3:
		m.answers(peer)
	case 4, 5:
		m.attempts(false)
	case 6:
		m.attempts(true)
	case 7:
		m.settles()
	}
	if _, err := m.ring.Sends().Sweep(m.Context(), 0, 100, time.Hour, []string{"replica000", "replica001", "replica002"}); err != nil {
		m.Fatal(err)
	}
	if m.steps%32 == 0 {
		ended, _, err := m.ring.Sends().List(m.Context(), 0, circulate.GroupEnded, "a", "", 100)
		if err != nil {
			m.Fatal(err)
		}
		for _, s := range ended {
			if s.Code == "window" {
				m.late[s.ID] = true
			}
		}
	}
	for peer, w := range m.windows {
		got, known, err := m.ring.Sends().Window(m.Context(), "a", peer)
		if err != nil || known != w.until.After(time.Now()) || known && got.Left != w.left {
			m.Fatalf("step %d: the window of %s is %+v, %v, %v; want %d until %v", m.steps, peer, got, known, err, w.left, w.until)
		}
	}
}

// writes has a person write. Some messages are found late.
func (m *month) writes(peer string) {
	m.Helper()
	if err := m.ring.Account("a").Nudge(m.Context(), circulate.Nudge{}); err != nil {
		m.Fatal(err)
	}
	b, err := m.ring.Claim(m.Context(), 0, "replica000", 1, 0)
	if err != nil || len(b.Claims) != 1 {
		m.Fatal(b, err)
	}
	lasts := 24*time.Hour - time.Duration(m.random.IntN(3))*2*time.Hour
	message := circulate.Message{ID: fmt.Sprint(m.steps), Answerable: &circulate.Answerable{Peer: peer, For: lasts, Count: 10}}
	outcomes, err := m.ring.Return(m.Context(), 0, []circulate.Return{{Claim: &b.Claims[0], Due: time.Now().Add(time.Hour), Kind: "chat", Messages: []circulate.Message{message}}})
	if err != nil || outcomes[0] != circulate.Written {
		m.Fatal(outcomes, err)
	}
	w, until := m.windows[peer], time.UnixMilli(time.Now().UnixMilli()).Add(lasts)
	switch {
	case w == nil || until.Sub(w.until) >= time.Second:
		m.windows[peer] = &modelWindow{until, 10}
	case until.After(w.until): // perhaps the same message
		w.until = until
	}
}

func (m *month) answers(peer string) {
	m.Helper()
	send := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: peer, Windowed: true, Waits: m.random.IntN(3) == 0}
	if m.random.IntN(3) == 0 {
		send.Expires = time.Now().Add(time.Duration(m.random.IntN(int(24 * time.Hour))))
	}
	_, _, err := m.ring.Sends().Queue(m.Context(), send, "", circulate.SendBounds{})
	switch outside := (*circulate.WindowError)(nil); {
	case errors.As(err, &outside) && !send.Waits:
		m.done["refused"]++
	case err != nil && !errors.Is(err, circulate.ErrSendExpired):
		m.Fatal(err)
	}
}

// attempts has a replica attempt what is due, and perhaps lose the reply.
func (m *month) attempts(lost bool) {
	m.Helper()
	order := circulate.AttemptOrder{Replica: fmt.Sprintf("replica%03d", m.random.IntN(3)), Step: fmt.Sprint("step", m.steps), Kinds: []string{"chat"}, Most: 2, Lasts: 2 * time.Hour}
	attempts, _, err := m.ring.Sends().Attempt(m.Context(), 0, order)
	if err != nil {
		m.Fatal(err)
	}
	for _, a := range attempts {
		w := m.windows[a.Peer]
		if w == nil || !w.until.After(time.Now()) || w.left == 0 {
			m.Fatalf("step %d: attempted outside the window %+v: %+v", m.steps, w, a)
		}
		if _, doubled := m.under[a.ID]; doubled {
			m.Fatalf("step %d: attempted twice: %+v", m.steps, a)
		}
		if lost {
			continue
		}
		m.done["attempted"]++
		w.left--
		m.under[a.ID] = underAttempt{a, w.until}
	}
	if lost && len(attempts) > 0 {
		n, err := m.ring.Sends().Withdraw(m.Context(), 0, order.Replica, order.Step)
		if err != nil || n != len(attempts) {
			m.Fatal(n, err)
		}
		m.done["withdrawn"]++
	}
}

// settles settles all attempts, in any way.
func (m *month) settles() {
	m.Helper()
	for id, u := range m.under {
		delete(m.under, id)
		outcome := []circulate.SendOutcome{circulate.AttemptAccepted, circulate.AttemptRejected, circulate.AttemptUnknown, circulate.AttemptAgain, circulate.AttemptUnsent, circulate.AttemptNotBegun}[m.random.IntN(6)]
		settled, err := m.ring.Sends().Settle(m.Context(), []circulate.Settlement{{ID: id, Fence: u.Fence, Outcome: outcome, After: time.Now().Add(time.Hour)}})
		if err != nil {
			m.Fatal(err)
		}
		if !settled[0] {
			m.done["too late"]++ // it is unknown by now
			continue
		}
		if w := m.windows[u.Peer]; slices.Contains([]circulate.SendOutcome{circulate.AttemptUnsent, circulate.AttemptNotBegun}, outcome) && w.until.Equal(u.from) {
			w.left++
		}
	}
}
