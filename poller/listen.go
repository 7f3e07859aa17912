package poller

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	listenRetry = 100 * time.Millisecond
	// wakeGap is the least between claims of a shard for which a busy replica is
	// woken: each costs Redis what a large one does, but who asks for a check at
	// once is not to wait for Config.GatherInterval.
	wakeGap = 25 * time.Millisecond
)

// listen is told by Redis when something becomes due earlier than was known,
// until ctx is done. While it cannot listen, and once when it can again, every
// shard is looked at: so what it missed costs a moment, and no account. As it may
// be another server that it listens to then, one that took over without the last
// writes, each shard is looked through for claims that the replica has returned.
func (c *claimer) listen(ctx context.Context) {
	again := false
	for try := 0; ctx.Err() == nil; try++ {
		err := c.ring.Subscribe(ctx, func() {
			try = 0
			c.subscribed.Store(true)
			if again {
				c.holding.loseAll(c.ring.Shards())
			}
			again = true
			c.timetable.bringAll(time.Now())
		}, func(w circulate.Woken) {
			c.metrics.woken.Inc()
			at := c.clocks.local(w.Due)
			if now := time.Now(); at.Before(now) {
				at = now // from here on the others are patient
			}
			gap := time.Duration(0)
			if c.meter.isBusy(time.Now()) {
				gap = wakeGap
			}
			c.timetable.wake(w.Shard, at.Add(c.timetable.patience(w.Shard, rand.Float64())), gap)
		})
		if c.subscribed.Swap(false) && ctx.Err() == nil {
			c.metrics.wakeupsLost.Inc()
			c.log.Debug("wake-ups are lost; looking at every shard each second", "error", err)
			c.timetable.bringAll(time.Now())
		}
		sleep(ctx, min(claimRetryMax, listenRetry<<min(try, 6)))
	}
}
