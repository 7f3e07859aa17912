package service

import (
	"fmt"
	"log/slog"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const allowNetworks = "ROUNDS_ALLOW_NETWORKS"

// NewClient makes what reaches third parties. The error is settings.Faults.
func NewClient(s settings.Poller, o Options) (*fetch.Client, error) {
	if faults := reachFaults(s); len(faults) > 0 {
		return nil, faults
	}
	return newClient(s, o.withDefaults(), nil), nil
}

// newClient is NewClient with settings that were judged. Reserved is what the service
// itself has; it may be nil.
func newClient(s settings.Poller, o Options, reserved *fetch.Reserved) *fetch.Client {
	networks, _ := fetch.ParseNetworks(s.AllowNetworks) // judged: none is what a fault leaves
	return fetch.New(fetch.Options{
		UserAgent: fetch.UserAgent(o.Version), AllowPrivate: s.AllowPrivate, Networks: networks, Reserved: reserved,
		Proxy: s.Proxy, NoProxy: s.NoProxy,
	})
}

// reachOf has a client reach other networks.
func reachOf(client *fetch.Client) part {
	return func(s settings.Settings, _ settings.Lookup) (func(), []string, error) {
		networks, err := fetch.ParseNetworks(s.Poller.AllowNetworks)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", allowNetworks, err)
		}
		return func() { client.Permit(networks) }, nil, nil
	}
}

// prospect is a client that judges URLs as it will once other settings hold.
type prospect struct {
	*fetch.Client
	rule fetch.Rule
}

var _ webhook.Client = prospect{}

// Validate judges a URL.
func (p prospect) Validate(url string) error { return p.rule.Validate(url) }

// warnOfReach says what is set that opens more than anybody needs.
func warnOfReach(s settings.Settings, log *slog.Logger) {
	if s.Poller.AllowPrivate {
		log.Warn("ROUNDS_ALLOW_PRIVATE_ADDRESSES lets whoever may register accounts reach everything in this network; ROUNDS_ALLOW_NETWORKS names what is meant, such as 10.1.0.0/16,connector.local")
	}
}
