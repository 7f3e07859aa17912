package imap

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A pool finds each mail once, across pages and checks.
func TestPool(t *testing.T) {
	s := start(t, "implicit")
	s.Post("a", 5)
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ring, err := circulate.Open(ctx, server, circulate.Options{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		checkers, err := poller.NewCheckers(newChecker(t, s))
		if err != nil {
			t.Fatal(err)
		}
		account := accounts.Account{ID: "mail", Kind: "imap", Cadence: "every 0s", Config: configOf(s, "implicit", "a", "GOOD")}
		if _, err := accounts.NewRegistry(ring, checkers).Create(ctx, account); err != nil {
			t.Fatal(err)
		}
		pool, err := poller.New(ring, checkers, poller.Config{PageLimit: 2}, poller.Options{})
		if err != nil {
			t.Fatal(err)
		}
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- pool.Run(running) }()
		var want, got []string
		for n := range 5 {
			want = append(want, fmt.Sprintf("1:%d", n+1))
		}
		for tick := time.Tick(20 * time.Millisecond); len(got) < len(want) && ctx.Err() == nil; <-tick {
			got = stream(t, ring)
		}
		logins := s.Logins()
		for tick := time.Tick(20 * time.Millisecond); s.Logins() < logins+3 && ctx.Err() == nil; {
			<-tick // three more checks find nothing new
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got = stream(t, ring); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
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
