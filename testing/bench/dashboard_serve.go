package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// dashboardLimits are limits with a name for each of very many hosts.
const dashboardLimits = "feed/* concurrency=50; http/* concurrency=50; feed concurrency=2000"

// childFlags reads the arguments of a process that startAgain starts. The context is done when
// the input ends.
func childFlags(ctx context.Context, name string, args []string, in io.Reader, more ...func(*flag.FlagSet)) (context.Context, string, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	for _, add := range more {
		add(flags)
	}
	url := flags.String("redis", "", "URL of Redis")
	if err := flags.Parse(args); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	return ctx, *url, nil
}

// dashboardServe is the service with all roles but the poller's, or those that it is asked for,
// and one webhook.
func dashboardServe(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	roles := "api,monitor,delivery"
	ctx, url, err := childFlags(ctx, "dashboardserve", args, in, func(f *flag.FlagSet) { f.StringVar(&roles, "roles", roles, "as in ROUNDS_ROLES") })
	if err != nil {
		return err
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	dir, err := os.MkdirTemp("", "rounds-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	endpoints := filepath.Join(dir, "webhooks.json")
	text := fmt.Appendf(nil, `{"endpoints":[{"name":"crm","url":%q,"secrets":[{"secret":"CRM"}]}]}`, receiver.URL)
	if err := os.WriteFile(endpoints, text, 0o600); err != nil {
		return err
	}
	variables := map[string]string{
		"ROUNDS_REDIS_URL": url, "ROUNDS_NAMESPACE": dashboardSpace, "ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ROLES": roles,
		"ROUNDS_WEBHOOKS_FILE": endpoints, "ROUNDS_ALLOW_NETWORKS": "127.0.0.1", "ROUNDS_LIMITS": dashboardLimits,
		"ROUNDS_SERVICE_SECRET_CRM": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
	}
	s, lookup, err := serviceSettings(variables)
	if err != nil {
		return err
	}
	return service.Run(ctx, s, service.Options{Version: "bench", Lookup: lookup, Serving: func(addr string) {
		_, _ = fmt.Fprintln(out, "http://"+addr) // whoever started this waits for it
	}})
}

const dashboardSpace = "dashboard"

// dashboardPoll is a poller whose checkers ask nobody: the address of an account says how its
// checks end.
func dashboardPoll(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	ctx, url, err := childFlags(ctx, "dashboardpoll", args, in)
	if err != nil {
		return err
	}
	server, err := connect.Open(url, connect.Options{})
	if err != nil {
		return err
	}
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{Namespace: dashboardSpace})
	if err != nil {
		return err
	}
	checkers, err := poller.NewCheckers(pretender("feed"), pretender("http"))
	if err != nil {
		return err
	}
	limits, err := poller.ParseLimits(dashboardLimits, checkers.Kinds())
	if err != nil {
		return err
	}
	pool, err := poller.New(ring, checkers, poller.Config{Concurrency: 2000, Limits: limits, GracePeriod: time.Second, Host: "bench"}, poller.Options{})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return pool.Run(ctx) })
	if _, err := fmt.Fprintln(out, "polling"); err != nil {
		return err
	}
	return group.Wait()
}

// pretender is a checker of the kind of its name.
type pretender string

// Kind returns the name.
func (p pretender) Kind() string { return string(p) }

// Validate accepts everything.
func (pretender) Validate(json.RawMessage) error { return nil }

// RateKey returns the host of the config's URL.
func (pretender) RateKey(config json.RawMessage) string { return fetch.Host(addressIn(config)) }

// Check takes as long as a host across the world, and ends as the URL says.
func (pretender) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	select {
	case <-ctx.Done():
		return poller.Result{}, ctx.Err()
	case <-time.After(20*time.Millisecond + rand.N(80*time.Millisecond)):
	}
	url := addressIn(r.Config)
	for mark, failed := range failures() {
		if strings.Contains(url, mark) {
			return poller.Result{}, failed(url)
		}
	}
	if rand.N(20) > 0 {
		return poller.Result{}, nil
	}
	now := time.Now()
	return poller.Result{Messages: []circulate.Message{{
		ID: fmt.Sprint(now.UnixNano()), Type: "item", Time: now, Data: json.RawMessage(`{"title":"Something new"}`),
	}}}, nil
}

func addressIn(config json.RawMessage) string {
	var c struct{ URL string }
	_ = json.Unmarshal(config, &c) // the bench has made it
	return c.URL
}
