package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/processes"
)

// buildRounds makes the service's binary.
func buildRounds(ctx context.Context, dir string) (string, error) {
	top, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/rounds-dev/rounds").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	path := filepath.Join(dir, "rounds")
	out, err := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(top)), "-o", path, "./cmd/rounds").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// roundsKilling is two replicas of the service, each with a monitor in it. Their accounts
// ask a connector in this process.
type roundsKilling struct {
	redis  *server
	binary string
	pair   int

	connector *hangingConnector
	replicas  []*processes.Process
}

func (k *roundsKilling) prepare(ctx context.Context) error {
	namespace := fmt.Sprintf("killed%d", k.pair)
	var err error
	if k.connector, err = newHangingConnector(); err != nil {
		return err
	}
	server, err := connect.Open(k.redis.URL(), connect.Options{})
	if err != nil {
		return err
	}
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{Namespace: namespace})
	if err != nil {
		return err
	}
	text := func(n int) []byte { return record(n, 0, "http", "every 1h", k.connector.url) }
	if err := register(ctx, ring, victimHolds, text, func(int) time.Time { return time.Time{} }); err != nil {
		return err
	}
	for i := range 2 {
		replica, err := processes.Start(fmt.Sprintf("replica %d of pair %d", i, k.pair), k.binary,
			[]string{"ROUNDS_REDIS_URL=" + k.redis.URL(), "ROUNDS_NAMESPACE=" + namespace, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true", "ROUNDS_LOG_FORMAT=json"},
			"serve", "--roles", "poller,monitor")
		if err != nil {
			return err
		}
		k.replicas = append(k.replicas, replica)
		err = await(ctx, replica.Name+" is ready", func() (bool, error) {
			if replica.Ended() {
				return false, fmt.Errorf("%s ended:\n%s", replica.Name, replica.Log())
			}
			if i == 0 {
				return k.connector.asked() == victimHolds, nil // it holds all accounts
			}
			return replica.Replica() != "", nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *roundsKilling) kill(ctx context.Context) (time.Duration, error) {
	k.connector.answer() // for all checks from now on
	killed := time.Now()
	k.replicas[0].Kill()
	if err := await(ctx, "the other replica has checked all", func() (bool, error) { return k.connector.answered() == victimHolds, nil }); err != nil {
		return 0, err
	}
	return k.connector.last().Sub(killed), nil
}

func (k *roundsKilling) close() {
	for _, r := range k.replicas {
		r.Kill()
	}
	if k.connector != nil {
		k.connector.close()
	}
}

// hangingConnector lets checks hang until it is told to answer. It answers those that
// arrive from then on.
type hangingConnector struct {
	url    string
	server *http.Server
	served chan struct{}

	mu        sync.Mutex
	answering bool
	hung      map[string]bool
	at        map[string]time.Time // when an account was answered first
}

func newHangingConnector() (*hangingConnector, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &hangingConnector{
		url:  "http://" + listener.Addr().String() + "/",
		hung: make(map[string]bool), at: make(map[string]time.Time), served: make(chan struct{}),
	}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(c.served)
		_ = c.server.Serve(listener) // until it is closed
	}()
	return c, nil
}

// ServeHTTP receives a check.
func (c *hangingConnector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Account struct{ ID string } }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	answering := c.answering
	if answering {
		if _, ok := c.at[asked.Account.ID]; !ok {
			c.at[asked.Account.ID] = time.Now()
		}
	} else {
		c.hung[asked.Account.ID] = true
	}
	c.mu.Unlock()
	if !answering {
		<-r.Context().Done() // the replica is killed
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (c *hangingConnector) asked() int    { c.mu.Lock(); defer c.mu.Unlock(); return len(c.hung) }
func (c *hangingConnector) answered() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.at) }
func (c *hangingConnector) answer()       { c.mu.Lock(); defer c.mu.Unlock(); c.answering = true }

func (c *hangingConnector) last() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	var last time.Time
	for _, at := range c.at {
		if at.After(last) {
			last = at
		}
	}
	return last
}

func (c *hangingConnector) close() {
	_ = c.server.Close() // its callers are gone
	<-c.served
}
