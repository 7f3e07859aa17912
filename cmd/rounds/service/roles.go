package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/callback"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/pages"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/deployments/guide"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/files/keep"
)

// startRoles starts the roles of the process in the group.
func startRoles(ctx context.Context, group *errgroup.Group, reload *reloader, o Options, ring *circulate.Ring,
	storage *store, registry *prometheus.Registry, metrics http.Handler, front *frontDoor, reserved *fetch.Reserved) error {
	s := reload.settings()
	o.seals = newSeals(ring)
	if err := reload.join(ctx, o.seals.take); err != nil {
		return err
	}
	client := newClient(s.Poller, o, reserved)
	context.AfterFunc(ctx, client.Close)
	o.scan, o.mailbox = scanAt(client, o.WeChat), mailboxesAt(client, newSecrets(s.Poller, o))
	o.pushedTo = s.API.PublicURL
	checkers, err := newCheckers(client, s.Poller, o, credential.Of(ring), registry)
	if err != nil {
		return err
	}
	if err := reload.join(ctx, reachOf(client)); err != nil {
		return err
	}
	fetched := keepMetrics(o, registry)
	keeper, err := newKeeper(s, o, ring, checkers, fetched)
	if err != nil {
		return err
	}
	if s.API.Roles.Has(settings.RolePoller) {
		if err := startPoller(ctx, group, reload, o, ring, checkers, registry); err != nil {
			return err
		}
	}
	if s.API.Roles.Has(settings.RoleMonitor) {
		if err := startMonitor(ctx, group, reload, o, ring, storage, checkers, registry); err != nil {
			return err
		}
	}
	if s.API.Roles.Has(settings.RoleDelivery) {
		consumed := delivery.NewMetrics(registry)
		if err := startDelivery(ctx, group, reload, o, ring, keeper, registry, consumed, reserved); err != nil {
			return err
		}
		if keeper != nil {
			startKeeping(ctx, group, s, o, ring, keeper, fetched, consumed)
			o.keeping.Store(keeper)
		}
	}
	startCollecting(ctx, group, s, o, ring, fetched)
	return startFront(ctx, group, reload, o, ring, storage, checkers, client, keeper, registry, metrics, front)
}

// startPoller starts the pool, which takes the limits and the budget of new settings while it runs.
func startPoller(ctx context.Context, group *errgroup.Group, reload *reloader, o Options, ring *circulate.Ring,
	checkers poller.Checkers, registry *prometheus.Registry) error {
	pool, err := newPool(ring, checkers, reload.settings(), registry, o)
	if err != nil {
		return err
	}
	if err := reload.join(ctx, limitsOf(pool, checkers)); err != nil {
		return err
	}
	if err := reload.join(ctx, budgetOf(func(perSecond float64) { pool.SetBudget(perSecond > 0) })); err != nil {
		return err
	}
	group.Go(func() error { return pool.Run(ctx) })
	return nil
}

// startMonitor starts the monitor, which takes the budget of new settings while it runs.
func startMonitor(ctx context.Context, group *errgroup.Group, reload *reloader, o Options, ring *circulate.Ring,
	storage *store, checkers poller.Checkers, registry *prometheus.Registry) error {
	s := reload.settings()
	config := monitor.Config{
		LongTimeout:   s.Monitor.LongTimeout,
		DeadAfter:     s.Monitor.DeadAfter,
		SweepInterval: s.Monitor.SweepInterval,
		Retention:     s.Monitor.MessageRetention,
		Kept:          s.Monitor.MessagesKept,
		KeptBytes:     int64(s.Monitor.MessagesMemory) << 20,
		MemoryMark:    s.Poller.MemoryMark,
		DeadRetention: s.Monitor.DeadRetention,
		DeadKept:      s.Monitor.DeadKept,
		Quarantine:    quarantine(s.Monitor),
		ProbeInterval: s.Monitor.ProbeParked,
		AuditInterval: s.Monitor.AuditInterval,
		AuditRepair:   s.Monitor.AuditRepair,

		ProblemsInterval: problemsInterval(o),
	}
	m, err := monitor.New(ring, config, monitor.Options{
		Log:          o.Log,
		Metrics:      monitor.NewMetrics(registry),
		Registration: accounts.Restored,
		Concerns:     storage.concerns,
		Retentions:   checkers,
		Steps:        circulate.Steps(),
	})
	if err != nil {
		return err
	}
	if err := reload.join(ctx, budgetOf(m.SetBudget)); err != nil {
		return err
	}
	group.Go(func() error { return m.Run(ctx) })
	return nil
}

