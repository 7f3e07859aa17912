package service

import (
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/connector"
	"github.com/rounds-dev/rounds/poller/checkers/feed"
	"github.com/rounds-dev/rounds/poller/checkers/imap"
	"github.com/rounds-dev/rounds/poller/checkers/wecomkf"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// NewCheckers returns every kind that the service knows, those of the options among
// them, for checks without a ring: access tokens are kept in memory.
func NewCheckers(s settings.Poller, o Options) (poller.Checkers, error) {
	return newCheckers(s, o.withDefaults(), wecomkf.NewMemory())
}

// newCheckers returns every kind. They share one client, and through tokens what
// access tokens all replicas have.
func newCheckers(s settings.Poller, o Options, tokens wecomkf.Tokens) (poller.Checkers, error) {
	client, source := newClient(s, o), newSecrets(s, o)
	return poller.NewCheckers(append([]poller.Checker{
		feed.New(client), connector.New(client, source), imap.New(client, source, imap.Options{}), wecomkf.New(client, source, tokens),
	}, o.Checkers...)...)
}

// newClient is what reaches third parties.
func newClient(s settings.Poller, o Options) *fetch.Client {
	return fetch.New(fetch.Options{UserAgent: fetch.UserAgent(o.Version), AllowPrivate: s.AllowPrivate})
}

// newSecrets is where records, webhooks and callbacks find the secrets that they
// refer to.
func newSecrets(s settings.Poller, o Options) secrets.Source {
	return secrets.Source{Dir: s.SecretsDir, Lookup: o.Lookup}
}
