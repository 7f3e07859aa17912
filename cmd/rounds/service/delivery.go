package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// A message that its endpoint answers with an error becomes a dead letter after
// about a day: 5 s, 10 s, 20 s … and then once an hour. Only answers count. An
// endpoint that cannot be reached, or asks for a pause, buries nothing, however
// long that lasts.
const (
	webhookDeliveries  = 34
	webhookFirstPause  = 5 * time.Second
	webhookLongestWait = time.Hour
)

// webhookBackoff is how long a message waits after so many failed deliveries,
// less up to a tenth by chance.
func webhookBackoff(deliveries int) time.Duration {
	pause := min(webhookLongestWait, webhookFirstPause<<min(max(deliveries-1, 0), 16))
	return pause - rand.N(pause/10)
}

// readWebhooks reads the endpoints from their file; none is named, none is there.
// The error has every fault, each with its field.
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

// startDelivery starts a consumer for each endpoint in the group.
func startDelivery(ctx context.Context, group *errgroup.Group, s settings.Settings, o Options, ring *circulate.Ring,
	registry *prometheus.Registry) error {
	log := o.Log.With("role", settings.RoleDelivery)
	client := newClient(s.Poller, o)
	endpoints, err := readWebhooks(s.Delivery.WebhooksFile, client)
	if err != nil {
		return fmt.Errorf("%s: %w", webhooksFile, err)
	}
	if len(endpoints) == 0 {
		log.Warn("the role delivery has nothing to do: " + webhooksFile + " names no endpoint")
		return nil
	}
	start, err := deliveryStart(ctx, s.Delivery.WebhooksFrom, ring)
	if err != nil || start == "" {
		return err
	}
	consumers, err := newConsumers(endpoints, client, start, s, ring, newSecrets(s.Poller, o), registry, log)
	if err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	for i, c := range consumers {
		log.Info("delivering", "endpoint", endpoints[i].Name, "group", c.Group)
		running.Go(func() error { return c.Run(ctx) })
	}
	group.Go(func() error {
		defer client.Close()
		return running.Wait()
	})
	return nil
}

// newConsumers makes the consumers of the endpoints, in their order.
func newConsumers(endpoints []webhook.Endpoint, client *fetch.Client, start string, s settings.Settings, ring *circulate.Ring,
	source secrets.Source, registry *prometheus.Registry, log *slog.Logger) ([]delivery.Consumer, error) {
	consumed, delivered := delivery.NewMetrics(registry), webhook.NewMetrics(registry)
	consumers := make([]delivery.Consumer, len(endpoints))
	var errs []error
	for i, endpoint := range endpoints {
		sink, err := webhook.New(endpoint, webhook.Options{
			Client: client, Secrets: source, Namespace: ring.Namespace(), Store: ring.Endpoints(), Log: log, Metrics: delivered,
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		consumers[i] = delivery.Consumer{
			Ring: ring, Group: endpoint.Group(), Handler: sink, Start: start,
			MaxDeliveries: webhookDeliveries, Backoff: webhookBackoff, HandlerTimeout: sink.HandlerTimeout(),
			Grace: max(s.Poller.GracePeriod, time.Nanosecond), // none at all is not the default
			Log:   log, Metrics: consumed,
		}
	}
	return consumers, errors.Join(errs...)
}

// deliveryStart is where an endpoint begins that is new: with what is kept, or
// with what is found from now on. Then it is a position rather than the end of a
// stream, which may be reached only later. It is "" if ctx is done before.
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
