package fetch

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// The errors of a URL. None quotes it.
var (
	ErrURL      = errors.New("is not a URL")
	ErrScheme   = errors.New("must begin with https:// or http://")
	ErrHost     = errors.New("must have a host and, if any, a port from 1 to 65535")
	ErrName     = errors.New("has a host's name with characters that no name has: write it as the domain is registered, such as xn--fiqs8s.example")
	ErrUserinfo = errors.New("must not hold a user name or password")
	ErrQuery    = errors.New("must not have a query or a fragment")
	ErrPrivate  = errors.New("must not be a private address")
)

// Validate checks a URL when an account is registered. An address, or localhost, is checked against
// the rule at once, any other name when it is resolved. The error is ErrURL, ErrScheme, ErrHost,
// ErrName, ErrUserinfo or ErrPrivate.
func (c *Client) Validate(raw string) error { return c.way.Load().rule.Validate(raw) }

// ReadURL reads a field of a form: a URL that Validate allows.
func (c *Client) ReadURL(v strict.Value) string {
	text := v.Text()
	if text != "" {
		if err := c.Validate(text); err != nil {
			v.Refuse(err)
		}
	}
	return text
}

// ReadBaseURL reads a field of a form: a URL to which paths are appended. It returns the URL
// without trailing slashes, and its host with the port.
func (c *Client) ReadBaseURL(v strict.Value) (base, host string) {
	base = v.Text()
	u, err := url.Parse(base)
	switch wrong := c.Validate(base); {
	case wrong != nil:
		v.Refuse(wrong)
	case err != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		v.Refuse(ErrQuery)
	default:
		return strings.TrimRight(base, "/"), u.Host
	}
	return "", ""
}

// checkURL judges a URL that is to be called, and makes its host ASCII. From there on the address
// rule, the proxy, the comparison of origins and net/http all see the name that is dialled, and
// none of them converts it in a way of its own.
func checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return ErrScheme
	}
	if u.User != nil {
		return ErrUserinfo
	}
	if u.Hostname() == "" || strings.HasSuffix(u.Host, ":") {
		return ErrHost
	}
	dialled, err := strict.Hostname(u.Hostname())
	if err != nil {
		return ErrName
	}
	u.Host = strings.Replace(u.Host, u.Hostname(), dialled, 1)
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return ErrHost
		}
	}
	return nil
}

// Host returns the host of a URL in lower case, with its port unless that is the
// scheme's default. It is empty if there is none. Accounts with the same host share its
// limits.
func Host(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	host := u.Host // a host that nobody can dial stays as it is
	if dialled, err := strict.Hostname(u.Hostname()); err == nil {
		host = strings.Replace(host, u.Hostname(), dialled, 1)
	}
	host = strings.TrimSuffix(host, ".")
	if u.Scheme == "http" {
		return strings.TrimSuffix(host, ":80")
	}
	if u.Scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return host
}

// SameOrigin reports whether two URLs have the same scheme, host and port. It is false if one of
// them is not a URL.
func SameOrigin(a, b string) bool {
	first, err := url.Parse(a)
	second, err2 := url.Parse(b)
	return err == nil && err2 == nil && sameOrigin(first, second)
}

// sameOrigin reports whether two URLs have the same scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && Host(a.String()) == Host(b.String())
}
