package service

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/connector"
	"github.com/rounds-dev/rounds/poller/checkers/feed"
	"github.com/rounds-dev/rounds/poller/checkers/graph"
	"github.com/rounds-dev/rounds/poller/checkers/imap"
	"github.com/rounds-dev/rounds/poller/checkers/telegram"
	"github.com/rounds-dev/rounds/poller/checkers/wecomkf"
	"github.com/rounds-dev/rounds/poller/checkers/weixin"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/token"
)

// Kind makes the checker of a kind that the service does not know. It may be called
// several times in a process: whenever settings are validated, and whenever roles start.
type Kind func(Tools) (poller.Checker, error)

// Tools are what the service lends a Kind. Its own kinds use the same.
type Tools struct {
	// Client reaches third parties, under the settings' rule for addresses, and within
	// the memory that answers may take.
	Client *fetch.Client
	// Secrets finds the secrets that configs refer to as {"secret": "NAME"}, for the use
	// that the kind names: its name and the host that the secret is for.
	Secrets secrets.Source
	// Log is for what people should know. The reason of a failed check goes into its error.
	Log *slog.Logger
	// Metrics registers the kind's own metrics, which /metrics shows. Their names should
	// not begin with rounds_, and they must never be labelled by account.
	Metrics prometheus.Registerer
	// Namespace is the ring's namespace, on which the keys of messages depend; see sink.Encoding.
	Namespace string
}

// NewCheckers returns every kind that the service knows, including the options' kinds, for checks
// without a ring. It stores access tokens in memory.
func NewCheckers(s settings.Poller, o Options) (poller.Checkers, error) {
	client, err := NewClient(s, o)
	if err != nil {
		return nil, err
	}
	return newCheckers(client, s, o.withDefaults(), token.NewMemory(), prometheus.NewRegistry())
}

// newCheckers returns every kind. They share one client, and through tokens the access tokens of
// all replicas.
func newCheckers(client *fetch.Client, s settings.Poller, o Options, tokens token.Store, metrics prometheus.Registerer) (poller.Checkers, error) {
	tools := Tools{Client: client, Secrets: newSecrets(s, o), Log: o.Log, Metrics: metrics}
	counted := oauth.Counting(tokens, metrics)
	access := func(kind string) *oauth.Tokens {
		return oauth.NewTokens(oauth.NewClient(kind, tools.Client, tools.Secrets), tools.Secrets, counted)
	}
	all := []poller.Checker{
		feed.New(tools.Client, tools.Secrets).PushedTo(o.pushedTo), connector.New(tools.Client, tools.Secrets),
		imap.New(tools.Client, tools.Secrets, imap.Options{OAuth: access(imap.Kind)}), wecomkf.New(tools.Client, tools.Secrets, wecomkf.Counting(tokens, metrics)),
		weixin.New(tools.Client, tools.Secrets), telegram.New(tools.Client, tools.Secrets),
		graph.New(tools.Client, access(graph.Kind)),
	}
	for i, kind := range o.Kinds {
		checker, err := makeKind(kind, tools)
		if err != nil {
			return nil, fmt.Errorf("kind %d of the program's own: %w", i+1, err)
		}
		all = append(all, checker)
	}
	return poller.NewCheckers(all...)
}

// makeKind makes a kind's checker. It refuses a kind that would otherwise fail later, at an account
// of that kind.
func makeKind(kind Kind, tools Tools) (poller.Checker, error) {
	if kind == nil {
		return nil, errors.New("is nil")
	}
	checker, err := kind(tools)
	switch {
	case err != nil:
		return nil, err
	case checker == nil:
		return nil, errors.New("made no checker")
	case checker.Kind() == "":
		return nil, errors.New("has no name")
	}
	return checker, nil
}

// newSecrets returns the source of the secrets that records refer to. Its Service has
// the secrets of webhooks and callbacks.
func newSecrets(s settings.Poller, o Options) secrets.Source {
	plain, _ := secret.Hosts(s.SecretsPlainHosts) // settings.Read has validated them
	source := secrets.Source{
		Dir: s.SecretsDir, Lookup: o.Lookup, RequireHosts: s.SecretsUnbound == settings.Refuse, PlainHosts: plain, Reserved: o.reserved,
	}
	if o.seals != nil {
		source.Store = o.seals.opener
	}
	return source
}
