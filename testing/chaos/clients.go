package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"
)

// outcome is what a client knows of an operation.
type outcome string

const (
	done    outcome = "done"
	refused outcome = "refused" // certainly not done
	unknown outcome = "unknown"
)

const (
	register   = "register"
	deregister = "deregister"
	pause      = "pause"
	resume     = "resume"
	nudge      = "nudge"
)

// operation is one request to the API and what came of it.
type operation struct {
	kind, account string
	began, ended  time.Time
	outcome       outcome
	status        int  // 0: no answer
	racing        bool // others on the same account were under way
}

// clients change which accounts circulate, and remember the answers.
type clients struct {
	url   string
	third *third
	http  *http.Client

	mu      sync.Mutex
	history []operation
}

func newClients(url string, third *third) *clients {
	return &clients{url: url, third: third, http: &http.Client{Timeout: 3 * time.Second}}
}

// do does one operation and records it.
func (c *clients) do(ctx context.Context, kind, account string, racing bool) outcome {
	op := operation{kind: kind, account: account, began: time.Now(), racing: racing}
	op.outcome, op.status = c.request(ctx, kind, account)
	op.ended = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, op)
	return op.outcome
}

func (c *clients) request(ctx context.Context, kind, account string) (outcome, int) {
	method, path, body := http.MethodPost, "/v1/accounts/"+account+"/"+kind, []byte(nil)
	switch kind {
	case register:
		path = "/v1/accounts"
		body, _ = json.Marshal(map[string]any{ // plain strings are always marshalled
			"id": account, "kind": "http", "cadence": "every 2s", "config": c.third.config(routeConnector, account, len(account)),
		})
	case deregister:
		method, path = http.MethodDelete, "/v1/accounts/"+account
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return refused, 0
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return refused, 0
	}
	if err != nil {
		return unknown, 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // the status is enough
	switch {
	case answer.StatusCode < 300:
		return done, answer.StatusCode
	case answer.StatusCode < 500:
		return refused, answer.StatusCode
	}
	return unknown, answer.StatusCode
}

const (
	population = 180 // accounts that stay
	kept       = 25  // accounts that each client keeps
)

// run keeps changing accounts of its own until ctx is done. After an operation of unknown
// outcome its account is left alone: a request that may still be under way must not be
// overtaken by the next.
func (c *clients) run(ctx context.Context, name string, random *rand.Rand) {
	var own []string
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if len(own) < kept && random.IntN(3) == 0 {
			id := fmt.Sprintf("%s-%04d", name, n)
			c.third.Post(id)
			if c.do(ctx, register, id, false) == done {
				own = append(own, id)
			}
			continue
		}
		if len(own) == 0 {
			continue
		}
		i := random.IntN(len(own))
		kind := []string{pause, resume, resume, nudge, nudge, deregister}[random.IntN(6)]
		c.third.Post(own[i])
		if outcome := c.do(ctx, kind, own[i], false); outcome == unknown || outcome == done && kind == deregister {
			own = slices.Delete(own, i, i+1)
		}
	}
}

// nudge asks for checks of accounts at once, on behalf of a client that wants them all.
func (c *clients) nudge(ctx context.Context, ids []string) {
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := worker; i < len(ids); i += 8 {
				c.request(ctx, nudge, ids[i])
			}
		})
	}
	group.Wait()
}

// storm has many clients register, pause, resume, nudge and deregister the same few
// accounts at once. Then, one after the other, it leaves half of them registered.
func (c *clients) storm(ctx context.Context, ids []string, seed uint64, length time.Duration) {
	ctx, end := context.WithTimeout(ctx, length)
	defer end()
	var group sync.WaitGroup
	for worker := range uint64(6) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, worker))
			for ctx.Err() == nil {
				id := ids[random.IntN(len(ids))]
				c.third.Post(id)
				c.do(ctx, []string{register, register, pause, resume, nudge, deregister}[random.IntN(6)], id, true)
			}
		})
	}
	group.Wait()
	for i, id := range ids {
		c.do(ctx, deregister, id, false)
		if i%2 == 0 {
			c.do(ctx, register, id, false)
		}
	}
}

// operations returns all operations that were done so far.
func (c *clients) operations() []operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.history)
}
