// Package service is the whole service in one process: it opens Redis, wires the roles of a process
// together as the settings say, and serves HTTP for them. Only here do all kinds, routes and
// endpoints come together.
//
// It is not a command: the caller handles flags, logs for people and signals.
package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/telemetry"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/poller/files/keep"
	"github.com/rounds-dev/rounds/poller/span"
)

const (
	openRetry    = 200 * time.Millisecond
	openRetryMax = 5 * time.Second
)

// Options are what a service needs besides its settings. The zero Options are usable.
type Options struct {
	// Version is the version that the API and the requests to third parties name; empty: (devel).
	Version string
	// Commit is the beginning of the hash of the commit that the program was built from;
	// empty if it is unknown.
	Commit string
	// Lookup finds variables that are not settings: secrets, as ROUNDS_SECRET_NAME, and
	// what systemd tells its services. Nil means os.LookupEnv.
	Lookup settings.Lookup
	// Program is the program that errors say needs a setting; empty: rounds serve.
	Program string
	// Read reads the settings again, for POST /v1/reload and Hangups; nil: they are never
	// read again.
	Read Read
	// Hangups make the service read its settings again, like SIGHUP; may be nil. Run
	// receives from it until it returns.
	Hangups <-chan os.Signal
	// Applied is called with the new settings after they were read again and apply; may be
	// nil.
	Applied func(settings.Settings)
	// Log is the service's logger; nil: nothing is logged.
	Log *slog.Logger
	// Kinds are kinds besides those that the service knows.
	Kinds []Kind
	// Sinks are types of endpoints besides those that the service knows.
	Sinks []Sink
	// Hurry, when it is closed after Run's context is done, ends what is under way at
	// once: accounts are released, and the process reports that it leaves. Nil: there is
	// no hurry.
	Hurry <-chan struct{}
	// Holding is poller.Options.Holding; may be nil. See HeldMemory.
	Holding func(held int)
	// Serving is called as soon as HTTP is served, with the address as HOST:PORT; may be
	// nil.
	Serving func(addr string)
	// Polling is called with the process's name as a replica before it polls, and again
	// when it gets another name; may be nil.
	Polling func(replica string)
	// Listener replaces the API's address; nil: the settings' address is opened. Run may close
	// it, and the caller closes it after Run.
	Listener net.Listener
	// Redis replaces the Redis that the settings name, and stays open; nil: the settings'
	// Redis is used. The caller closes it after Run.
	Redis connect.Server
	// Files replaces the store of files that the settings name; nil: the settings' store is used.
	Files files.Store
	// WeChat is the URL at which WeChat accounts are signed in, unless the caller names another;
	// empty: WeChat's own.
	WeChat string
	// Demo is what visitors of a demonstration may do; nil: this is no demonstration.
	Demo *api.Demo

	reserved []string     // files that are not secrets of records
	seals    *seals       // stored secrets; nil: none
	name     string       // the process's name, also as a replica
	scan     *scan.Server // where WeChat accounts are signed in; nil: nowhere
	mailbox  []mailbox.Server
	pushedTo string // where hubs of feeds reach the API; empty: nowhere

	keeping *atomic.Pointer[keep.Keeper] // gets what fetches files in this process
	spans   span.Recorder                // nil: nothing is recorded
}

// withDefaults returns the options with defaults for what was left out.
func (o Options) withDefaults() Options {
	o.Version = cmp.Or(o.Version, "(devel)")
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Lookup == nil {
		o.Lookup = os.LookupEnv
	}
	if o.Serving == nil {
		o.Serving = func(string) {}
	}
	if o.Polling == nil {
		o.Polling = func(string) {}
	}
	return o
}

