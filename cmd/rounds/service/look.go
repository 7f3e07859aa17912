package service

import (
	"context"
	"log/slog"
	"sync"

	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// OpenServer prepares connections to the Redis that the settings name, for callers that
// look at it. It does not connect yet. The caller must close it.
func OpenServer(s settings.Redis) (connect.Server, error) {
	return openRedis(s, slog.New(slog.DiscardHandler), nil)
}

// Secrets returns the source in which a poller with these settings finds the secrets of records.
// Stored secrets are those of the ring, which may be nil.
func Secrets(s settings.Settings, o Options, ring *circulate.Ring) (secrets.Source, error) {
	o = o.withDefaults()
	o.reserved = s.Files()
	if ring != nil {
		o.seals = newSeals(ring)
		set, _, err := o.seals.take(s, o.Lookup)
		if err != nil {
			return secrets.Source{}, err
		}
		set()
	}
	return newSecrets(s.Poller, o), nil
}

// Endpoints returns the webhook endpoints that the settings name.
func Endpoints(s settings.Settings, o Options) ([]webhook.Endpoint, error) {
	o = o.withDefaults()
	endpoints, err := lookAtEndpoints(s, o, newSecrets(s.Poller, o).Service())
	return webhook.Of(endpoints), err
}

// Webhooks returns the URLs of the endpoints that the settings name.
func Webhooks(s settings.Settings, o Options) ([]string, error) {
	endpoints, err := Endpoints(s, o)
	urls := make([]string, len(endpoints))
	for i := range endpoints {
		urls[i] = endpoints[i].URL
	}
	return urls, err
}

// Trial is how a try of an endpoint ended.
type Trial struct {
	Endpoint string
	Type     string
	Added    bool  // while the service runs
	Err      error // nil: it was reached and has what must be there
}

// AddedEndpoints returns the endpoints that were added while the service runs. A nil ring has none.
func AddedEndpoints(ctx context.Context, ring *circulate.Ring) ([]endpoint.Endpoint, error) {
	if ring == nil {
		return nil, nil
	}
	return endpoint.Of(ring).All(ctx)
}

// TryEndpoints tries the endpoints that the settings name, and those that were added, which can be tried
// without changing anything, all at once: databases and brokers. source has the secrets of the processes
// that deliver. Of an added endpoint that cannot be read, whatever its type, the trial says so.
func TryEndpoints(ctx context.Context, s settings.Settings, o Options, source secrets.Source, added []endpoint.Endpoint) ([]*Trial, error) {
	o = o.withDefaults()
	client := newWebhookClient(s.Poller, o, nil)
	defer client.Close()
	types, err := typesToLook(s, o, source.Service(), client)
	if err != nil {
		return nil, err
	}
	endpoints, err := readEndpoints(s.Delivery.WebhooksFile, types)
	if err != nil {
		return nil, err
	}
	var trials []*Trial
	declared := make(map[string]bool)
	for i := range endpoints {
		declared[endpoints[i].Name] = true
	}
	for i := range added {
		if declared[added[i].Name] { // which counts
			continue
		}
		e, err := readStored(types.Addable(), &added[i])
		if err != nil {
			trials = append(trials, &Trial{Endpoint: added[i].Name, Type: e.Type, Added: true, Err: err})
			continue
		}
		endpoints = append(endpoints, e)
	}
	var tries sync.WaitGroup
	for _, e := range endpoints {
		if t, ok := e.Config.(sink.Tester); ok {
			trial := &Trial{Endpoint: e.Name, Type: e.Type, Added: e.Added()}
			trials = append(trials, trial)
			tries.Go(func() { trial.Err = t.Try(ctx) })
		}
	}
	tries.Wait()
	return trials, nil
}
