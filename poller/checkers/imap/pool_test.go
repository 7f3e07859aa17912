package imap

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/latest"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/dovecottest"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// pooled is the account "mail" in a pool that runs.
type pooled struct {
	*testing.T
	ctx      context.Context
	ring     *circulate.Ring
	registry *accounts.Registry
	checkers poller.Checkers
	stop     func()
}

// pool runs a pool with an account, for at most a minute.
func pool(t *testing.T, server redistest.Redis, checker *Checker, account accounts.Account) *pooled {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	ring, err := circulate.Open(ctx, server, circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	checkers, err := poller.NewCheckers(checker)
	if err != nil {
		t.Fatal(err)
	}
	registry := accounts.NewRegistry(ring, checkers)
	account.ID, account.Kind = "mail", "imap"
	if _, err := registry.Create(ctx, account); err != nil {
		t.Fatal(err)
	}
	p := &pooled{T: t, ctx: ctx, ring: ring, registry: registry, checkers: checkers}
	p.stop = p.run()
	return p
}

// run runs another pool, until stop or the end of the test.
func (p *pooled) run() (stop func()) {
	p.Helper()
	pool, err := poller.New(p.ring, p.checkers, poller.Config{PageLimit: 2, Heartbeat: 500 * time.Millisecond}, poller.Options{})
	if err != nil {
		p.Fatal(err)
	}
	done := make(chan error, 1)
	running, end := context.WithCancel(p.ctx)
	go func() { done <- pool.Run(running) }()
	stop = sync.OnceFunc(func() {
		end()
		if err := <-done; err != nil {
			p.Error(err)
		}
	})
	p.Cleanup(stop)
	return stop
}

// has waits until so many mails are in the stream, and checks that they are the mailbox' first ones,
// each once.
func (p *pooled) has(validity uint32, n int) {
	p.Helper()
	var want, got []string
	for i := range n {
		want = append(want, fmt.Sprint(validity, ":", i+1))
	}
	for tick := time.Tick(5 * time.Millisecond); len(got) < n && p.ctx.Err() == nil; <-tick {
		got = stream(p.T, p.ring)
	}
	if !slices.Equal(got, want) {
		p.Fatalf("got %v, want %v", got, want)
	}
}

// A pool finds each mail once: across pages, in IDLE, and after the connection broke.
func TestPool(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		s := start(t, "implicit")
		s.Post("a", 5)
		p := pool(t, server, newChecker(t, s), accounts.Account{Config: configOf(s, "implicit", "a", "GOOD")})
		p.has(1, 5)
		for n := range 3 {
			if err := s.AwaitIdle(p.ctx, "a", 1); err != nil {
				t.Fatal(err)
			}
			s.Post("a", 1)
			p.has(1, 6+n)
		}
		if n := s.Logins(); n != 1 {
			t.Errorf("%d logins", n)
		}
		if err := s.AwaitIdle(p.ctx, "a", 1); err != nil {
			t.Fatal(err)
		}
		s.Cut("a")
		s.Post("a", 1)
		p.has(1, 9)
		if view, err := p.registry.Get(p.ctx, "mail"); err != nil || view.Cadence != "every 0" || view.State.Failures != 0 {
			t.Errorf("%+v, %v", view, err)
		}
	})
}

// When a replica stops, another one has its mailbox in IDLE, and the mailbox keeps one connection.
func TestPoolHandsOver(t *testing.T) {
	s := start(t, "implicit")
	s.Post("a", 1)
	p := pool(t, redistest.Embedded(t), newChecker(t, s), accounts.Account{Config: configOf(s, "implicit", "a", "GOOD")})
	p.has(1, 1)
	for n := range 2 {
		if err := s.AwaitIdle(p.ctx, "a", 1); err != nil {
			t.Fatal(err)
		}
		other := p.run()
		p.stop()
		p.stop = other
		for tick := time.Tick(5 * time.Millisecond); (s.Logins() < 2+n || s.Connections("a") != 1) && p.ctx.Err() == nil; {
			<-tick
		}
		if err := s.AwaitIdle(p.ctx, "a", 1); err != nil {
			t.Fatal(err)
		}
		s.Post("a", 1)
		p.has(1, 2+n)
	}
}

