package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// credentials are our user and password.
type credentials struct{ user, password string }

// dialer opens connections to servers that are all reached with the same settings.
type dialer struct {
	credentials
	file    string // has the password, read for each connection; empty: the credentials have it
	secure  bool   // by TLS
	options []redis.DialOption
	served  atomic.Bool // a server was reached with these settings
}

func newDialer(c credentials, file string, database int, secure bool, o Options) (*dialer, error) {
	switch {
	case file != "" && c.password != "":
		return nil, errors.New("redis URL: must not hold a password where there is a file for it")
	case file == "" && c.user != "" && c.password == "":
		return nil, errors.New("redis URL: a user needs a password, as in USER:PASSWORD@HOST:PORT, or in a file")
	}
	d := &dialer{credentials: c, file: file, secure: secure, options: []redis.DialOption{
		redis.DialContextFunc(dialing(o)),
		redis.DialReadTimeout(o.ReadTimeout),
		redis.DialWriteTimeout(o.WriteTimeout),
		redis.DialDatabase(database),
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

// keepAlive is how often the system checks that the other end of a connection exists.
const keepAlive = 5 * time.Minute

// dialing connects, and reports the address.
func dialing(o Options) func(ctx context.Context, network, address string) (net.Conn, error) {
	tcp := net.Dialer{Timeout: o.ConnectTimeout, KeepAlive: keepAlive}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := tcp.DialContext(ctx, network, address)
		if err == nil && o.Dialed != nil {
			o.Dialed(conn.RemoteAddr())
		}
		return conn, err
	}
}

func (d *dialer) dial(ctx context.Context, address string) (redis.Conn, error) {
	password := d.password
	if d.file != "" {
		var err error
		if password, err = ReadPassword(d.file); err != nil {
			return nil, fmt.Errorf("redis password file: %w", err)
		}
	}
	conn, err := redis.DialContext(ctx, "tcp", address, append(slices.Clip(d.options), redis.DialUsername(d.user), redis.DialPassword(password))...)
	if err != nil && d.served.Load() && wasCut(err) {
		// The settings are right: they have worked before.
		return nil, fmt.Errorf("redis at %s was reached, but closed the connection at once, as a server does while it starts or stops: %w", address, err)
	}
	if err != nil {
		return nil, explain(address, d.secure, err)
	}
	d.served.Store(true)
	return conn, nil
}

// maxPassword is how many bytes a password may have.
const maxPassword = 64 << 10

// ReadPassword reads a file with a password. One newline at the end is not part of the
// password. The error never contains the file's content.
func ReadPassword(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxPassword {
		return "", fmt.Errorf("%s: must be a regular file of at most 64 KiB", path) // it is read again and again
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if password == "" {
		return "", fmt.Errorf("%s: is empty", path)
	}
	return password, nil
}

// newPool makes a pool of connections that dial opens. Test checks each connection before
// it is lent.
func newPool(o Options, dial func(context.Context) (redis.Conn, error), test tester) *redis.Pool {
	pool := &redis.Pool{
		MaxIdle:             o.MaxConns,
		MaxActive:           o.MaxConns,
		Wait:                true,
		IdleTimeout:         5 * time.Minute,
		DialContext:         dial,
		TestOnBorrowContext: test,
	}
	// A pool is set up when it is first asked for a connection, and closing it at that
	// moment is a race (redigo v1.9.3, Pool.lazyInit). So it is set up here, with a
	// context that is done, so that nothing is dialed.
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = pool.GetContext(gone)
	return pool
}

// idleCheck is how long a connection must have been idle to be tested with a PING before
// it is lent. A test at every lending would double a call's cost.
const idleCheck = 10 * time.Second

func pingIdle(ctx context.Context, c redis.Conn, used time.Time) error {
	if time.Since(used) < idleCheck {
		return nil
	}
	_, err := redis.DoContext(c, ctx, "PING")
	return err
}

// tlsConfig sets no server name: redigo takes it from each address that it dials.
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

// explain adds to the error of a server that refuses us that the server was reached, and
// what may be wrong. Secure is whether we began TLS.
func explain(address string, secure bool, err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return explainCut(address, secure, err)
	}
	switch text := string(reply); {
	case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "ERR invalid password"):
		return fmt.Errorf("redis at %s was reached, but refused the password: %w", address, err)
	case strings.HasPrefix(text, "NOAUTH"):
		return fmt.Errorf("redis at %s was reached, but wants a password and was given none: %w", address, err)
	case strings.HasPrefix(text, "ERR AUTH"):
		return fmt.Errorf("redis at %s was reached, but has no password and was given one: %w", address, err)
	case strings.HasPrefix(text, "DENIED"):
		return fmt.Errorf("redis at %s was reached, but without a password it serves only its own machine (protected mode): %w", address, err)
	case strings.HasPrefix(text, "ERR SELECT is not allowed in cluster mode"):
		return fmt.Errorf("redis at %s is a node of a cluster, which has no databases: begin the URL with redis+cluster:// and end it with the port: %w", address, err)
	case strings.HasPrefix(text, "ERR unknown command") && strings.Contains(text, "SELECT"):
		return fmt.Errorf("redis at %s has no databases, as Sentinels do not: a URL with Sentinels begins with redis+sentinel:// (or rediss+sentinel://) and ends with /MASTER: %w", address, err)
	case strings.HasPrefix(text, "ERR DB index is out of range"):
		// Valkey 9 says so on a node of a cluster, too.
		return fmt.Errorf("redis at %s has no database of the number behind the port; if it is a node of a cluster, begin the URL with redis+cluster:// and end it with the port: %w", address, err)
	}
	return err
}

// wasCut reports whether the other side closed the connection.
func wasCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// explainCut explains the error of a server that does not answer as Redis does.
func explainCut(address string, secure bool, err error) error {
	var record tls.RecordHeaderError
	var slow net.Error
	var untrusted *tls.CertificateVerificationError
	var dial *net.OpError
	switch {
	case secure && errors.As(err, &record):
		return fmt.Errorf("redis at %s was reached, but does not speak TLS: the URL of a server without it begins with redis://, or redis+: %w", address, err)
	case secure && errors.As(err, &slow) && slow.Timeout() && strings.Contains(err.Error(), "TLS"):
		return fmt.Errorf("redis at %s was reached, but does not answer in TLS: the URL of a server without it begins with redis://, or redis+: %w", address, err)
	case wasCut(err):
		hint := "the URL of a server that wants it begins with rediss://, or rediss+"
		if secure {
			hint = "the URL of a server without it begins with redis://, or redis+"
		}
		return fmt.Errorf("redis at %s was reached, but closed the connection at once; if this is about TLS: %s: %w", address, hint, err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("redis at %s was reached, but its certificate is not trusted; ROUNDS_REDIS_CA_FILE may name who signed it: %w", address, err)
	case strings.Contains(err.Error(), "unexpected response line"):
		return fmt.Errorf("what was reached at %s does not answer as Redis does; is it another server's port, or one that speaks TLS? %w", address, err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("redis at %s cannot be reached: %w", address, err)
	}
	return err
}
