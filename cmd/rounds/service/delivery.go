package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/files/keep"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// readWebhooks reads the endpoints from their file. Without a file there are none. The
// error has every fault, each with its field.
func readWebhooks(path string, client webhook.Client) ([]webhook.Endpoint, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it is only read
	return webhook.Read(file, client)
}

const webhooksFile = "ROUNDS_WEBHOOKS_FILE"

// deliverer has a consumer for each webhook endpoint of the process.
type deliverer struct {
	settings settings.Settings
	ring     *circulate.Ring
	client   *fetch.Client
	source   secrets.Source
	remote   *webhook.Remote
	log      *slog.Logger
	hurry    <-chan struct{}
	kinds    []string // that this program knows
	keeps    bool     // the role also fetches files
	files    func(context.Context, *delivery.Delivery) ([]sink.File, error)

	consumed  *delivery.Metrics
	delivered *webhook.Metrics

	ctx   context.Context // of the consumers
	group *errgroup.Group // of the consumers

	mu      sync.Mutex
	running map[string]*delivering // by the endpoint's name
	closed  bool                   // the role ends: nothing new begins
}

// delivering is one of the consumers.
type delivering struct {
	endpoint webhook.Endpoint
	sink     *webhook.Sink
	stop     context.CancelFunc
	ended    chan struct{}
}

// startDelivery starts a consumer for each webhook endpoint, and stops and starts consumers as the
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
		settings: s, ring: ring, client: newClient(s.Poller, o, reserved), source: newSecrets(s.Poller, o).Service(), log: log, hurry: o.Hurry, kinds: checkers.Kinds(), keeps: o.Files != nil, files: linksTo(keeper, s, log),
		remote:   webhook.NewRemote(document.Of(ring).Endpoints(), log),
		consumed: consumed, delivered: webhook.NewMetrics(registry),
		running: make(map[string]*delivering),
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
	return reload.join(ctx, d.prepare)
}

// prepare reads the endpoints and prepares a change to them, which then cannot fail. It
// leaves unchanged endpoints alone. A changed endpoint ends, within the grace period,
// before it begins again. A removed endpoint ends, and its group stays.
func (d *deliverer) prepare(s settings.Settings, _ settings.Lookup) (change func(), notes []string, err error) {
	networks, err := fetch.ParseNetworks(s.Poller.AllowNetworks)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", allowNetworks, err)
	}
	client := prospect{d.client, fetch.Rule{Private: s.Poller.AllowPrivate, Networks: networks}}
	endpoints, err := readWebhooks(s.Delivery.WebhooksFile, client)
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
		if old := d.running[e.Name]; old != nil && reflect.DeepEqual(old.endpoint, e) {
			continue
		} else if old != nil {
			note(e.Name, "changed")
		} else {
			note(e.Name, "new")
		}
		sink, err := webhook.New(e, webhook.Options{
			Client: client, Secrets: d.source, Namespace: d.ring.Namespace(), Store: d.ring.Endpoints(), Log: d.log, Metrics: d.delivered, Files: d.files,
		})
		errs = append(errs, err)
		fresh[e.Name] = &delivering{endpoint: e, sink: sink, ended: make(chan struct{})}
	}
	for name := range d.running {
		if !named[name] {
			note(name, "gone")
		}
	}
	slices.Sort(notes)
	return func() {
		d.client.Permit(networks)
		d.change(named, fresh)
	}, notes, errors.Join(errs...)
}

// change ends removed and changed endpoints, and begins new ones.
func (d *deliverer) change(named map[string]bool, fresh map[string]*delivering) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if len(named) == 0 && !d.keeps {
		d.log.Warn("the role delivery has nothing to do: " + webhooksFile + " names no endpoint")
	}
	for name, old := range d.running {
		if !named[name] {
			d.log.Info("delivery ends", "endpoint", name)
			old.stop()
			delete(d.running, name)
		}
	}
	for name, next := range fresh {
		d.warnOfKinds(next.endpoint)
		var before <-chan struct{}
		if old := d.running[name]; old != nil {
			old.stop()
			before = old.ended
		}
		var ctx context.Context
		ctx, next.stop = context.WithCancel(d.ctx)
		d.running[name] = next
		d.group.Go(func() error {
			defer close(next.ended)
			if before != nil {
				<-before // the group has one consumer here at a time
			}
			return d.deliver(ctx, next)
		})
	}
}

// warnOfKinds warns of kinds that this program does not know. They are no fault of the file: the accounts
// of a namespace may be checked by programs with other kinds.
func (d *deliverer) warnOfKinds(e webhook.Endpoint) {
	for _, kind := range e.Kinds {
		if !slices.Contains(d.kinds, kind) {
			d.log.Warn("a webhook endpoint names a kind that this program does not know; unless another program checks accounts of it, the endpoint gets no messages of that kind",
				"endpoint", e.Name, "kind", kind, "known", strings.Join(d.kinds, ", "))
		}
	}
}

// deliver delivers to an endpoint until ctx is done.
func (d *deliverer) deliver(ctx context.Context, to *delivering) error {
	defer to.stop()
	start, err := deliveryStart(ctx, d.settings.Delivery.WebhooksFrom, d.ring)
	if err != nil || start == "" {
		return err
	}
	control := &delivery.Control{}
	d.remote.Add(to.sink, control, webhook.MaxDeliveries)
	defer d.remote.Remove(to.sink)
	group := to.endpoint.Group()
	d.log.Info("delivering", "endpoint", to.endpoint.Name, "group", group)
	to.sink.Prepare(ctx)
	return delivery.Consumer{
		Ring: d.ring, Group: group, Handler: to.sink, Start: start, Events: to.endpoint.Events, Control: control,
		MaxDeliveries: webhook.MaxDeliveries, Backoff: webhook.Backoff, HandlerTimeout: to.sink.HandlerTimeout(),
		Grace: max(d.settings.Poller.GracePeriod, time.Nanosecond), // zero must not mean the default
		Hurry: d.hurry,
		Log:   d.log, Metrics: d.consumed,
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
