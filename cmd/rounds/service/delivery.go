package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/files/keep"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/span"
)

const webhooksFile = "ROUNDS_WEBHOOKS_FILE"

// deliverer has a consumer for each endpoint of the process.
type deliverer struct {
	settings settings.Settings
	own      []sink.Type // the program's own types of endpoints
	ring     *circulate.Ring
	client   *fetch.Client
	source   secrets.Source
	remote   *webhook.Remote
	log      *slog.Logger
	hurry    <-chan struct{}
	kinds    []string // that this program knows
	keeps    bool     // the role also fetches files
	files    func(context.Context, *delivery.Delivery) ([]sink.File, error)
	spans    span.Recorder // nil: nothing is recorded

	consumed  *delivery.Metrics
	delivered *webhook.Metrics

	ctx   context.Context // of the consumers
	group *errgroup.Group // of the consumers

	stored endpoint.Endpoints
	forget func(name string) // makes the next use of a stored secret read it anew

	mu       sync.Mutex
	rule     fetch.Rule               // which addresses are allowed now
	running  map[string]*delivering   // by the endpoint's name
	leaving  map[string]chan struct{} // closed once the consumer has ended that ran before
	declared map[string]bool          // the names of the file's endpoints
	faulty   map[string]bool          // stored endpoints to which this process cannot deliver
	shadowed map[string]bool          // stored endpoints whose names the file declares too
	seen     int64                    // the revision of the stored endpoints that were taken; -1: they are to be taken anew
	closed   bool                     // the role ends: nothing new begins
}

// delivering is one of the consumers.
type delivering struct {
	endpoint sink.Endpoint
	sink     delivery.Sink
	start    string // where its group begins; empty: where the settings say
	stop     context.CancelFunc
	ended    chan struct{}
}

// startDelivery starts a consumer for each endpoint, and stops and starts consumers as the
// settings change. They run in group.
func startDelivery(ctx context.Context, group *errgroup.Group, reload *reloader, o Options, ring *circulate.Ring,
	keeper *keep.Keeper, registry *prometheus.Registry, consumed *delivery.Metrics, reserved *fetch.Reserved) error {
	s := reload.settings()
	log := o.Log.With("role", settings.RoleDelivery)
	checkers, err := NewCheckers(s.Poller, o)
	if err != nil {
		return err
	}
	d := &deliverer{
		settings: s, ring: ring, client: newWebhookClient(s.Poller, o, reserved), source: newSecrets(s.Poller, o).Service(), log: log, hurry: o.Hurry, kinds: checkers.Kinds(), keeps: o.Files != nil, files: linksTo(keeper, s, log),
		remote:   webhook.NewRemote(document.Of(ring).Endpoints(), log),
		consumed: consumed, delivered: webhook.NewMetrics(registry),
		running: make(map[string]*delivering), leaving: make(map[string]chan struct{}), stored: endpoint.Of(ring), seen: -1, spans: o.spans,
		faulty: make(map[string]bool), shadowed: make(map[string]bool),
	}
	d.forget = func(string) {}
	if o.seals != nil {
		d.forget = o.seals.opener.Forget
	}
	if d.own, err = ownSinks(o, Tools{Client: d.client, Secrets: d.source, Log: log, Metrics: registry, Namespace: ring.Namespace()}); err != nil {
		d.client.Close()
		return err
	}
	d.group, d.ctx = errgroup.WithContext(ctx)
	d.group.Go(func() error { return d.remote.Run(d.ctx) })
	d.group.Go(func() error {
		<-d.ctx.Done()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.closed = true
		return nil
	})
	group.Go(func() error {
		defer d.client.Close()
		return d.group.Wait()
	})
	if err := reload.join(ctx, d.prepare); err != nil {
		return err
	}
	d.group.Go(func() error {
		d.follow(d.ctx)
		return nil
	})
	return nil
}

// typesBy returns all types of endpoints, whose addresses a rule judges.
func (d *deliverer) typesBy(rule fetch.Rule) (sink.Types, error) {
	return newSinks(d.settings, prospect{d.client, rule}, webhook.Options{
		Secrets: d.source, Namespace: d.ring.Namespace(), Store: d.ring.Endpoints(), Log: d.log, Metrics: d.delivered, Files: d.files,
	}, d.own)
}

// prepare reads the endpoints and prepares a change to them, which then cannot fail. It
// leaves unchanged endpoints alone. A changed endpoint ends, within the grace period,
// before it begins again. A removed endpoint ends, and its group stays.
func (d *deliverer) prepare(s settings.Settings, _ settings.Lookup) (change func(), notes []string, err error) {
	networks, err := fetch.ParseNetworks(s.Poller.AllowNetworks)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", allowNetworks, err)
	}
	rule := fetch.Rule{Private: s.Poller.AllowPrivate, Networks: networks}
	types, err := d.typesBy(rule)
	if err != nil {
		return nil, nil, err
	}
	endpoints, err := readEndpoints(s.Delivery.WebhooksFile, types)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", webhooksFile, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := make(map[string]*delivering)
	named := make(map[string]bool)
	note := func(name, what string) { notes = append(notes, "webhook "+name+": "+what) }
	var errs []error
	for _, e := range endpoints {
		named[e.Name] = true
		if old := d.running[e.Name]; old != nil && old.endpoint.Text == e.Text && !old.endpoint.Added() {
			continue
		} else if old != nil {
			note(e.Name, "changed")
		} else {
			note(e.Name, "new")
		}
		opened, err := e.Config.Open()
		errs = append(errs, err)
		fresh[e.Name] = &delivering{endpoint: e, sink: opened, ended: make(chan struct{})}
	}
	for name, old := range d.running {
		if !named[name] && !old.endpoint.Added() {
			note(name, "gone")
		}
	}
	slices.Sort(notes)
	return func() {
		d.client.Permit(networks)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.rule, d.declared, d.seen = rule, named, -1
		for name, old := range d.running {
			if !named[name] && !old.endpoint.Added() {
				d.end(name)
			}
		}
		for _, next := range fresh {
			d.begin(next)
		}
	}, notes, errors.Join(errs...)
}

