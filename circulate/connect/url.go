package connect

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

type target struct {
	address        string
	user, password string
	database       int
	tls            bool
}

// parse reads the URL. Its errors never contain the URL, which may have a password.
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
	if t.address, err = addressOf(u, "6379", "one host and one port"); err != nil {
		return target{}, err
	}
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

// set is a parsed URL of several servers.
type set struct {
	addresses   []string
	nodes       credentials // to the servers with the data
	tls         bool
	master      string // Sentinel's name for it
	database    int
	sentinels   credentials
	sentinelTLS bool // whether the sentinels speak TLS
}

// parseSet reads the URL of a cluster or of sentinels. Its errors never contain the URL,
// which may have passwords.
func parseSet(rawURL, kind, defaultPort, looksLike string) (set, *url.URL, error) {
	var s set
	unreadable := errors.New("redis URL: cannot be read; it looks like " + looksLike)
	scheme, rest, _ := strings.Cut(rawURL, "://")
	// net/url knows only one host: it reads the rest around the first one.
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	user := ""
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, authority = authority[:at+1], authority[at+1:]
	}
	hosts := strings.Split(authority, ",")
	u, err := url.Parse(scheme + "://" + user + "host" + path)
	if err != nil {
		return s, nil, unreadable
	}
	if u.Scheme != "redis"+kind && u.Scheme != "rediss"+kind {
		return s, nil, errors.New("redis URL: must begin with redis" + kind + ":// or rediss" + kind + "://")
	}
	s.tls = u.Scheme == "rediss"+kind
	for _, host := range hosts {
		u, err := url.Parse("redis://" + host)
		if err != nil || u.Host != host {
			return s, nil, errors.New("redis URL: the hosts cannot be read; they look like HOST:PORT,HOST:PORT, an IPv6 address in brackets")
		}
		address, err := addressOf(u, defaultPort, "one port for each host")
		if err != nil {
			return s, nil, err
		}
		s.addresses = append(s.addresses, address)
	}
	s.nodes.user = u.User.Username()
	s.nodes.password, _ = u.User.Password()
	if u.Fragment != "" {
		return s, nil, unreadable
	}
	return s, u, nil
}

// addressOf returns the host and port of a URL. Only is what there may be, for an error.
func addressOf(u *url.URL, defaultPort, only string) (string, error) {
	name, port := u.Hostname(), cmp.Or(u.Port(), defaultPort)
	switch n, err := strconv.ParseUint(port, 10, 16); {
	case name == "":
		return "", errors.New("redis URL: host is missing")
	case strings.Contains(name, ":") && !strings.HasPrefix(u.Host, "["):
		return "", errors.New("redis URL: " + only + ", an IPv6 address in brackets")
	case err != nil || n == 0:
		return "", errors.New("redis URL: the port must be 1 to 65535")
	}
	return net.JoinHostPort(name, port), nil
}

const clusterURL = "redis+cluster://HOST:PORT,HOST:PORT"

func parseCluster(rawURL string) (set, error) {
	s, u, err := parseSet(rawURL, "+cluster", "6379", clusterURL)
	if err != nil {
		return s, err
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return s, errors.New("redis URL: nothing may follow the hosts of a cluster, which has one database")
	}
	return s, nil
}

const sentinelURL = "redis+sentinel://HOST:PORT,HOST:PORT/MASTER"

func parseSentinel(rawURL string) (set, error) {
	s, u, err := parseSet(rawURL, "+sentinel", "26379", sentinelURL)
	if err != nil {
		return s, err
	}
	s.master = strings.Trim(u.Path, "/")
	if s.master == "" || strings.Contains(s.master, "/") {
		return s, errors.New("redis URL: the name of Sentinel's master must follow the hosts, as in " + sentinelURL)
	}
	s.sentinelTLS = s.tls
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return s, errors.New("redis URL: what follows the question mark cannot be read")
	}
	for name, values := range query {
		value := values[0]
		switch name {
		case "db":
			if s.database, err = strconv.Atoi(value); err != nil || s.database < 0 {
				return s, errors.New("redis URL: db must be a number")
			}
		case "sentinel_user":
			s.sentinels.user = value
		case "sentinel_password":
			s.sentinels.password = value
		case "sentinel_tls":
			if s.sentinelTLS, err = strconv.ParseBool(value); err != nil {
				return s, errors.New("redis URL: sentinel_tls must be true or false")
			}
		default: // not quoted, because it may be part of a password
			return s, errors.New("redis URL: only db, sentinel_user, sentinel_password and sentinel_tls may follow the question mark")
		}
		if len(values) > 1 {
			return s, errors.New("redis URL: " + name + " appears twice")
		}
	}
	return s, nil
}
