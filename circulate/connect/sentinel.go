package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
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
// place, even if it still answers. Its answers to calls under way are returned as errors,
// like the errors of a cut connection: its writes will be lost.
type Sentinel struct {
	lender
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

// verdict is an answer of the sentinels.
type verdict struct {
	address string
	epoch   int64 // of the failover; a greater one is later
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
	if err := o.refuseUnused(t.tls || t.sentinelTLS, true); err != nil {
		return nil, err
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
		}, pingIdle))
	}
	s.pools = newPools(o, s.dialMaster, s.stillMaster)
	s.lender = s.connFor
	return s, nil
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

// suspect makes us ask the sentinels before the next connection is opened, and soon.
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

// left reports whether the master is now at another address.
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

const (
	// askTimeout bounds one sentinel's answer. askPatience bounds the wait for the others
	// after one has answered.
	askTimeout  = time.Second
	askPatience = 250 * time.Millisecond
	// followInterval is how often sentinels are asked without a reason.
	followInterval = time.Second
	// doubtInterval is the shortest time between two rounds of questions on suspicion.
	doubtInterval = 50 * time.Millisecond
)

// resolve returns the master's address: the last answer, unless that is in doubt.
func (s *Sentinel) resolve(ctx context.Context) (string, error) {
	done, err := s.awaitTurn(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	s.mu.Lock()
	address, ask := s.current.address, s.doubt && time.Since(s.asked) >= doubtInterval
	s.mu.Unlock()
	if address != "" && !ask {
		return address, nil
	}
	return s.ask(ctx)
}

// awaitTurn waits until no other goroutine is asking. The caller may ask until it calls done.
func (s *Sentinel) awaitTurn(ctx context.Context) (done func(), err error) {
	select {
	case s.asking <- struct{}{}:
		return func() { <-s.asking }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, errors.New("redis sentinel: closed")
	}
}

type answer struct {
	verdict
	err error
}

// ask asks all sentinels at once and believes the latest answer: a sentinel that is cut
// off from the others may still name the old master. It must be the caller's turn.
func (s *Sentinel) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	answers := make(chan answer, len(s.sentinels))
	var asked sync.WaitGroup
	for i := range s.sentinels {
		asked.Go(func() {
			v, err := askSentinel(ctx, s.sentinels[i], s.master)
			if err != nil {
				if ctx.Err() == nil { // otherwise the other answers were enough
					s.silent.Add(1)
				}
				err = fmt.Errorf("%s: %w", s.addresses[i], err)
			}
			answers <- answer{v, err}
		})
	}
	defer asked.Wait()
	defer cancel()
	latest, heard, err := gather(ctx, answers, len(s.sentinels))
	if heard == 0 {
		s.mu.Lock()
		s.asked = time.Now()
		s.mu.Unlock()
		return "", fmt.Errorf("redis sentinel: no sentinel names the master %q: %w", s.master, err)
	}
	return s.believe(latest, heard), nil
}

// gather returns the latest of n answers, among those that arrive before the context ends
// and shortly after the first.
func gather(ctx context.Context, answers <-chan answer, n int) (latest verdict, heard int, failed error) {
	var patience <-chan time.Time
	for range n {
		select {
		case a := <-answers:
			if a.err != nil {
				failed = errors.Join(failed, a.err)
				continue
			}
			if heard++; heard == 1 {
				patience = time.After(askPatience)
			}
			if heard == 1 || a.epoch > latest.epoch {
				latest = a.verdict
			}
		case <-patience:
			return latest, heard, failed
		case <-ctx.Done():
			return latest, heard, errors.Join(failed, ctx.Err())
		}
	}
	return latest, heard, failed
}

// believe accepts an answer, unless a later one was heard and only few have answered now.
func (s *Sentinel) believe(v verdict, heard int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.address == "" || v.epoch >= s.current.epoch || 2*heard > len(s.sentinels) {
		s.current = v
	}
	s.doubt, s.asked = false, time.Now()
	return s.current.address
}

