package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

const (
	openRetry    = 200 * time.Millisecond
	openRetryMax = 5 * time.Second
)

func newServeCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service",
		Long: `Run the service, with all its roles or some: api serves HTTP, poller checks
accounts, monitor requeues what dead or stuck pollers held, and delivery, which
must be asked for, hands messages to the endpoints of ROUNDS_WEBHOOKS_FILE. Any
number of processes of any roles may share one Redis.

` + settingsHelp(),
		Example: `  rounds serve
  ROUNDS_REDIS_URL=redis://127.0.0.1:6379 rounds serve --roles poller
  rounds serve --roles api,poller,monitor,delivery --webhooks-file webhooks.json
  rounds serve --redis-url redis://127.0.0.1:6379 --api-addr 127.0.0.1:9000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := settings.Read(env.lookup, cmd.Flags(), validate(env))
			if err != nil {
				return err
			}
			log := newLogger(env.stderr, s.Log, env.terminal(env.stderr))
			for _, name := range settings.UnknownVariables(env.environ) {
				log.Warn("unknown variable: is it misspelt?", "name", name)
			}
			limitOwnMemory(env, log)
			return serve(cmd.Context(), env, s, log, nil)
		},
	}
	settings.AddFlags(cmd.Flags())
	return cmd
}

// settingsHelp is the list of all variables.
func settingsHelp() string {
	var b strings.Builder
	_ = settings.Write(&b) // a strings.Builder takes everything
	return b.String()
}

func openRedis(s settings.Redis, log *slog.Logger) (connect.Server, error) {
	if s.URL == "" {
		log.Warn("ROUNDS_REDIS_URL is not set: using a Redis inside this process, in memory; everything in it goes with the process")
		return connect.NewEmbedded(), nil
	}
	single, err := connect.Open(s.URL, connect.Options{CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile})
	if err != nil {
		return nil, fmt.Errorf("ROUNDS_REDIS_URL: %w", err)
	}
	return single, nil
}

// serve runs the roles until ctx is done, and returns nil after that. Serving,
// if given, is told where HTTP is served, as soon as it is.
func serve(ctx context.Context, env environment, s settings.Settings, log *slog.Logger, serving func(addr string)) error {
	server, err := openRedis(s.Redis, log)
	if err != nil {
		return err
	}
	defer server.Close()

	metrics := newExposition()
	calls := newRedisMetrics(metrics.process, server)

	front, err := listen(s.API, metrics.process, log)
	if err != nil {
		return err
	}
	if front != nil {
		defer front.close()
		if serving != nil {
			serving(front.listener.Addr().String())
		}
	}

	ring, err := openRing(ctx, server, s.Redis, calls, log, front)
	if err != nil || ring == nil {
		return err
	}
	for _, warning := range connect.Durability(ctx, server) {
		log.Warn(warning)
	}

	notify := newNotifier(env.lookup)
	group, ctx := errgroup.WithContext(ctx)
	var ready sync.Once
	process := circulate.Process{Name: circulate.NewReplica(), Roles: strings.Join(s.API.Roles, ",")}
	work := func(ctx context.Context, ring *circulate.Ring) error {
		log.Info("ring open", "redis", server.Name(), "namespace", ring.Namespace(), "shards", ring.Shards(),
			"layout", ring.Layout(), "roles", strings.Join(s.API.Roles, ","))
		group, ctx := errgroup.WithContext(ctx)
		registry := prometheus.NewRegistry()
		countRing(registry, ring)
		if err := startRoles(ctx, group, env, s, ring, registry, metrics, log, front); err != nil {
			return err
		}
		metrics.roles.Store(registry)
		ready.Do(func() {
			if err := notify.Ready(); err != nil {
				log.Warn("the service manager could not be told", "error", err)
			}
		})
		group.Go(func() error {
			attend(ctx, ring, process, s.Poller.HeartbeatInterval)
			return nil
		})
		return group.Wait()
	}
	group.Go(func() error {
		return circulate.Follow(ctx, ring, func(ctx context.Context) (*circulate.Ring, error) {
			return openRing(ctx, server, s.Redis, calls, log, front)
		}, work)
	})
	if front != nil {
		group.Go(func() error {
			<-ctx.Done()
			front.shutDown()
			return nil
		})
	}
	group.Go(func() error {
		notify.Watch(ctx, func(context.Context) bool { return true })
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		if err := notify.Stopping(); err != nil {
			log.Warn("the service manager could not be told", "error", err)
		}
		return nil
	})
	return group.Wait()
}

// openRing tries until Redis is there or ctx is done; then the ring is nil.
// Settings that disagree with what is in Redis end it at once.
func openRing(ctx context.Context, server circulate.Server, s settings.Redis, calls redisMetrics, log *slog.Logger, front *frontDoor) (*circulate.Ring, error) {
	for try := 0; ; try++ {
		ring, err := circulate.Open(ctx, server, circulate.Options{Namespace: s.Namespace, Shards: s.Shards, Log: log, Observe: calls.observe})
		if err == nil {
			if try > 0 {
				log.Info("redis is there")
			}
			return ring, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if !circulate.Unavailable(err) {
			return nil, err
		}
		if try == 0 {
			log.Warn("redis does not serve; trying again until it does", "error", err)
		}
		if front != nil {
			front.wait(err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(min(openRetryMax, openRetry<<min(try, 6))):
		}
	}
}