// With a cadence other than "every 0" each check is a connection of its own.
func TestPoolPolls(t *testing.T) {
	s := start(t, "implicit")
	s.Post("a", 1)
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		logins := s.Logins()
		p := pool(t, server, newChecker(t, s), accounts.Account{Config: configOf(s, "implicit", "a", "GOOD"), Cadence: "every 1s"})
		p.has(1, 1)
		for tick := time.Tick(5 * time.Millisecond); s.Logins() < logins+2 && p.ctx.Err() == nil; {
			<-tick
		}
		p.has(1, 1)
		if err := s.AwaitIdle(p.ctx, "a", 0); err != nil {
			t.Error(err)
		}
		// Who looks sees what each connection has read, and no status.
		var checks []latest.Check
		for tick := time.Tick(5 * time.Millisecond); len(checks) == 0 && p.ctx.Err() == nil; <-tick {
			var err error
			if checks, _, err = latest.Of(p.ring).Look(p.ctx, "mail", time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range checks {
			if c.Bytes < 500 || c.Bytes > 10_000 || c.Status != 0 {
				t.Errorf("got %+v", c)
			}
		}
	})
}

// Mails that Dovecot takes while the account is in IDLE are found at once, and its restart loses and
// doubles none.
func TestPoolOnDovecot(t *testing.T) {
	server := dovecottest.Start(t)
	mail := []byte("Subject: x\r\n\r\ntext")
	validity, err := server.Deliver("a", mail)
	if err != nil {
		t.Fatal(err)
	}
	checker := New(checktest.Client(t, fetch.Options{}), source(), Options{})
	t.Cleanup(checker.lent.closeAll)
	p := pool(t, redistest.Embedded(t), checker, accounts.Account{Config: dovecotConfig(server, "a", "GOOD", "INBOX")})
	p.has(validity, 1)
	for n := range 2 {
		if _, err := server.Deliver("a", mail); err != nil { // without IDLE it would be found after the test's minute
			t.Fatal(err)
		}
		p.has(validity, 2+n)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Deliver("a", mail); err != nil {
		t.Fatal(err)
	}
	if _, err := p.registry.Nudge(p.ctx, "mail", accounts.Nudge{}); err != nil { // a check may have failed meanwhile
		t.Fatal(err)
	}
	p.has(validity, 4)
}

// An account that remembers mails does not find them again after UIDVALIDITY has changed.
func TestPoolRemembers(t *testing.T) {
	for config, want := range map[string]string{
		"":                         "1:1 1:2 1:3 2:1 2:2 2:3 2:4 2:5",
		`,"remember":"message_id"`: "1:1 1:2 1:3 2:4 2:5",
	} {
		redistest.Each(t, func(t *testing.T, server redistest.Redis) {
			s := start(t, "none")
			s.Post("a", 3)
			raw := configOf(s, "none", "a", "GOOD")
			raw = append(raw[:len(raw)-1], config+"}"...)
			p := pool(t, server, newChecker(t, s), accounts.Account{Config: raw, Cadence: "every 1h"})
			p.has(1, 3)
			if err := s.Recreate("a"); err != nil {
				t.Fatal(err)
			}
			s.Post("a", 4)
			s.Deliver("a", "Subject: no id\r\n\r\ntext")
			if _, err := p.registry.Nudge(p.ctx, "mail", accounts.Nudge{}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for tick := time.Tick(5 * time.Millisecond); !slices.Contains(got, "2:5") && p.ctx.Err() == nil; <-tick {
				got = stream(t, p.ring)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("got %v, want %s", got, want)
			}
		})
	}
}

func stream(t *testing.T, ring *circulate.Ring) (ids []string) {
	t.Helper()
	found, err := ring.Streams().Messages(context.Background(), 0, circulate.StreamStart, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range found {
		ids = append(ids, m.Message.ID)
	}
	return ids
}