// askSentinel asks a Sentinel which server is the master.
func askSentinel(ctx context.Context, pool *redis.Pool, master string) (verdict, error) {
	conn, err := pool.GetContext(ctx)
	if err != nil {
		return verdict{}, err
	}
	defer conn.Close()
	// The first command has the new address as soon as the failover is done, even if not
	// all sentinels know it; the second has the epoch.
	if err := errors.Join(conn.Send("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master), conn.Send("SENTINEL", "MASTER", master), conn.Flush()); err != nil {
		return verdict{}, err
	}
	address, err := redis.Strings(redis.ReceiveContext(conn, ctx))
	if errors.Is(err, redis.ErrNil) {
		err = errors.New("knows no master of that name")
	}
	var unknown redis.Error
	if errors.As(err, &unknown) && strings.HasPrefix(string(unknown), "ERR unknown command") {
		err = fmt.Errorf("is not a Sentinel; the URL of a server without Sentinels begins with redis://: %w", err)
	}
	if err != nil {
		return verdict{}, err
	}
	if len(address) != 2 {
		return verdict{}, errors.New("unreadable reply")
	}
	v := verdict{address: net.JoinHostPort(address[0], address[1])}
	state, err := redis.StringMap(redis.ReceiveContext(conn, ctx))
	var refused redis.Error
	switch {
	case errors.As(err, &refused): // not permitted: the address alone must do
		return v, nil
	case err != nil:
		return verdict{}, err
	}
	v.epoch, err = redis.Int64([]byte(state["config-epoch"]), nil)
	if err != nil {
		return verdict{}, fmt.Errorf("unreadable config-epoch: %w", err)
	}
	return v, nil
}

// follow asks the sentinels every followInterval, and at once when one of them announces another
// master, until Close.
func (s *Sentinel) follow() {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		case <-s.changed:
		}
		done, err := s.awaitTurn(s.ctx)
		if err != nil {
			return
		}
		_, _ = s.ask(s.ctx) // if none answers, the last answer stands until one does
		done()
		select { // a burst of announcements must not become a burst of questions
		case <-s.ctx.Done():
		case <-time.After(doubtInterval):
		}
	}
}

// listen makes us ask the sentinels at once when one of them announces another master. It
// listens to one at a time. While none can be heard, follow learns of another master a second
// later.
func (s *Sentinel) listen() {
	for i := 0; s.ctx.Err() == nil; i++ {
		s.listenTo(s.sentinels[i%len(s.sentinels)])
		select {
		case <-s.ctx.Done():
		case <-time.After(followInterval):
		}
	}
}

func (s *Sentinel) listenTo(pool *redis.Pool) {
	ctx, cancel := context.WithTimeout(s.ctx, askTimeout)
	defer cancel()
	conn, err := pool.GetContext(ctx)
	if err != nil {
		return
	}
	sub := redis.PubSubConn{Conn: conn}
	defer func() { _ = sub.Close() }() // back to the pool
	if sub.Subscribe("+switch-master") != nil {
		return
	}
	for {
		// A sentinel that says nothing until the read time-out may be dead, so the next
		// is tried.
		switch sub.ReceiveContext(s.ctx).(type) {
		case error:
			return
		case redis.Message:
			s.signal()
		}
	}
}

// sentinelConn is a connection to the server that was the master when it was opened. It
// is inside the pool: if it finds something wrong, the pool closes it.
type sentinelConn struct {
	redis.Conn
	of      *Sentinel
	address string
	demoted atomic.Bool
}

// errReplaced is the error of an answer, or a published message, from a server whose
// place another has taken. It is unknown whether it counts.
var errReplaced = errors.New("answered after another server had become the master")

// observe passes a result to the caller, unless it comes from a server that is no longer
// the master. A server that was frozen or cut off acknowledges writes that will be lost.
func (k *sentinelConn) observe(reply any, err error) (any, error) {
	if err == nil {
		if k.of.left(k.address) {
			k.demoted.Store(true)
			return nil, errReplaced
		}
		return reply, nil
	}
	var refused redis.Error
	if !errors.As(err, &refused) {
		k.of.suspect()
		return reply, err
	}
	switch code, _, _ := strings.Cut(string(refused), " "); code {
	case "READONLY", "NOREPLICAS", "MASTERDOWN":
		k.demoted.Store(true)
		k.of.suspect()
	}
	return reply, err
}

// Err returns an error if the connection must not be used again.
func (k *sentinelConn) Err() error {
	if k.demoted.Load() {
		return errNotMaster
	}
	return k.Conn.Err()
}

func (k *sentinelConn) Do(name string, args ...any) (any, error) {
	return k.observe(k.Conn.Do(name, args...))
}

func (k *sentinelConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	return k.observe(redis.DoWithTimeout(k.Conn, timeout, name, args...))
}

func (k *sentinelConn) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	return k.observe(redis.DoContext(k.Conn, ctx, name, args...))
}

func (k *sentinelConn) Receive() (any, error) { return k.observe(k.Conn.Receive()) }

func (k *sentinelConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return k.observe(redis.ReceiveWithTimeout(k.Conn, timeout))
}

func (k *sentinelConn) ReceiveContext(ctx context.Context) (any, error) {
	return k.observe(redis.ReceiveContext(k.Conn, ctx))
}
