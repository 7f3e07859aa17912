package service

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const allowNetworks = "ROUNDS_ALLOW_NETWORKS"

// NewClient makes the client that reaches third parties. The error is settings.Faults.
func NewClient(s settings.Poller, o Options) (*fetch.Client, error) {
	if faults := reachFaults(s); len(faults) > 0 {
		return nil, faults
	}
	return newClient(s, o.withDefaults(), nil), nil
}

// newClient is NewClient with validated settings. reserved has the addresses that the
// service itself uses; it may be nil.
func newClient(s settings.Poller, o Options, reserved *fetch.Reserved) *fetch.Client {
	networks, _ := fetch.ParseNetworks(s.AllowNetworks) // validated: a fault leaves none
	return fetch.New(fetch.Options{
		UserAgent: fetch.UserAgent(o.Version, o.Commit), AllowPrivate: s.AllowPrivate, Networks: networks, Reserved: reserved, Program: o.Program,
		Proxy: s.Proxy, NoProxy: s.NoProxy, Kept: keptConnections(s.KeptConnections, openFiles(os.DirFS("/"))),
	})
}

// reachOf lets a client reach the networks of other settings.
func reachOf(client *fetch.Client) part {
	return func(s settings.Settings, _ settings.Lookup) (func(), []string, error) {
		networks, err := fetch.ParseNetworks(s.Poller.AllowNetworks)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", allowNetworks, err)
		}
		return func() { client.Permit(networks) }, nil, nil
	}
}

// prospect validates URLs as the client will once other settings apply.
type prospect struct {
	*fetch.Client
	rule fetch.Rule
}

var _ webhook.Client = prospect{}

// Validate validates a URL.
func (p prospect) Validate(url string) error { return p.rule.Validate(url) }

// warnOfWebhooks logs that a process has a file with endpoints but delivers to none of them.
func warnOfWebhooks(s settings.Settings, log *slog.Logger) {
	if s.Delivery.WebhooksFile != "" && !s.API.Roles.Has(settings.RoleDelivery) {
		log.Warn("this process delivers no messages to webhooks: it has a ROUNDS_WEBHOOKS_FILE, but not the role delivery; one process with --roles delivery, or api,poller,monitor,delivery, is enough",
			"file", s.Delivery.WebhooksFile, "roles", strings.Join(s.API.Roles, ","))
	}
}

// warnOfReach logs which setting opens more than anybody needs.
func warnOfReach(s settings.Settings, log *slog.Logger) {
	if s.Poller.AllowPrivate {
		log.Warn("ROUNDS_ALLOW_PRIVATE_ADDRESSES lets everybody who may register accounts reach everything in this network; instead, name the needed networks in ROUNDS_ALLOW_NETWORKS, such as 10.1.0.0/16,connector.local")
	}
}
