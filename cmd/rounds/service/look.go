package service

import (
	"log/slog"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
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
	endpoints, err := lookAtEndpoints(s, o.withDefaults())
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
