package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Options are how to reach a server. The zero value has the defaults.
type Options struct {
	// CAFile, CertFile and KeyFile are PEM files for rediss://: whom to trust
	// besides the system's authorities, and who we are.
	CAFile, CertFile, KeyFile string

	MaxConns       int           // at most this many connections; 64
	ConnectTimeout time.Duration // 3 s
	ReadTimeout    time.Duration // of a call without a deadline of its own; 10 s
	WriteTimeout   time.Duration // 5 s
}

func (o Options) withDefaults() Options {
	if o.MaxConns == 0 {
		o.MaxConns = 64
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 3 * time.Second
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = 10 * time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 5 * time.Second
	}
	return o
}

// idleCheck is after how much idleness a connection is tried with a PING before
// it is lent: at every lending that would double a call's cost.
const idleCheck = 10 * time.Second

// Single is one Redis server, and a pool of connections to it.
type Single struct {
	pool *redis.Pool
	name string
}

// Open prepares connections to a redis:// or rediss:// URL,
// redis://USER:PASSWORD@HOST:PORT/DATABASE. It reaches for nothing yet: a server
// that is away is an error of Conn.
func Open(rawURL string, o Options) (*Single, error) {
	o = o.withDefaults()
	target, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	dial := []redis.DialOption{
		redis.DialConnectTimeout(o.ConnectTimeout),
		redis.DialReadTimeout(o.ReadTimeout),
		redis.DialWriteTimeout(o.WriteTimeout),
		redis.DialDatabase(target.database),
		redis.DialUsername(target.user),
		redis.DialPassword(target.password),
		redis.DialClientName("rounds"),
	}
	if target.tls {
		config, err := tlsConfig(target.host, o)
		if err != nil {
			return nil, err
		}
		dial = append(dial, redis.DialUseTLS(true), redis.DialTLSConfig(config), redis.DialTLSHandshakeTimeout(o.ConnectTimeout))
	} else if o.CAFile != "" || o.CertFile != "" || o.KeyFile != "" {
		return nil, errors.New("redis URL: certificates are given, but only rediss:// uses them")
	}
	return &Single{
		name: target.address,
		pool: &redis.Pool{
			MaxIdle:     o.MaxConns,
			MaxActive:   o.MaxConns,
			Wait:        true,
			IdleTimeout: 5 * time.Minute,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", target.address, dial...)
			},
			TestOnBorrowContext: func(ctx context.Context, c redis.Conn, used time.Time) error {
				if time.Since(used) < idleCheck {
					return nil
				}
				_, err := redis.DoContext(c, ctx, "PING")
				return err
			},
		},
	}, nil
}

// Conn lends a connection. All keys live on the one server.
func (s *Single) Conn(ctx context.Context, _ string) (redis.Conn, error) {
	return s.pool.GetContext(ctx)
}

// Name is the server's address, without a password.
func (s *Single) Name() string { return s.name }

// Close ends the connections that are not lent.
func (s *Single) Close() error { return s.pool.Close() }

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
	case "redis+sentinel", "redis+cluster":
		return target{}, fmt.Errorf("redis URL: %s:// is not supported by this version", u.Scheme)
	default:
		return target{}, fmt.Errorf("redis URL: must begin with redis:// or rediss://, begins with %q", u.Scheme)
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
	if t.user != "" && t.password == "" {
		return target{}, errors.New("redis URL: a user needs a password, as in redis://USER:PASSWORD@HOST:PORT")
	}
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

func tlsConfig(host string, o Options) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redis CA file: %w", err)
		}
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redis CA file %s: no certificate in it", o.CAFile)
		}
		config.RootCAs = roots
	}
	if o.CertFile != "" || o.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("redis client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
