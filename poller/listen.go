package poller

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	listenRetry = 100 * time.Millisecond
	// wakeGap is the least time between two claims of a shard for which a busy replica is
	// woken. A small claim costs Redis as much as a large one, but a nudged check must not
	// wait for Config.GatherInterval.
	wakeGap = 25 * time.Millisecond
)

// listen listens, until ctx is done, for accounts that become due earlier than was known. While it
// cannot listen, and once when it can again, the replica looks at every shard. So a missed wake-up
// delays an account for a moment, and loses none. After an interruption, Redis may be another
// server, which took over without the last writes. Each shard is therefore also searched for claims
// that the replica has already returned.
func (c *claimer) listen(ctx context.Context) {
	again := false
	for try := 0; ctx.Err() == nil; try++ {
		err := c.ring.Subscribe(ctx, func() {
			try = 0
			c.subscribed.Store(true)
			c.sends.heard(true)
			if again {
				c.claims.loseAll(c.ring.Shards())
			}
			again = true
			c.timetable.bringAll(time.Now())
		}, func(w circulate.Woken) {
			if w.Secret != "" {
				go c.flights.secretChanged(w.Secret) // it may have to wait for many returns
				return
			}
			if w.Leaving != "" {
				c.peerStopped(w.Leaving)
				return
			}
			if w.Send {
				c.sends.wake(w.Shard, rand.Float64())
				return
			}
			c.metrics.woken.Inc()
			at := c.clocks.local(w.Due)
			if now := time.Now(); at.Before(now) {
				at = now // other replicas wait from now on
			}
			gap := time.Duration(0)
			if c.meter.isBusy(time.Now()) {
				gap = wakeGap
			}
			c.timetable.wake(w.Shard, at.Add(c.timetable.patience(w.Shard, rand.Float64())), gap)
		})
		if c.subscribed.Swap(false) && ctx.Err() == nil {
			c.sends.heard(false)
			c.metrics.wakeupsLost.Inc()
			c.log.Debug("wake-ups are interrupted; looking at every shard each second", "error", err)
			c.timetable.bringAll(time.Now())
		}
		sleep(ctx, min(claimRetryMax, listenRetry<<min(try, 6)))
	}
}

// peerStopped divides the shards anew, without a replica that claims no more.
func (c *claimer) peerStopped(replica string) {
	if sharing, ok := c.peers.stopped(replica); ok {
		c.divide(sharing, time.Now())
	}
}