// end ends the delivery to an endpoint, whose group stays. The caller holds mu.
func (d *deliverer) end(name string) {
	d.log.Info("delivery ends", "endpoint", name)
	maps.DeleteFunc(d.leaving, func(_ string, ended chan struct{}) bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	d.running[name].stop()
	d.leaving[name] = d.running[name].ended
	delete(d.running, name)
}

// begin begins the delivery to an endpoint, in place of one of its name. The caller holds mu.
func (d *deliverer) begin(next *delivering) {
	if d.closed {
		return
	}
	name := next.endpoint.Name
	d.warnOfKinds(next.endpoint)
	if d.running[name] != nil {
		d.end(name)
	}
	before := d.leaving[name]
	var ctx context.Context
	ctx, next.stop = context.WithCancel(d.ctx)
	d.running[name] = next
	d.group.Go(func() error {
		defer close(next.ended)
		if before != nil {
			<-before // the group has one consumer here at a time
		}
		err := d.deliver(ctx, next)
		if err != nil && next.endpoint.Added() { // which must not end the process
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.running[name] == next {
				delete(d.running, name)
				d.refuse(name, next.endpoint.Revision, err)
			}
			return nil
		}
		return err
	})
}

// warnOfKinds warns of kinds that this program does not know. They are no fault of the file: the accounts
// of a namespace may be checked by programs with other kinds.
func (d *deliverer) warnOfKinds(e sink.Endpoint) {
	for _, kind := range e.Filter.Kinds {
		if !slices.Contains(d.kinds, kind) {
			d.log.Warn("an endpoint names a kind that this program does not know; unless another program checks accounts of it, the endpoint gets no messages of that kind",
				"endpoint", e.Name, "kind", kind, "known", strings.Join(d.kinds, ", "))
		}
	}
}

// deliver delivers to an endpoint until ctx is done.
func (d *deliverer) deliver(ctx context.Context, to *delivering) error {
	defer to.stop()
	defer func() {
		if err := to.sink.Close(); err != nil {
			d.log.Warn("an endpoint's sink could not be closed; nothing that it acknowledged is lost", "endpoint", to.endpoint.Name, "error", err)
		}
	}()
	start := to.start
	if start == "" {
		var err error
		if start, err = deliveryStart(ctx, d.settings.Delivery.WebhooksFrom, d.ring); err != nil || start == "" {
			return err
		}
	}
	control := &delivery.Control{}
	var handler delivery.Sink
	if hook, ok := to.sink.(*webhook.Sink); ok {
		handler = hook.Behind(to.endpoint.Filter.By(d.labels))
		d.remote.Add(hook, control, webhook.MaxDeliveries)
		defer d.remote.Remove(hook)
	} else {
		guard := sink.NewGuard(to.sink, to.endpoint.Filter.By(d.labels), func(o sink.Outcome) { d.delivered.Count(to.endpoint.Name, o) })
		handler = guard
		defer d.remote.AddOther(to.endpoint, guard, control, webhook.MaxDeliveries)()
	}
	var timeout time.Duration
	if own, ok := to.sink.(interface{ HandlerTimeout() time.Duration }); ok {
		timeout = own.HandlerTimeout()
	}
	group := to.endpoint.Group()
	d.log.Info("delivering", "endpoint", to.endpoint.Name, "type", to.endpoint.Type, "group", group)
	return delivery.Consumer{
		Ring: d.ring, Group: group, Handler: handler, Start: start, Events: to.endpoint.Events, Control: control,
		MaxDeliveries: webhook.MaxDeliveries, Backoff: webhook.Backoff, HandlerTimeout: timeout,
		Grace: max(d.settings.Poller.GracePeriod, time.Nanosecond), // zero must not mean the default
		Hurry: d.hurry,
		Log:   d.log, Metrics: d.consumed, Spans: d.spans, Objective: d.settings.Delivery.Objective,
	}.Run(ctx)
}

// deliveryStart returns where a new endpoint begins: with the stored messages, or with new ones.
// For new ones it returns the position that a message of now would have, and not the end of a stream:
// if a shard can only be reached later, its end is later too. It returns "" if ctx is done first.
func deliveryStart(ctx context.Context, from string, ring *circulate.Ring) (string, error) {
	if from == "start" {
		return circulate.StreamStart, nil
	}
	for {
		now, err := ring.Now(ctx, 0)
		if err == nil {
			return fmt.Sprintf("%d-0", now.UnixMilli()), nil
		}
		if !circulate.Unavailable(err) {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", nil
		case <-time.After(openRetry):
		}
	}
}
