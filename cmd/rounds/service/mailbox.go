package service

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/rounds-dev/rounds/cmd/rounds/login"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
	"github.com/rounds-dev/rounds/poller/checkers/graph"
	"github.com/rounds-dev/rounds/poller/checkers/imap"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// mailboxesAt returns the providers at which mailboxes are signed in, for each kind, reached under the
// pollers' rules, with this service's registrations among the source's own secrets.
func mailboxesAt(client *fetch.Client, source secrets.Source) []mailbox.Server {
	imapAt, graphAt := mailboxAt(imap.Kind, oauth.NewClient(imap.Kind, client, source)), mailboxAt(graph.Kind, oauth.NewClient(graph.Kind, client, source))
	imapAt.Kind, imapAt.Cadence = imap.Kind, "every 0" // it is held in IDLE
	imapAt.Config, imapAt.Own = mailbox.ConfigOfIMAP, mailbox.OwnOfIMAP
	imapAt.Hosts = func(provider string) []string {
		switch provider {
		case oauth.Google:
			return []string{"imap.gmail.com", "smtp.gmail.com"}
		case oauth.Microsoft:
			return []string{"outlook.office365.com", "smtp.office365.com"}
		}
		return nil
	}
	graphAt.Kind, graphAt.Cadence = graph.Kind, "every 60s"
	graphAt.Config = func(string, string) map[string]any { return make(map[string]any) }
	graphAt.Own = func(raw json.RawMessage) (string, []string) { return "", []string{graph.Host(raw)} }
	graphAt.Hosts = func(string) []string { return nil }
	return []mailbox.Server{imapAt, graphAt}
}

// mailboxAt returns how mailboxes are signed in by a client.
func mailboxAt(kind string, c *oauth.Client) mailbox.Server {
	return mailbox.Server{
		Validate: c.ValidateProvider,
		Begin: func(ctx context.Context, provider, user, redirect string) (*mailbox.Pending, error) {
			p, err := c.Begin(signsIn(ctx, kind), provider, user, redirect)
			if err != nil {
				return nil, signInError(err)
			}
			hidden, err := json.Marshal(p)
			return &mailbox.Pending{Secret: hidden, Page: p.Page, UserCode: p.UserCode, Interval: p.Interval, Until: p.Until}, err
		},
		Poll: func(ctx context.Context, p *mailbox.Pending) (*mailbox.Grant, bool, error) {
			var pending oauth.Pending
			if err := json.Unmarshal(p.Secret, &pending); err != nil {
				return nil, false, err
			}
			g, slower, err := c.Poll(signsIn(ctx, kind), &pending)
			granted, err := grantedOf(g, err)
			return granted, slower, err
		},
		Exchange: func(ctx context.Context, p *mailbox.Pending, state, code, issuer string) (*mailbox.Grant, error) {
			var pending oauth.Pending
			if err := json.Unmarshal(p.Secret, &pending); err != nil {
				return nil, err
			}
			return grantedOf(c.Exchange(signsIn(ctx, kind), &pending, state, code, issuer))
		},
	}
}

// grantedOf returns a grant as a secret's value.
func grantedOf(g *oauth.Grant, err error) (*mailbox.Grant, error) {
	if g == nil || err != nil {
		return nil, signInError(err)
	}
	text, err := g.Text()
	return &mailbox.Grant{Text: text, Hosts: g.Hosts}, err
}

// signInError turns an error of package oauth into one that may be shown.
func signInError(err error) error {
	switch {
	case errors.Is(err, oauth.ErrRefused):
		return mailbox.ErrRefused
	case errors.Is(err, oauth.ErrState):
		return mailbox.ErrState
	case errors.Is(err, oauth.ErrNoRedirect):
		return mailbox.ErrNoRedirect
	case errors.Is(err, oauth.ErrNoRefresh):
		return &login.Error{Code: "no_refresh_token", Text: err.Error()}
	}
	return toldOf(err)
}
