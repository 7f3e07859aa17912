package endtoend

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// source is a third party and its checker. Its accounts have messages numbered from 1,
// and the cursor is the number of the last one.
type source struct {
	mu     sync.Mutex
	posted map[string]int
}

// Kind is the kind of all accounts.
func (*source) Kind() string { return "source" }

// Validate accepts every config.
func (*source) Validate(json.RawMessage) error { return nil }

// RateKey is empty.
func (*source) RateKey(json.RawMessage) string { return "" }

// Check returns what comes after the cursor.
func (s *source) Check(_ context.Context, r poller.Request) (poller.Result, error) {
	s.mu.Lock()
	last := s.posted[r.Account]
	s.mu.Unlock()
	read, _ := strconv.Atoi(string(r.Cursor)) // none at first: from the beginning
	var result poller.Result
	for n := read + 1; n <= last && len(result.Messages) < r.Limit; n++ {
		result.Messages = append(result.Messages, poller.Message{ID: strconv.Itoa(n), Type: "text", Data: []byte(`{"text":"hello"}`)})
	}
	result.Cursor = []byte(strconv.Itoa(read + len(result.Messages)))
	result.HasMore = read+len(result.Messages) < last
	return result, nil
}

func (s *source) post(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posted[account]++
}

// total counts all messages.
func (s *source) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, posted := range s.posted {
		n += posted
	}
	return n
}

// check registers accounts, and has a replica check them every second until the test
// ends.
func (s *source) check(t *testing.T, ring *circulate.Ring, accounts int) {
	t.Helper()
	for i := range accounts {
		id := accountName(i)
		record := fmt.Appendf(nil, `{"id":%q,"kind":"source","cadence":"every 1s"}`, id)
		if _, err := ring.Register(t.Context(), ring.ShardOf(id), []circulate.Registration{{ID: id, Record: record}}); err != nil {
			t.Fatal(err)
		}
	}
	checkers, err := poller.NewCheckers(s)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := poller.New(ring, checkers, poller.Config{Concurrency: 16, GracePeriod: time.Second}, poller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func accountName(i int) string { return fmt.Sprintf("account-%02d", i) }

// postEvery posts messages, each to one of so many accounts, until stop is called.
func (s *source) postEvery(d time.Duration, accounts int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.Tick(d); ctx.Err() == nil; <-tick {
			s.post(accountName(rand.IntN(accounts)))
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
