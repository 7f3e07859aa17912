package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

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
	release, err := s.mayAsk(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	s.mu.Lock()
	address, ask := s.current.address, s.doubt && time.Since(s.asked) >= doubtInterval
	s.mu.Unlock()
	if address != "" && !ask {
		return address, nil
	}
	return s.ask(ctx)
}

// mayAsk waits until no other goroutine asks.
func (s *Sentinel) mayAsk(ctx context.Context) (release func(), err error) {
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
// off from the others may still name the old master. The caller has mayAsk's permission.
func (s *Sentinel) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	answers := make(chan answer, len(s.sentinels))
	var asked sync.WaitGroup
	for i := range s.sentinels {
		asked.Go(func() {
			v, err := askSentinel(ctx, s.sentinels[i], s.master)
			if err != nil {
				if ctx.Err() == nil { // otherwise the others had answered enough
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
		return "", fmt.Errorf("redis sentinel: none tells who is the master %q: %w", s.master, err)
	}
	return s.believe(latest, heard), nil
}

// gather returns the latest of n answers, from as many as arrive before the context ends
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

// believe accepts an answer, unless there was a later one and only few have answered now.
func (s *Sentinel) believe(v verdict, heard int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.address == "" || v.epoch >= s.current.epoch || 2*heard > len(s.sentinels) {
		s.current = v
	}
	s.doubt, s.asked = false, time.Now()
	return s.current.address
}

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
		err = fmt.Errorf("is no Sentinel; the URL of a server without Sentinels begins with redis://: %w", err)
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