// startFront makes the front door serve the process's routes, and works on jobs that were
// ordered over the API. Streams end when ctx is done.
func startFront(ctx context.Context, group *errgroup.Group, reload *reloader, o Options, ring *circulate.Ring,
	storage *store, checkers poller.Checkers, client *fetch.Client, keeper *keep.Keeper, registry *prometheus.Registry, metrics http.Handler, front *frontDoor) error {
	if front == nil {
		return nil
	}
	s := reload.settings()
	if !s.API.Roles.Has(settings.RoleAPI) {
		front.show(api.Ops(ring, storage.failing, metrics, front.demanded(reload.settings)))
	} else {
		var err error
		options := api.Options{
			Ring: ring, Registry: accounts.NewRegistry(ring, checkers), Token: s.Access.Token, Metrics: metrics,
			Log: o.Log.With("role", settings.RoleAPI), Version: o.Version, DeadAfter: s.Monitor.DeadAfter, MemoryMark: s.Poller.MemoryMark, ProbeParked: s.Monitor.ProbeParked, MaxFollowers: s.API.Followers, RequireMatch: s.API.RequireMatch, SendBounds: circulate.SendBounds{Account: s.API.SendsWaiting, All: s.API.SendsInAll}, RequireKey: s.API.KeysRequired(), Data: storage.data, Store: storage.servers, Unsaved: storage.failing,
			Trail: reload.trail.Load(), Seal: o.seals.public.Load, Demo: o.Demo, Scan: o.scan, Mailbox: o.mailbox, Way: wayIn(s.Poller),
			Spans:    o.spans,
			Webhooks: func() bool { return reload.settings().Delivery.WebhooksFile != "" },
		}
		if options.EndpointTypes, options.JudgeEndpoint, err = judgeEndpoints(s, o, client, ring.Namespace()); err != nil {
			return err
		}
		options.Guide = guide.New(api.GuidePath)
		options.Keys = key.NewKeyring(ring, options.Log)
		if options.People, options.PeopleAt, err = newPeople(options.Keys.Sealer, s); err != nil {
			return err
		}
		if s.API.Dashboard {
			d, err := pages.New(pages.Options{May: api.May, Log: options.Log, Namespace: s.Redis.Namespace, Version: o.Version, Demo: o.Demo != nil, AwaySince: ring.AwaySince, Settings: settingsToFind()})
			if err != nil {
				return err
			}
			context.AfterFunc(ctx, d.Close)
			options.Pages = d.Handler
		}
		options.Kinds, options.Try = kindsOf(checkers), tryWith(checkers, s.Poller.CheckTimeout, options.Log)
		options.Sending, options.Files, options.FileLinks = sendingOf(checkers), filesFor(keeper, o, checkers), s.Keeping.Links
		options.Reload, options.CallbackMetrics, options.JobMetrics = reload.reload, api.NewCallbackMetrics(registry), api.NewJobMetrics(registry)
		if s.API.PublicURL != "" {
			options.Hubs = callback.NewHubs(ring, subscriptionIn)
		}
		server, err := api.New(options)
		if err != nil {
			return err
		}
		if err := reload.join(ctx, accessTo(server, o, ring, options.Log)); err != nil {
			return err
		}
		context.AfterFunc(ctx, func() {
			if errors.Is(context.Cause(ctx), circulate.ErrResharding) {
				server.Replaced()
				return
			}
			server.Close()
		})
		group.Go(func() error { return server.RunJobs(ctx) })
		front.show(newRequestMetrics(registry).counting(server))
		if front.ops != nil {
			front.ops.show(api.Ops(ring, storage.failing, metrics, front.ops.demanded(reload.settings)))
		}
	}
	return nil
}

// limitsOf makes a pool use the limits of other settings.
func limitsOf(pool *poller.Pool, checkers poller.Checkers) part {
	return func(s settings.Settings, _ settings.Lookup) (func(), []string, error) {
		limits, err := limitsIn(s.Poller, checkers)
		if err != nil {
			return nil, nil, fmt.Errorf("ROUNDS_LIMITS: %w", err)
		}
		change, err := pool.Limit(limits)
		return change, nil, err
	}
}

// budgetOf makes a part use the budget of other settings.
func budgetOf(set func(perSecond float64)) part {
	return func(s settings.Settings, _ settings.Lookup) (func(), []string, error) {
		perSecond, err := budget.Parse(s.Poller.AdaptiveBudget)
		if err != nil {
			return nil, nil, fmt.Errorf("ROUNDS_ADAPTIVE_BUDGET: %w", err)
		}
		return func() { set(perSecond) }, nil, nil
	}
}

