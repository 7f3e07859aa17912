package service

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/egress"
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
	ways, _ := egress.Parse(s.Egress)                   // validated too
	return fetch.New(fetch.Options{
		UserAgent: fetch.UserAgent(o.Version, o.Commit, s.Contact), AllowPrivate: s.AllowPrivate, Networks: networks, Reserved: reserved, Program: o.Program,
		Proxy: s.Proxy, NoProxy: s.NoProxy, Ways: ways, Kept: keptConnections(s.KeptConnections, openFiles(os.DirFS("/"))),
	})
}

// newWebhookClient returns the client that reaches webhooks, which no account's way is for.
func newWebhookClient(s settings.Poller, o Options, reserved *fetch.Reserved) *fetch.Client {
	s.Egress = ""
	return newClient(s, o, reserved)
}

// wayIn returns which way accounts go, by validated settings. An account that names a way that there is
// not has that one, and goes nowhere.
func wayIn(s settings.Poller) func(*accounts.Account) string {
	ways, _ := egress.Parse(s.Egress)
	return func(a *accounts.Account) string {
		name, err := ways.Choose(&egress.Account{ID: a.ID, Kind: a.Kind, Labels: a.Labels})
		if unknown, ok := errors.AsType[*egress.UnknownError](err); ok {
			return unknown.Name
		}
		return name
	}
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

// endpointClient reaches the endpoints of messages. *fetch.Client is one.
type endpointClient interface {
	webhook.Client
	sink.Network
}

// prospect validates addresses as the client will once other settings apply.
type prospect struct {
	*fetch.Client
	rule fetch.Rule
}

var _ endpointClient = prospect{}

// Validate validates a URL.
func (p prospect) Validate(url string) error { return p.rule.Validate(url) }

// ValidateHostPort validates a host.
func (p prospect) ValidateHostPort(host string, port uint16) error {
	return p.rule.ValidateHostPort(host, port)
}

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

// keptConnections returns how many connections a client may keep open: the setting's number, but at
// most half of the files that the process may have open. The other half is for running calls, for
// Redis and for our callers. files is 0 if the limit is unknown.
func keptConnections(allowed, files int) int {
	if files > 0 {
		allowed = min(allowed, files/2)
	}
	return max(1, allowed)
}

// openFiles returns how many files the process may have open, or 0 if there is no limit or it is
// unknown. root has /proc.
func openFiles(root fs.FS) int {
	limits, err := fs.ReadFile(root, "proc/self/limits")
	if err != nil {
		return 0 // not Linux
	}
	for line := range strings.Lines(string(limits)) {
		rest, ok := strings.CutPrefix(line, "Max open files")
		if !ok {
			continue
		}
		// The soft limit comes first, then the hard one, to which the runtime has raised the soft one.
		if fields := strings.Fields(rest); len(fields) > 0 {
			n, err := strconv.Atoi(fields[0])
			if err == nil {
				return n
			}
		}
	}
	return 0
}
