package connect

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// follow asks sentinels again and again, until Close.
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
		release, err := s.mayAsk(s.ctx)
		if err != nil {
			return
		}
		_, _ = s.ask(s.ctx) // if none answers, the last answer stands until one does
		release()
		select {
		case <-s.ctx.Done():
		case <-time.After(doubtInterval):
		}
	}
}

// listen has sentinels asked at once when one of them announces another master. It
// listens to one at a time. If none can be heard, that costs a second.
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