// accessTo makes the API use the token and the callbacks of other settings.
func accessTo(server *api.Server, o Options, ring *circulate.Ring, log *slog.Logger) part {
	obeyed := ""
	return func(s settings.Settings, lookup settings.Lookup) (func(), []string, error) {
		o.Lookup = lookup
		callbacks, said, err := newCallbacks(s, o, ring, log)
		if err != nil {
			return nil, nil, err
		}
		change, err := server.Update(s.Access.Token, callbacks)
		if err != nil {
			return nil, nil, err
		}
		var notes []string
		if said != obeyed {
			notes = []string{"callbacks: " + cmp.Or(said, "none")}
		}
		return func() {
			if change(); said != obeyed && said != "" {
				log.Info("callbacks are accepted", "callbacks", said, "at", "/v1/callbacks/wecom/NAME")
			}
			obeyed = said
		}, notes, nil
	}
}

func newPool(ring *circulate.Ring, checkers poller.Checkers, s settings.Settings, registry *prometheus.Registry, o Options) (*poller.Pool, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "" // it only helps people to find the process
	}
	limits, err := limitsIn(s.Poller, checkers)
	if err != nil {
		return nil, fmt.Errorf("ROUNDS_LIMITS: %w", err)
	}
	o.Polling(o.name)
	var tokens poller.TokenSealer
	if o.seals != nil {
		tokens = o.seals.opener
	}
	ways, _ := egress.Parse(s.Poller.Egress) // validated
	return poller.New(ring, checkers, poller.Config{
		Replica:      o.name,
		Limits:       limits,
		Ways:         ways,
		Host:         host,
		Version:      o.Version,
		Concurrency:  s.Poller.Concurrency,
		HeldChecks:   s.Poller.HeldChecks,
		CheckTimeout: s.Poller.CheckTimeout,
		Heartbeat:    s.Poller.HeartbeatInterval,
		GracePeriod:  max(s.Poller.GracePeriod, time.Nanosecond), // zero must not mean the default
		LongTimeout:  s.Monitor.LongTimeout,
		MemoryMark:   s.Poller.MemoryMark,
		AccountShare: accountShare(s.Poller),

		ConfirmUnsynced: !s.Poller.ConfirmSynced,
		ConfirmReplicas: s.Poller.ConfirmReplicas,
	}, poller.Options{Log: o.Log, Metrics: poller.NewMetrics(registry), Hurry: o.Hurry, Holding: o.Holding, Follow: followMoves(ring, checkers, s.Poller), Tokens: tokens, Files: sendFiles(o, ring), Spans: o.spans})
}

// followMoves writes new addresses into records, if the settings say so.
func followMoves(ring *circulate.Ring, checkers poller.Checkers, s settings.Poller) func(context.Context, poller.Move) error {
	if !s.FollowMoves {
		return nil
	}
	all := accounts.NewRegistry(ring, checkers)
	return func(ctx context.Context, m poller.Move) error { return all.Move(ctx, m.Account, m.Config, m.To) }
}

// accountShare returns the poller's setting in bytes; there 0 means the default.
func accountShare(s settings.Poller) int64 {
	if s.AccountShare == 0 {
		return -1
	}
	return int64(s.AccountShare) << 20
}

// problemsInterval returns how often problems are summed up; 0 means the default. Visitors of a
// demonstration look at once, and it has few accounts.
func problemsInterval(o Options) time.Duration {
	if o.Demo != nil {
		return 5 * time.Second
	}
	return 0
}

// quarantine returns the monitor's setting; there 0 means the default.
func quarantine(s settings.Monitor) int {
	if s.QuarantineAfter == 0 {
		return monitor.Never
	}
	return s.QuarantineAfter
}

// countRing shows the ring's own counts as metrics.
func countRing(registry prometheus.Registerer, ring *circulate.Ring) {
	counts(registry, "set_aside_total", "Keys of a wrong type and texts that were no entry, moved out of the way.",
		func() int64 { return int64(ring.SetAside()) })
	counts(registry, "scripts_sent_total", "Scripts whose text had to be sent because Redis did not have them: at their first use, and after it forgot them.",
		func() int64 { return int64(ring.ScriptsSent()) })
}

// counts shows a count as a metric.
func counts(registry prometheus.Registerer, name, help string, count func() int64) {
	promauto.With(registry).NewCounterFunc(prometheus.CounterOpts{Namespace: "rounds", Name: name, Help: help}, func() float64 { return float64(count()) })
}

// settingsToFind returns the settings that the dashboard's finder knows.
func settingsToFind() []pages.Setting {
	var all []pages.Setting
	for name, about := range settings.Meanings() {
		all = append(all, pages.Setting{Name: name, About: about})
	}
	return all
}
