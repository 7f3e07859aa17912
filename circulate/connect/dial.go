package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
)

// credentials are who we say we are.
type credentials struct{ user, password string }

// dialer opens connections to servers that are all reached in the same way.
type dialer struct{ options []redis.DialOption }

func newDialer(c credentials, database int, secure bool, o Options) (*dialer, error) {
	d := &dialer{options: []redis.DialOption{
		redis.DialConnectTimeout(o.ConnectTimeout),
		redis.DialReadTimeout(o.ReadTimeout),
		redis.DialWriteTimeout(o.WriteTimeout),
		redis.DialDatabase(database),
		redis.DialUsername(c.user),
		redis.DialPassword(c.password),
		redis.DialClientName("rounds"),
	}}
	if !secure {
		return d, nil
	}
	config, err := tlsConfig(o)
	if err != nil {
		return nil, err
	}
	d.options = append(d.options, redis.DialUseTLS(true), redis.DialTLSConfig(config), redis.DialTLSHandshakeTimeout(o.ConnectTimeout))
	return d, nil
}

func (d *dialer) dial(ctx context.Context, address string) (redis.Conn, error) {
	return redis.DialContext(ctx, "tcp", address, d.options...)
}

// refuseUnusedFiles says that certificates are given where nothing uses them.
func refuseUnusedFiles(o Options) error {
	if o.CAFile != "" || o.CertFile != "" || o.KeyFile != "" {
		return errors.New("redis URL: certificates are given, but only rediss:// uses them")
	}
	return nil
}

// newPool has connections that dial opens and that, before they are lent, test
// finds good; nil finds all good that have not been idle for long.
func newPool(o Options, dial func(context.Context) (redis.Conn, error), test func(context.Context, redis.Conn, time.Time) error) *redis.Pool {
	if test == nil {
		test = pingIdle
	}
	pool := &redis.Pool{
		MaxIdle:             o.MaxConns,
		MaxActive:           o.MaxConns,
		Wait:                true,
		IdleTimeout:         5 * time.Minute,
		DialContext:         dial,
		TestOnBorrowContext: test,
	}
	// A pool makes its places when it is first asked for a connection, and one that is
	// closed at that moment races with itself (redigo v1.9.3, Pool.lazyInit). Nobody
	// dials for who has gone already.
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = pool.GetContext(gone)
	return pool
}

// idleCheck is after how much idleness a connection is tried with a PING before
// it is lent: at every lending that would double a call's cost.
const idleCheck = 10 * time.Second

func pingIdle(ctx context.Context, c redis.Conn, used time.Time) error {
	if time.Since(used) < idleCheck {
		return nil
	}
	_, err := redis.DoContext(c, ctx, "PING")
	return err
}

// tlsConfig has no server name: redigo takes it from each address that it dials.
func tlsConfig(o Options) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
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
