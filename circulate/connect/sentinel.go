package connect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Sentinel is the server that Redis Sentinel names as the master, with pools of
// connections to it.
//
// The sentinels' answer is not enough: each new connection asks the server for its ROLE
// and is closed unless that is master. Sentinels are asked again when a connection cannot
// be opened or is lost, when the server says that it may not write (READONLY,
// NOREPLICAS), when a sentinel publishes +switch-master, and each second. So a master
// that is cut off from them, but not from us, is left at once when another has taken its
// place, even if it still answers. Its answers to calls that were under way are returned
// as errors, like those of a cut connection: what it did will be forgotten.
type Sentinel struct {
	addresses []string
	master    string
	data      *dialer
	sentinels []*redis.Pool
	pools     *pools

	mu      sync.Mutex
	current verdict
	doubt   bool      // ask for current again before using it
	asked   time.Time // when sentinels were last asked

	asking  chan struct{} // has a value while sentinels are being asked
	started sync.Once
	ctx     context.Context
	end     context.CancelFunc
	all     sync.WaitGroup
	changed chan struct{} // has a value when the follower should ask at once

	silent atomic.Int64 // answers that did not come
}

// verdict is what sentinels say.
type verdict struct {
	address string
	epoch   int64 // of the failover that made it so; a greater one is later
}

// OpenSentinel prepares connections to the master of a redis+sentinel:// URL:
//
//	redis+sentinel://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…]/MASTER[?db=DATABASE]
//
// HOST:PORT are the sentinels; name all of them. User, password and database are the
// master's. Parameters sentinel_user and sentinel_password are for sentinels that demand
// them. With rediss+sentinel both speak TLS; sentinel_tls=true or false overrides that
// for the sentinels.
func OpenSentinel(rawURL string, o Options) (*Sentinel, error) {
	o = o.withDefaults()
	t, err := parseSentinel(rawURL)
	if err != nil {
		return nil, err
	}
	if !t.tls && !t.sentinelTLS {
		if err := refuseUnusedFiles(o); err != nil {
			return nil, err
		}
	}
	data, err := newDialer(t.nodes, o.PasswordFile, t.database, t.tls, o)
	if err != nil {
		return nil, err
	}
	quick := o
	quick.ConnectTimeout = min(o.ConnectTimeout, askTimeout)
	switch {
	case t.sentinels.user != "" && t.sentinels.password == "" && o.SentinelPasswordFile == "":
		return nil, errors.New("redis URL: sentinel_user needs sentinel_password, or a file for it")
	case t.sentinels.password != "" && o.SentinelPasswordFile != "":
		return nil, errors.New("redis URL: must not hold sentinel_password where there is a file for it")
	}
	word, err := newDialer(t.sentinels, o.SentinelPasswordFile, 0, t.sentinelTLS, quick)
	if err != nil {
		return nil, err
	}
	s := &Sentinel{
		addresses: t.addresses, master: t.master, data: data,
		doubt: true, asking: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	for _, address := range t.addresses {
		s.sentinels = append(s.sentinels, newPool(quick, func(ctx context.Context) (redis.Conn, error) {
			return word.dial(ctx, address)
		}, nil))
	}
	s.pools = newPools(o, s.dialMaster, s.stillMaster)
	return s, nil
}

// Conn lends a connection to the master.
func (s *Sentinel) Conn(ctx context.Context, key string) (redis.Conn, error) {
	return s.connFor(ctx, key, ordinary)
}

// VitalConn lends a connection for a heartbeat, a claim or what returns a claim.
func (s *Sentinel) VitalConn(ctx context.Context, key string) (redis.Conn, error) {
	return s.connFor(ctx, key, vital)
}

// GroupConn lends a connection for a step of a consumer group.
func (s *Sentinel) GroupConn(ctx context.Context, key string) (redis.Conn, error) {
	return s.connFor(ctx, key, groups)
}

// BlockingConn lends a connection for a call that blocks, or a subscription.
func (s *Sentinel) BlockingConn(ctx context.Context, key string) (redis.Conn, error) {
	return s.connFor(ctx, key, blocking)
}

func (s *Sentinel) connFor(ctx context.Context, _ string, p purpose) (redis.Conn, error) {
	s.started.Do(func() {
		s.all.Go(s.follow)
		s.all.Go(s.listen)
	})
	return s.pools.lend(ctx, p)
}

// Silent returns how often a sentinel did not answer. Each is asked every second.
func (s *Sentinel) Silent() int64 { return s.silent.Load() }

// Name returns the master's name and the sentinels' addresses, without a password.
func (s *Sentinel) Name() string {
	return "master " + s.master + " of sentinels " + strings.Join(s.addresses, ",")
}

// Master returns the address that sentinels named last, or "" before any did.
func (s *Sentinel) Master() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.address
}

// Close ends the connections that are not lent.
func (s *Sentinel) Close() error {
	s.end()
	s.started.Do(func() {}) // a caller that asks for a connection from now on starts nothing
	s.all.Wait()
	err := s.pools.Close()
	for _, p := range s.sentinels {
		err = errors.Join(err, p.Close())
	}
	return err
}

// suspect has sentinels asked before the next connection is opened, and soon.
func (s *Sentinel) suspect() {
	s.mu.Lock()
	s.doubt = true
	s.mu.Unlock()
	s.signal()
}

func (s *Sentinel) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// dialMaster opens a connection to the server that sentinels name, if its ROLE is master.
func (s *Sentinel) dialMaster(ctx context.Context) (redis.Conn, error) {
	address, err := s.resolve(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := s.data.dial(ctx, address)
	if err == nil {
		if err = requireMaster(ctx, conn); err != nil {
			_ = conn.Close()
		}
	}
	if err != nil {
		s.suspect()
		return nil, fmt.Errorf("redis %s, which sentinels name as the master: %w", address, err)
	}
	return &sentinelConn{Conn: conn, of: s, address: address}, nil
}

// stillMaster returns an error for a connection to a server that is no longer the master.
func (s *Sentinel) stillMaster(ctx context.Context, c redis.Conn, used time.Time) error {
	k := c.(*sentinelConn)
	if s.left(k.address) {
		return errNotMaster
	}
	if time.Since(used) < idleCheck {
		return nil
	}
	return requireMaster(ctx, c)
}

// left reports whether the master is at another address now.
func (s *Sentinel) left(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.address != address
}

var errNotMaster = errors.New("is not the master")

// requireMaster asks a server for its ROLE. If the user may not ask, READONLY will show
// it later.
func requireMaster(ctx context.Context, conn redis.Conn) error {
	reply, err := redis.Values(redis.DoContext(conn, ctx, "ROLE"))
	var refused redis.Error
	if errors.As(err, &refused) && (strings.HasPrefix(string(refused), "NOPERM") || strings.HasPrefix(string(refused), "ERR unknown command")) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(reply) == 0 {
		return errNotMaster
	}
	if role, err := redis.String(reply[0], nil); err != nil || role != "master" {
		return fmt.Errorf("%w but %s", errNotMaster, role)
	}
	return nil
}
