package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rounds-dev/rounds/poller/delivery/internal/broker"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	reconnectEvery = time.Second
	// breaksMost is after how many breaks a connection is made anew, which forgets the servers that were named.
	breaksMost = 100
)

// connection is a connection, which reconnects by itself.
type connection struct {
	conn   *nats.Conn
	stream jetstream.JetStream

	mu   sync.Mutex
	lost chan struct{} // closed when the connection breaks; then replaced
	left int           // how often it may still break
}

// connect connects to one of the servers and signs in.
func (c *config) connect(ctx context.Context) (*connection, error) {
	made := &connection{lost: make(chan struct{}), left: breaksMost}
	secured, err := c.Config(ctx)
	if err != nil {
		return nil, err
	}
	dialing := &dialer{servers: &c.Servers, secured: secured, first: ctx}
	options := []nats.Option{
		nats.SetCustomDialer(dialing), nats.SkipHostLookup(), // the dialer judges names, and what they resolve to
		nats.Name("rounds"), nats.Timeout(broker.DialWithin),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectEvery), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1), // what is sent while the connection is broken fails: it might overtake what went before
		nats.DisconnectErrHandler(func(conn *nats.Conn, _ error) {
			if made.broke() {
				go conn.Close()
			}
		}),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // instead of a line on standard error
	}
	scheme := "nats://"
	if secured != nil {
		scheme, options = "tls://", append(options, nats.Secure(secured))
	}
	signing, err := c.signIn(ctx)
	if err != nil {
		return nil, err
	}
	all := nats.GetDefaultOptions()
	for _, address := range c.Addresses {
		all.Servers = append(all.Servers, scheme+address)
	}
	for _, apply := range append(options, signing...) {
		if err := apply(&all); err != nil {
			return nil, err
		}
	}
	if made.conn, err = all.Connect(); broker.Refused(err) {
		// The error is that of the last server, perhaps one that another server has named. An error of the endpoint's
		// own servers tells more.
		all.IgnoreDiscoveredServers = true
		made.conn, err = all.Connect()
	}
	if err != nil {
		return nil, err
	}
	dialing.connected()
	made.stream, err = jetstream.New(made.conn)
	return made, err
}

// signIn returns how a connection signs in. Secrets are read anew for each.
func (c *config) signIn(ctx context.Context) ([]nats.Option, error) {
	get := func(ref secrets.Ref, stays bool) (string, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), broker.DialWithin)
		defer cancel()
		return c.Get(ctx, ref, stays)
	}
	switch {
	case c.user != "":
		_, err := get(c.password, false)
		return []nats.Option{nats.UserInfoHandler(func() (string, string) {
			password, _ := get(c.password, false) // without it the server refuses the login
			return c.user, password
		})}, err
	case !c.token.IsZero():
		_, err := get(c.token, false)
		return []nats.Option{nats.TokenHandler(func() string {
			token, _ := get(c.token, false)
			return token
		})}, err
	case !c.credentials.IsZero():
		text, err := get(c.credentials, true)
		if err != nil {
			return nil, err
		}
		if err := nats.UserCredentialBytes([]byte(text))(new(nats.Options)); err != nil {
			return nil, broker.Plain("secret " + c.credentials.Name + ": must have a JWT and a seed, as a file that nsc makes")
		}
		return []nats.Option{nats.UserCredentialBytes([]byte(text))}, nil
	}
	return nil, nil
}

// broke notes that the connection broke, and reports whether it has done so too often.
func (c *connection) broke() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.lost)
	c.lost = make(chan struct{})
	c.left--
	return c.left == 0
}

// while returns a context that is done when the connection breaks: no answer comes after that.
func (c *connection) while(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	lost := c.lost
	c.mu.Unlock()
	go func() {
		select {
		case <-lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// look returns how the stream is configured.
func (c *config) look(ctx context.Context, to *connection) (jetstream.StreamConfig, error) {
	found, err := to.stream.Stream(ctx, c.stream)
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	return found.CachedInfo().Config, nil
}

// Try connects, signs in and looks for the stream.
func (c *config) Try(ctx context.Context) error {
	to, err := c.connect(ctx)
	if err != nil {
		return reason(err)
	}
	defer to.conn.Close()
	if _, err := c.look(ctx, to); err != nil {
		return reason(err)
	}
	return nil
}

// reason returns what went wrong, without the address, the user and the values.
func reason(err error) error {
	var answered *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return broker.Plain("the stream is not there: create it")
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrJetStreamNotEnabled):
		return broker.Plain("JetStream is not enabled for this user")
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return broker.Plain("no stream takes the subject now: see its subjects, or wait for a leader")
	case errors.As(err, &answered):
		return broker.Plain(fmt.Sprintf("the server refuses with %d: see nats-server's errors.json", answered.ErrorCode))
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return broker.Plain("the login is refused: see user, token or credentials")
	case errors.Is(err, nats.ErrPermissionViolation):
		return broker.Plain("the user may not publish to the subject, or not ask for the stream")
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		return broker.Plain("server and endpoint differ in tls")
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrDisconnected):
		return broker.Plain("the servers cannot be reached")
	case errors.Is(err, nats.ErrTimeout):
		return broker.Plain("the servers did not answer in time")
	}
	return broker.Reason(err)
}
