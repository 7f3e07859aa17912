package connect

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

type target struct {
	address, host  string
	user, password string
	database       int
	tls            bool
}

// parse reads the URL. Its errors never hold the URL, which may hold a password.
func parse(rawURL string) (target, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return target{}, errors.New("redis URL: cannot be read; it looks like redis://HOST:PORT")
	}
	t := target{tls: u.Scheme == "rediss"}
	switch u.Scheme {
	case "redis", "rediss":
	default:
		return target{}, fmt.Errorf("redis URL: must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://, begins with %q", u.Scheme)
	}
	if t.host = u.Hostname(); t.host == "" {
		return target{}, errors.New("redis URL: host is missing")
	}
	if strings.Contains(t.host, ":") && !strings.HasPrefix(u.Host, "[") {
		return target{}, errors.New("redis URL: one host and one port, an IPv6 address in brackets")
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return target{}, errors.New("redis URL: the port must be 1 to 65535")
	}
	t.address = net.JoinHostPort(t.host, port)
	t.user = u.User.Username()
	t.password, _ = u.User.Password()
	if database := strings.Trim(u.Path, "/"); database != "" {
		if t.database, err = strconv.Atoi(database); err != nil || t.database < 0 {
			return target{}, errors.New("redis URL: the database behind the port must be a number")
		}
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return target{}, errors.New("redis URL: nothing may follow the database")
	}
	return t, nil
}

// Unescaped reports whether the part of a URL before its host seems to have characters
// that must be percent-encoded there: / ? # @ or a % that encodes nothing.
func Unescaped(rawURL string) bool {
	_, rest, _ := strings.Cut(rawURL, "://")
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return false
	}
	_, err := url.PathUnescape(rest[:at])
	return err != nil || strings.ContainsAny(rest[:at], "/?#@ ")
}
