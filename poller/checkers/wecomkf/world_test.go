package wecomkf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// world is a number of replicas that check accounts of one corporation, without a network.
type world struct {
	*testing.T
	wecom    *wecom.WeCom
	tokens   token.Store
	replicas []*Checker
	secret   string // the deployed secret

	mu      sync.Mutex
	cursors map[string][]byte
	found   map[string][]int // the numbers of an account's messages, as found
}

func newWorld(t *testing.T, tokens token.Store, replicas int, options wecom.Options) *world {
	w := &world{T: t, wecom: wecom.New(options), tokens: tokens, secret: secret, cursors: make(map[string][]byte), found: make(map[string][]int)}
	w.wecom.AddCorp(corp, secret)
	client := fetch.New(fetch.Options{Transport: w.wecom})
	lookup := secrets.Source{Lookup: func(name string) (string, bool) { return w.secret, name == secrets.EnvPrefix+"KF" }}
	for range replicas {
		w.replicas = append(w.replicas, New(client, lookup, tokens))
	}
	return w
}

// accounts adds accounts with n texts each.
func (w *world) accounts(count, n int) (ids []string) {
	for i := range count {
		id := fmt.Sprintf("wk%04d", i)
		w.wecom.AddAccount(corp, id)
		w.wecom.PostN(id, n)
		ids = append(ids, id)
	}
	return ids
}

// page lets the n-th replica check an account once.
func (w *world) page(n int, id string, hint string) (poller.Result, *poller.CheckError) {
	w.Helper()
	w.mu.Lock()
	cursor := w.cursors[id]
	w.mu.Unlock()
	r := poller.Request{Account: id, CheckID: "c", Config: configOf("", id), Cursor: cursor, Limit: 100, Attempt: 1}
	if hint != "" {
		r.Hint = []byte(hint)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	result, err := w.replicas[n%len(w.replicas)].Check(ctx, r)
	var failed *poller.CheckError
	if err != nil && !errors.As(err, &failed) {
		w.Fatalf("%s: %v", id, err)
	}
	for _, hidden := range []string{secret, w.secret, "corpsecret", w.wecom.Token(corp)} {
		if failed != nil && hidden != "" && strings.Contains(failed.Error(), hidden) {
			w.Errorf("%s: %v tells %q", id, failed, hidden)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if result.Cursor != nil {
		w.cursors[id] = result.Cursor
	}
	for _, m := range result.Messages {
		w.found[id] = append(w.found[id], wecom.Number(m.Data))
	}
	return result, failed
}

// round checks all accounts at the same time, each once, and returns the number of failures by
// code.
func (w *world) round(ids []string) map[string]int {
	w.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	codes := make(map[string]int)
	for n, id := range ids {
		all.Go(func() {
			if _, failed := w.page(n, id, ""); failed != nil {
				mu.Lock()
				codes[failed.Code]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return codes
}

// complete expects each account's messages to be found once, in order.
func (w *world) complete(ids []string, n int) {
	w.Helper()
	want := make([]int, n)
	for i := range want {
		want[i] = i + 1
	}
	for _, id := range ids {
		if got := w.found[id]; !slices.Equal(got, want) {
			w.Errorf("%s: found %v, want 1 to %d", id, got, n)
		}
	}
}
