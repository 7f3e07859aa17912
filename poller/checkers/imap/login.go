package imap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-sasl"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
)

var errPassword = errors.New("must be one line of at most 1024 bytes to be a password")

// credential is what an account logs in with: a password, or an access token.
type credential struct {
	password string
	access   *oauth.Access
}

// credential finds the password for one of the account's servers, or gets an access token other than
// the refused one. An error names the secret, never its value.
func (c *Checker) credential(ctx context.Context, account string, config config, at server, refused *oauth.Access) (credential, error) {
	use := secrets.Use{Kind: Kind, Host: net.JoinHostPort(at.host, strconv.Itoa(at.port)), TLS: at.tls != tlsNone}
	if !config.oauth.IsZero() {
		if c.options.OAuth == nil {
			return credential{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "oauth", Message: "this process gets no access tokens"}
		}
		access, failed := c.options.OAuth.Token(ctx, account, config.oauth.Name, use, refused)
		if failed != nil {
			return credential{}, failed
		}
		return credential{access: access}, nil
	}
	value, err := c.secrets.Get(ctx, config.password.Name, use)
	if err != nil {
		return credential{}, secrets.CheckError(err)
	}
	if len(value) > maxText || strings.ContainsFunc(value, unicode.IsControl) {
		return credential{}, secrets.CheckError(fmt.Errorf("secret %s: %w", config.password.Name, errPassword))
	}
	return credential{password: value}, nil
}

// proof identifies what an account logs in with: the password, or the sign-in, whose access tokens
// change.
func (with credential) proof() string {
	if with.access != nil {
		return with.access.SignIn()
	}
	return with.password
}

// secret is the password or the access token.
func (with credential) secret() string {
	if with.access != nil {
		return with.access.Token
	}
	return with.password
}

// enter connects and logs in. If the server refuses an access token, it tries once
// more, with another one.
func (c *Checker) enter(ctx context.Context, account string, config config, with credential) (*session, error) {
	for first := true; ; first = false {
		s, err := c.open(ctx, config)
		if err != nil {
			return nil, err
		}
		if err = s.login(config, with); err == nil {
			if err = s.introduce(c); err == nil {
				return s, nil
			}
			s.close()
			return nil, err
		}
		s.close()
		var failed *poller.CheckError
		again := first && with.access != nil && errors.As(err, &failed) && failed.Kind == poller.AuthFailed
		if !again || !c.options.OAuth.Drop(ctx, with.access) {
			return nil, err
		}
		if with, err = c.credential(ctx, account, config, config.imap(), with.access); err != nil {
			return nil, err
		}
	}
}

// introduce says who this is, and finds the names of the mailboxes.
func (s *session) introduce(c *Checker) error {
	if err := s.identify(c.client.Product()); err != nil {
		return err
	}
	return s.resolve()
}

// login logs in by LOGIN, or by SASL PLAIN if the server disables LOGIN, or with an access token.
// After a greeting with PREAUTH no login is needed.
func (s *session) login(config config, with credential) error {
	s.proof = with.proof()
	if s.client.State() == imap.ConnStateAuthenticated {
		return nil
	}
	if with.access != nil {
		return s.bear(config, with.access.Token)
	}
	s.secret = with.password
	caps := s.client.Caps()
	var err error
	if caps.Has(imap.CapLoginDisabled) && caps.Has(imap.AuthCap("PLAIN")) {
		err = s.client.Authenticate(sasl.NewPlainClient("", config.user, with.password))
	} else {
		err = s.client.Login(config.user, with.password).Wait()
	}
	if err != nil {
		return s.failed(err, "login", loginRefused)
	}
	return nil
}

// bear logs in with an access token.
func (s *session) bear(config config, access string) error {
	s.secret = access
	caps := s.client.Caps()
	with, ok := newBearer(config.user, access, config.imap(), func(mechanism string) bool { return caps.Has(imap.AuthCap(mechanism)) })
	if !ok {
		return errNoBearer()
	}
	if err := s.client.Authenticate(with); err != nil {
		return s.failed(err, "login", tokenRefused)
	}
	return nil
}

// errNoBearer returns the error for a server that takes no access tokens.
func errNoBearer() *poller.CheckError {
	return &poller.CheckError{Kind: poller.ConfigInvalid, Code: "config", Message: "config.oauth: the server takes no access tokens: it offers neither OAUTHBEARER nor XOAUTH2"}
}

// newBearer returns what logs in with an access token, by OAUTHBEARER (RFC 7628) where the server
// offers it, or by XOAUTH2, which Google describes at
// https://developers.google.com/workspace/gmail/imap/xoauth2-protocol. It returns false for a server
// that offers neither.
func newBearer(user, access string, at server, offers func(mechanism string) bool) (bearer, bool) {
	switch {
	case offers(sasl.OAuthBearer):
		escaped := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(user) // saslname of RFC 5801
		return bearer{sasl.OAuthBearer, fmt.Sprintf("n,a=%s,\x01host=%s\x01port=%d\x01auth=Bearer %s\x01\x01", escaped, at.host, at.port, access)}, true
	case offers(xoauth2):
		return bearer{xoauth2, fmt.Sprintf("user=%s\x01auth=Bearer %s\x01\x01", user, access)}, true
	}
	return bearer{}, false
}

const xoauth2 = "XOAUTH2"

// bearer is a SASL client that sends an access token. The one of package sasl ends the exchange when
// the server sends why it refuses, and so never reads the refusal itself.
type bearer struct{ mechanism, first string }

// Start implements sasl.Client.
func (b bearer) Start() (mechanism string, first []byte, err error) {
	return b.mechanism, []byte(b.first), nil
}

// Next implements sasl.Client. The server has sent why it refuses, and wants an answer before it
// ends the exchange.
func (bearer) Next([]byte) ([]byte, error) { return []byte("\x01"), nil }

// tokenRefused is loginRefused for an access token.
func tokenRefused(status *imap.Error) *poller.CheckError {
	e := loginRefused(status)
	if e.Kind == poller.AuthFailed {
		e.Message = "login: the server refused user or access token: sign in again, as the user of the config: " + said(status)
	}
	return e
}
