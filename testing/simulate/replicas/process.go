package replicas

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
)

// openRetry is how soon a process that cannot open the ring is started again.
const openRetry = time.Second

// Process is a poller or a monitor that runs in a world.
type Process struct {
	*Link
	Replica string // of a poller

	cancel context.CancelFunc
	done   chan struct{}
}

// StartPoller starts a replica under the next name of the world.
func (w *World) StartPoller(checkers poller.Checkers, config poller.Config, l *Link) *Process {
	w.mu.Lock()
	w.pollers++
	config.Replica = fmt.Sprintf("replica%03d", w.pollers)
	w.mu.Unlock()
	l.name = config.Replica
	return w.start(l, config.Replica, func(ctx context.Context, ring *circulate.Ring) error {
		pool, err := poller.New(ring, checkers, config, poller.Options{
			Log: w.Journal.Logger(l.name), Metrics: poller.NewMetrics(prometheus.NewRegistry())})
		if err != nil {
			return err
		}
		return pool.Run(ctx)
	})
}

// StartMonitor starts a monitor.
func (w *World) StartMonitor(config monitor.Config, l *Link) *Process {
	return w.start(l, "", func(ctx context.Context, ring *circulate.Ring) error {
		m, err := monitor.New(ring, config, monitor.Options{Log: w.Journal.Logger(l.name)})
		if err != nil {
			return err
		}
		return m.Run(ctx)
	})
}

func (w *World) start(l *Link, replica string, run func(context.Context, *circulate.Ring) error) *Process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Process{Link: l, Replica: replica, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			ring, err := w.Open(ctx, l)
			if err == nil {
				err = run(ctx, ring)
				if err != nil {
					w.Errorf("%s: %v", l.name, err)
				}
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(openRetry):
			}
		}
	}()
	return p
}

// Stop ends the process properly and waits for it.
func (p *Process) Stop() {
	p.cancel()
	<-p.done
}

// Kill ends the process at once: it does not reach Redis any more. Checks under way go on
// for a while, like a request that was already sent.
func (p *Process) Kill() {
	p.Link.Kill()
	p.cancel()
}

// KillAt is Kill at the n-th exchange with Redis from now, before or after Redis does it.
func (p *Process) KillAt(n int, after bool) { p.Link.killAt(n, after, p.cancel) }

// Dead reports whether the process was killed.
func (p *Process) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// Ended waits for the end of a process that was killed.
func (p *Process) Ended() { <-p.done }
