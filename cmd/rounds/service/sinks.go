package service

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/delivery/kafka"
	"github.com/rounds-dev/rounds/poller/delivery/nats"
	"github.com/rounds-dev/rounds/poller/delivery/ndjson"
	"github.com/rounds-dev/rounds/poller/delivery/parquet"
	"github.com/rounds-dev/rounds/poller/delivery/postgres"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// Sink makes a type of endpoints that the service does not know. It may be called several times in
// a process: whenever settings are validated, and whenever roles start. The tools' secrets are those
// of endpoints.
type Sink func(Tools) (sink.Type, error)

// newSinks returns every type of endpoints, which reach by a client what people may type. own are the
// program's own types.
func newSinks(s settings.Settings, client endpointClient, webhooks webhook.Options, own []sink.Type) (sink.Types, error) {
	webhooks.Client = client
	return sink.NewTypes(append([]sink.Type{
		webhook.Type{Options: webhooks},
		ndjson.Type{Namespace: s.Redis.Namespace, Log: webhooks.Log},
		parquet.Type{Namespace: s.Redis.Namespace, Log: webhooks.Log},
		postgres.Type{Namespace: s.Redis.Namespace, Secrets: webhooks.Secrets, Log: webhooks.Log, Network: client},
		kafka.Type{Namespace: s.Redis.Namespace, Secrets: webhooks.Secrets, Log: webhooks.Log, Network: client},
		nats.Type{Namespace: s.Redis.Namespace, Secrets: webhooks.Secrets, Log: webhooks.Log, Network: client},
	}, own...)...)
}

// allSinks is newSinks with the program's own types, which it makes.
func allSinks(s settings.Settings, o Options, tools Tools, webhooks webhook.Options) (sink.Types, error) {
	own, err := ownSinks(o, tools)
	if err != nil {
		return nil, err
	}
	return newSinks(s, tools.Client, webhooks, own)
}

// ownSinks makes the program's own types of endpoints.
func ownSinks(o Options, tools Tools) ([]sink.Type, error) {
	own := make([]sink.Type, len(o.Sinks))
	for i := range o.Sinks {
		var err error
		if own[i], err = makeSink(o.Sinks[i], tools); err != nil {
			return nil, fmt.Errorf("type %d of endpoints of the program's own: %w", i+1, err)
		}
	}
	return own, nil
}

// makeSink makes a type. It refuses one that would otherwise fail later, at an endpoint of it.
func makeSink(own Sink, tools Tools) (sink.Type, error) {
	if own == nil {
		return nil, errors.New("is nil")
	}
	made, err := own(tools)
	switch {
	case err != nil:
		return nil, err
	case made == nil:
		return nil, errors.New("made no type")
	}
	return made, nil
}

// readEndpoints reads the endpoints from their file. Without a file there are none. The error has
// every fault, each with its field.
func readEndpoints(path string, types sink.Types) ([]sink.Endpoint, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it is only read
	return types.Read(file)
}

// judgeEndpoints returns the types of endpoints that people may add over the API, and what judges those
// endpoints. The client judges which addresses are allowed now, as it does for accounts; nothing is sent
// with it.
func judgeEndpoints(s settings.Settings, o Options, client *fetch.Client, namespace string) ([]api.EndpointType, func([]byte) (api.JudgedEndpoint, error), error) {
	tools := Tools{Client: client, Secrets: newSecrets(s.Poller, o).Service(), Log: o.Log, Metrics: prometheus.NewRegistry(), Namespace: namespace}
	types, err := allSinks(s, o, tools, webhook.Options{Namespace: namespace})
	if err != nil {
		return nil, nil, err
	}
	types = types.Addable()
	forms := make([]api.EndpointType, len(types))
	for i := range types {
		name := types[i].Type()
		_, keyed := types[i].(sink.Keyed)
		forms[i] = api.EndpointType{Kind: strict.Describe(name, types[i]), Keyed: keyed, Default: name == sink.DefaultType}
	}
	return forms, func(fields []byte) (api.JudgedEndpoint, error) {
		e, err := types.ReadAdded(fields, 1) // any revision: it has none yet
		if err != nil {
			return api.JudgedEndpoint{}, err
		}
		judged := api.JudgedEndpoint{Type: e.Type}
		if at, ok := e.Config.(sink.Place); ok {
			judged.Hosts = at.Hosts()
			for _, use := range at.Uses() {
				judged.Secrets = append(judged.Secrets, api.EndpointSecret{Field: use.Field, Name: use.Name})
			}
		}
		return judged, nil
	}, nil
}

// lookAtEndpoints reads the endpoints of settings that are not used, to judge them or show them.
func lookAtEndpoints(s settings.Settings, o Options, source secrets.Source) ([]sink.Endpoint, error) {
	client := newWebhookClient(s.Poller, o, nil)
	defer client.Close()
	types, err := typesToLook(s, o, source, client)
	if err != nil {
		return nil, err
	}
	return readEndpoints(s.Delivery.WebhooksFile, types)
}

// typesToLook returns all types of endpoints for a process that delivers nothing.
func typesToLook(s settings.Settings, o Options, source secrets.Source, client *fetch.Client) (sink.Types, error) {
	tools := Tools{Client: client, Secrets: source, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: s.Redis.Namespace}
	return allSinks(s, o, tools, webhook.Options{Secrets: source})
}
