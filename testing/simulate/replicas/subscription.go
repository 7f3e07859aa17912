package replicas

import (
	"context"
	"sync"

	"github.com/gomodule/redigo/redis"
)

// subscription is a connection that subscribes. It is not pinged, because that would be
// most of what happens in a fake day. The link tells it instead when the connection is
// lost.
type subscription struct {
	link *Link
	lost chan struct{} // closed when the link breaks
	gone chan struct{} // closed when the reader has ended
	more chan struct{} // has a value when something has arrived
	once sync.Once

	mu   sync.Mutex // held while writing
	conn redis.Conn

	came struct {
		sync.Mutex
		values []any
	}
}

func (l *Link) subscribe(first command) (*subscription, error) {
	l.stand()
	if err := l.broken(); err != nil {
		return nil, err
	}
	if l.world.isDown() {
		return nil, errRefused
	}
	conn, err := l.world.redis.Conn(context.Background(), "")
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	s := &subscription{link: l, lost: l.lost, conn: conn,
		gone: make(chan struct{}), more: make(chan struct{}, 1)}
	l.mu.Unlock()
	if err := s.write(first.name, first.args...); err != nil {
		_ = conn.Close()
		return nil, err
	}
	go s.read()
	return s, nil
}

func (s *subscription) write(name string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.conn.Send(name, args...); err != nil {
		return err
	}
	return s.conn.Flush()
}

func (s *subscription) send(name string, args ...any) error {
	select {
	case <-s.lost:
		return errCut
	default:
	}
	if name == "PING" {
		return nil
	}
	return s.write(name, args...)
}

// read keeps what arrives, until the connection breaks or is no longer subscribed. It
// never waits for the subscriber, because the embedded Redis would wait with it.
func (s *subscription) read() {
	defer func() {
		close(s.gone)
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.conn.Close()
	}()
	for {
		value, err := redis.ReceiveWithTimeout(s.conn, 0)
		if err != nil {
			return
		}
		s.came.Lock()
		s.came.values = append(s.came.values, value)
		s.came.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
		if parts, err := redis.Values(value, nil); err == nil && len(parts) > 0 {
			if kind, err := redis.String(parts[0], nil); err == nil && kind == "unsubscribe" {
				return
			}
		}
	}
}

// take returns the first of what has arrived.
func (s *subscription) take() (value any, ok bool) {
	s.came.Lock()
	defer s.came.Unlock()
	if len(s.came.values) == 0 {
		return nil, false
	}
	value = s.came.values[0]
	s.came.values = s.came.values[1:]
	return value, true
}

func (s *subscription) receive() (any, error) {
	for {
		s.link.stand()
		select {
		case <-s.lost:
			return nil, errCut
		default:
		}
		if value, ok := s.take(); ok {
			return value, nil
		}
		select {
		case <-s.more:
		case <-s.gone:
			if value, ok := s.take(); ok {
				return value, nil
			}
			return nil, errCut
		case <-s.lost:
			return nil, errCut
		}
	}
}

// close ends the reader, which ends the connection.
func (s *subscription) close() {
	s.once.Do(func() {
		_ = s.write("UNSUBSCRIBE") // a broken connection has ended the reader already
		<-s.gone
	})
}