// Run runs the roles of a process until ctx is done, and then returns nil. It waits for a Redis
// that is not there yet. It returns an error for settings in which Validate finds a fault, or that
// contradict Redis.
func Run(ctx context.Context, s settings.Settings, o Options) (err error) {
	o = o.withDefaults()
	reload := newReloader(s, o)
	o.Lookup, o.reserved = reload.find, s.Files()
	obeying, stop := context.WithCancel(context.WithoutCancel(ctx))
	var obeyed sync.WaitGroup
	obeyed.Go(func() { reload.obey(obeying, o.Hangups) })
	defer obeyed.Wait()
	defer stop()
	warnOfReach(s, o.Log)
	warnOfWebhooks(s, o.Log)
	reserved := &fetch.Reserved{}
	metrics := newExposition(o.Version, o.Commit)
	// The address comes first, so that a process whose address is in use creates no data directory.
	front, err := openFront(s.API, o.Listener, o.Lookup, metrics.process, o.Log)
	if err != nil {
		return err
	}
	recorder, err := openSpans(ctx, o, metrics.process)
	if err != nil {
		if front != nil {
			front.close()
		}
		return err
	}
	if recorder != nil {
		o.spans = recorder
		defer recorder.Close()
	}
	server, closeRedis, err := o.redis(ctx, s.Redis, reserved)
	if err != nil {
		if front != nil {
			front.close()
		}
		return err
	}
	defer func() { err = errors.Join(err, closeRedis()) }() // after everything that uses it

	if o.Files == nil {
		if o.Files, err = OpenFiles(ctx, s, o); err != nil {
			return err
		}
		if closer, ok := o.Files.(interface{ Close() }); ok {
			defer closer.Close()
		}
	}
	calls := newRedisMetrics(metrics.process, server)
	if own, ok := server.(*ownRedis); ok {
		own.export(metrics.process)
	}

	if front != nil {
		defer front.close()
		if err := reload.open(front); err != nil {
			return err
		}
		front.warnOfDoors(s)
		o.Serving(front.listener.Addr().String())
		if s.API.Roles.Has(settings.RoleAPI) && s.API.Dashboard && o.Demo == nil {
			if at := dashboardAt(front.listener.Addr()); at != "" {
				o.Log.Info("the dashboard is served", "url", at)
			}
		}
	}

	if err := reload.join(ctx, reload.timelines); err != nil {
		return err
	}
	opening := circulate.Options{Namespace: s.Redis.Namespace, Shards: s.Redis.Shards, Log: o.Log, Observe: calls.observe,
		Timeline: func() int { return int(reload.lines.Load()) }}
	ring, err := openRing(ctx, server, s.Redis, opening, front)
	if err != nil || ring == nil {
		return err
	}
	storage := &store{server: server}
	storage.tell(ctx, o.Log)

	notify := newNotifier(o.Lookup)
	group, ctx := errgroup.WithContext(ctx)
	var ready sync.Once
	present := newPresence(o.Version, reload.settings, reload.lost)
	var name atomic.Value // with the latest ring
	work := func(ctx context.Context, ring *circulate.Ring) error {
		o, present := o, present
		o.name = circulate.NewReplica() // another name for each number of shards: what the last pool left belongs to a dead replica
		present.process.Name = o.name
		present.files = new(atomic.Pointer[keep.Keeper])
		o.keeping = present.files
		if before := name.Swap(o.name); before != nil {
			o.Log.Info("the number of shards changed: the process goes on under another name", "process", o.name, "before", before)
		}
		o.Log.Info("ring open", "process", o.name, "redis", server.Name(), "namespace", ring.Namespace(), "shards", ring.Shards(),
			"layout", ring.Layout(), "roles", strings.Join(s.API.Roles, ","))
		group, ctx := errgroup.WithContext(ctx)
		registry := prometheus.NewRegistry()
		countRing(registry, ring)
		if err := reload.openTrail(ring, registry); err != nil {
			return err
		}
		if reload.lines.Load() == 0 {
			if err := ring.Timeline().Forget(ctx); err != nil {
				o.Log.Warn("lines of timelines were not removed", "error", err)
			}
		}
		if err := startRoles(ctx, group, reload, o, ring, storage, registry, metrics, front, reserved); err != nil {
			return err
		}
		metrics.roles.Store(registry)
		ready.Do(func() {
			if err := notify.ready(); err != nil {
				o.Log.Warn("the service manager could not be told", "error", err)
			}
		})
		group.Go(func() error {
			present.attend(ctx, ring, s.Poller.HeartbeatInterval)
			return nil
		})
		return group.Wait()
	}
	group.Go(func() error {
		return circulate.Follow(ctx, ring, func(ctx context.Context) (*circulate.Ring, error) {
			return openRing(ctx, server, s.Redis, opening, front)
		}, work)
	})
	if front != nil {
		group.Go(func() error {
			<-ctx.Done()
			front.shutDown(o.Hurry)
			return nil
		})
	}
	group.Go(func() error {
		notify.watch(ctx, present.pulse.alive)
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		if err := notify.stopping(); err != nil {
			o.Log.Warn("the service manager could not be told", "error", err)
		}
		return nil
	})
	return group.Wait()
}

