package postgres

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rounds-dev/rounds/poller/delivery/internal/broker"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	// maxAnswer is the most bytes of a message from a server: a row of ours has a few, and an error not many.
	maxAnswer = 1 << 20
	// maxAnswers is the most bytes that a server sends before it is asked again. The library remembers every
	// parameter that a server tells of.
	maxAnswers = 16 << 20
)

// asked is a connection on which a server may say only so much before it is asked again.
type asked struct {
	net.Conn
	said atomic.Int64 // bytes since then
}

// Read implements net.Conn.
func (a *asked) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	if a.said.Add(int64(n)) > maxAnswers {
		return 0, broker.Plain("postgres: the server sends more than this client expects")
	}
	return n, err
}

// Write implements net.Conn.
func (a *asked) Write(p []byte) (int, error) {
	a.said.Store(0)
	return a.Conn.Write(p)
}

// noFiles is where the library's settings begin for an endpoint with servers. Whatever it would take
// from files of the process and its environment is replaced: a password for another host, for one.
const noFiles = "host=localhost user=rounds sslmode=disable passfile='' sslcert='' sslkey='' sslrootcert=''"

// connector returns the database. It does not connect.
func (c *config) connector(ctx context.Context) (*sql.DB, error) {
	if !c.url.IsZero() {
		return c.byURL(ctx)
	}
	parsed, err := pgx.ParseConfig(noFiles)
	if err != nil {
		return nil, broker.Plain("the settings of PostgreSQL in this process' environment cannot be read: see PGSERVICE and the like")
	}
	parsed.User, parsed.Database, parsed.Password, parsed.RuntimeParams = c.user, c.database, "", map[string]string{"application_name": "rounds"}
	parsed.ConnectTimeout, parsed.MaxProtocolMessageBodyLen = connectLimit, maxAnswer
	parsed.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := c.Servers.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &asked{Conn: conn}, nil
	}
	parsed.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil } // the dialer judges names, and what they resolve to
	if len(c.Addresses) > 1 {
		parsed.ValidateConnect = writable
	}
	if err := c.prepare(ctx, parsed); err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*parsed, stdlib.OptionBeforeConnect(c.prepare)), nil
}

// prepare sets the servers and the password of a connection, as the secrets are now.
func (c *config) prepare(ctx context.Context, to *pgx.ConnConfig) error {
	secured, err := c.Config(ctx)
	if err != nil {
		return err
	}
	if !c.password.IsZero() {
		if to.Password, err = c.Get(ctx, c.password, false); err != nil {
			return err
		}
	}
	servers := make([]*pgconn.FallbackConfig, len(c.Addresses))
	for i, address := range c.Addresses {
		host, text, _ := net.SplitHostPort(address) // which was parsed
		port, _ := strconv.ParseUint(text, 10, 16)
		servers[i] = &pgconn.FallbackConfig{Host: host, Port: uint16(port)}
		if secured != nil {
			servers[i].TLSConfig = secured.Clone()
			servers[i].TLSConfig.ServerName = host
		}
	}
	to.Host, to.Port, to.TLSConfig, to.Fallbacks = servers[0].Host, servers[0].Port, servers[0].TLSConfig, servers[1:]
	return nil
}

// errReadOnly is the reason to try the next of several servers.
const errReadOnly = broker.Plain("postgres: none of the servers takes writes")

// otherThanReadOnly returns why one of several servers cannot be used if others take no writes, or nil.
func otherThanReadOnly(err error) error {
	var each interface{ Unwrap() []error }
	if errors.Is(err, errReadOnly) && errors.As(err, &each) {
		for _, one := range each.Unwrap() {
			if !errors.Is(one, errReadOnly) {
				return one
			}
		}
	}
	return nil
}

// writable refuses a server that takes no writes.
func writable(ctx context.Context, conn *pgconn.PgConn) error {
	answers, err := conn.Exec(ctx, "SHOW transaction_read_only").ReadAll()
	if err != nil {
		return err
	}
	if len(answers) != 1 || len(answers[0].Rows) != 1 || len(answers[0].Rows[0]) != 1 || string(answers[0].Rows[0][0]) != "off" {
		return errReadOnly
	}
	return nil
}

// byURL returns the database of an endpoint that the file declares with a URL, by which the library does
// what it does for any program.
func (c *config) byURL(ctx context.Context) (*sql.DB, error) {
	url, err := c.Type.Secrets.Get(ctx, c.url.Name, secrets.Use{Kind: name, Stays: true})
	if err != nil {
		return nil, broker.Plain(err.Error()) // names the secret only
	}
	parsed, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, broker.Plain("secret " + c.url.Name + ": must be a URL as postgres://USER:PASSWORD@HOST:5432/DATABASE")
	}
	parsed.ConnectTimeout = connectLimit
	if c.Type.Dial != nil {
		parsed.DialFunc = pgconn.DialFunc(c.Type.Dial)
	}
	return stdlib.OpenDB(*parsed), nil
}
