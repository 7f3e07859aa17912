package poller

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const listenRetry = 100 * time.Millisecond

// listen is told by Redis when something becomes due earlier than was known,
// until ctx is done. While it cannot listen, and once when it can again, every
// shard is looked at: so what it missed costs a moment, and no account.
func (p *Pool) listen(ctx context.Context) {
	for try := 0; ctx.Err() == nil; try++ {
		err := p.ring.Subscribe(ctx, func() {
			try = 0
			p.hearing.Store(true)
			p.timetable.bringAll(time.Now())
		}, func(w circulate.Woken) {
			p.metrics.woken.Inc()
			at := p.local(w.Due)
			if now := time.Now(); at.Before(now) {
				at = now // from here on the others are patient
			}
			p.timetable.bring(w.Shard, at.Add(p.timetable.patience(w.Shard, rand.Float64())))
		})
		if p.hearing.Swap(false) && ctx.Err() == nil {
			p.metrics.deaf.Inc()
			p.log.Debug("wake-ups are lost; looking at every shard each second", "error", err)
			p.timetable.bringAll(time.Now())
		}
		sleep(ctx, min(claimRetryMax, listenRetry<<min(try, 6)))
	}
}
