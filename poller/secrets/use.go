package secrets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/rounds-dev/rounds/accounts/secret"
)

// These kinds stand in a binding for uses that are not an account's. No kind of
// accounts has these names.
const (
	KindWebhook  = "webhook"
	KindCallback = "callback"
	KindFiles    = "files"
)

// Use is the purpose of a secret. It is checked before the secret is returned, and so
// before any connection is made.
type Use struct {
	// Kind is the account's kind, or one of the constants. It is required.
	Kind string
	// Host is where the secret is sent, as HOST or HOST:PORT. Empty: nowhere, and only a secret that
	// is not bound to hosts may be used.
	Host string
	// TLS says that the secret is sent encrypted.
	TLS bool
	// Stays says that the secret itself is not sent: it signs, opens or verifies.
	Stays bool
}

// ForURL returns the use of a secret that is sent to a URL, in a header or in its query. If the URL
// cannot be read, the use is never allowed.
func ForURL(kind, raw string) Use {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return Use{}
	}
	return Use{Kind: kind, Host: HostOf(u), TLS: u.Scheme == "https"}
}

// HostOf returns the host of an http or https URL as HOST:PORT, with the scheme's port if it
// names none.
func HostOf(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Staying returns the same use for a secret that is not sent itself.
func (u Use) Staying() Use {
	u.Stays = true
	return u
}

// Open reports whether the secret is sent without encryption. The caller must then make
// sure that it only reaches a private address; see fetch.Call.Confined.
func (u Use) Open() bool { return !u.TLS && !u.Stays }

// The reasons why a use of a secret is refused.
var (
	// All errors for refused uses wrap ErrRefused.
	ErrRefused = errors.New("refused")

	errNoUse   = fmt.Errorf("%w: nobody said what for", ErrRefused)
	errUnbound = fmt.Errorf("%w: it is bound to no hosts, and ROUNDS_SECRETS_UNBOUND=refuse forbids that", ErrRefused)
	errAdded   = fmt.Errorf("%w: it is bound to no hosts, and an endpoint that was added while the service runs uses only secrets that are", ErrRefused)
	errOwn     = fmt.Errorf("%w: it is the service's own, in a file that a setting names", ErrRefused)
)

// allow checks a use of a secret against all of its bindings.
func (s Source) allow(use Use, bindings []secret.Binding) error {
	if use.Kind == "" || use.Host == "" && !use.Stays {
		return errNoUse
	}
	bound, named := false, false
	for _, b := range bindings {
		switch {
		case !b.AllowsKind(use.Kind):
			return fmt.Errorf("%w: its binding is for other kinds than %s", ErrRefused, use.Kind)
		case !b.AllowsHost(use.Host) && use.Host == "":
			return fmt.Errorf("%w: its binding names hosts, and this use names none", ErrRefused)
		case !b.AllowsHost(use.Host):
			return fmt.Errorf("%w: its binding names other hosts than %.120q", ErrRefused, use.Host)
		}
		bound = bound || len(b.Hosts) > 0
		named = named || b.Names(use.Host)
	}
	if s.RequireHosts && !bound && !s.own {
		return errUnbound
	}
	if s.bound && !bound {
		return errAdded
	}
	if use.Open() && !named && !isLoopback(use.Host) && !secret.MatchHost(s.PlainHosts, use.Host) {
		return fmt.Errorf("%w: it goes over TLS only, or to private hosts that ROUNDS_SECRETS_PLAIN_HOSTS names", ErrRefused)
	}
	return nil
}

// isLoopback reports whether a host's name or address always means this machine.
func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