// openSpans returns what records the process's traces, or nil if nobody asks for them.
func openSpans(ctx context.Context, o Options, registry prometheus.Registerer) (*telemetry.Recorder, error) {
	if o.spans != nil || !telemetry.Asked(o.Lookup) {
		return nil, nil
	}
	optIn, _ := o.Lookup("OTEL_SEMCONV_STABILITY_OPT_IN")
	recorder, err := telemetry.Open(ctx, telemetry.Options{Version: o.Version, Instance: rand.Text(), OptIn: optIn, Log: o.Log, Metrics: registry})
	if err == nil {
		o.Log.Info("traces are exported, as the variables OTEL_… say")
	}
	return recorder, err
}

// redis returns the Redis of the process, and a function that closes it when the service ends.
func (o Options) redis(ctx context.Context, s settings.Redis, reserved *fetch.Reserved) (server connect.Server, done func() error, err error) {
	if o.Redis != nil {
		if at, ok := o.Redis.(interface{ Addr() net.Addr }); ok {
			reserved.Add(at.Addr())
		}
		return o.Redis, func() error { return nil }, nil
	}
	if s.InDataDir() {
		own, err := openOwn(ctx, s, o.Version, "rounds serve", o.Log)
		if err != nil {
			return nil, nil, err
		}
		o.Log.Info("ROUNDS_REDIS_URL is not set: using a Redis inside this process, which stores its data", "path", s.DataDir)
		return own, own.Close, nil
	}
	server, err = openRedis(s, o.Log, reserved)
	if err != nil {
		return nil, nil, err
	}
	return server, func() error {
		_ = server.Close() // the process ends, or at least its service
		return nil
	}, nil
}

// openRedis prepares connections to Redis, and reserves its addresses: checks and
// webhooks must not reach them.
func openRedis(s settings.Redis, log *slog.Logger, reserved *fetch.Reserved) (connect.Server, error) {
	if s.URL == "" {
		log.Warn("nothing is stored: the Redis inside this process has everything in memory, and loses it when the process ends")
		return connect.NewEmbedded(), nil
	}
	options := connectOptions(s)
	options.Dialed = reserved.Add
	server, err := connect.Open(s.URL, options)
	if err != nil {
		return nil, fmt.Errorf("ROUNDS_REDIS_URL: %w%s", err, hintOf(s.URL))
	}
	return server, nil
}

// hintOf says what is probably wrong with an unreadable URL, or "".
func hintOf(url string) string {
	if !connect.Unescaped(url) {
		return ""
	}
	return "; a password with / ? # @ or % in it must be percent-encoded there (%2F %3F %23 %40 %25), or be in a file that ROUNDS_REDIS_PASSWORD_FILE names"
}

func connectOptions(s settings.Redis) connect.Options {
	return connect.Options{
		CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile,
		PasswordFile: s.PasswordFile, SentinelPasswordFile: s.SentinelPasswordFile,
	}
}

// openRing tries until Redis is there or ctx is done, in which case the ring is nil. Settings that
// contradict Redis end it at once.
func openRing(ctx context.Context, server connect.Server, s settings.Redis, o circulate.Options, front *frontDoor) (*circulate.Ring, error) {
	log := o.Log
	for try := 0; ; try++ {
		ring, err := openFit(ctx, server, o)
		if err == nil {
			if try > 0 {
				log.Info("redis is there")
			}
			return ring, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if unfit := new(connect.Unfit); errors.As(err, &unfit) && !unfit.Passing {
			return nil, err
		}
		// A file may still get the right password, because it is read for each connection.
		if !circulate.Unavailable(err) && !(circulate.LockedOut(err) && s.PasswordFile != "") {
			return nil, withCure(err)
		}
		if try == 0 {
			log.Warn("redis does not serve; trying again until it does", "redis", server.Name(), "error", err)
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

// openFit opens the ring, unless the servers say that it cannot work on them, in which case nothing
// is written there.
func openFit(ctx context.Context, server connect.Server, o circulate.Options) (*circulate.Ring, error) {
	if err := connect.Fit(ctx, server); err != nil {
		return nil, fmt.Errorf("open namespace %q: %w", o.Namespace, err)
	}
	return circulate.Open(ctx, server, o)
}

// withCure adds to an error of opening what the operator can do.
func withCure(err error) error {
	var shards *circulate.ShardsError
	if !errors.As(err, &shards) {
		return err
	}
	return fmt.Errorf("%w: leave ROUNDS_SHARDS out, or set it to %d; `rounds reshard --to %d` changes the number of shards while the service goes on",
		err, shards.Has, shards.Want)
}
