package poller

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/accounts/activity"
)

const (
	// activitySpread is the time over which replicas spread what they add after a minute, so that
	// they seldom add at once.
	activitySpread = 10 * time.Second
	// activityTime is how long that may take.
	activityTime = 2 * time.Second
)

// keepActivity adds what the replica counted for charts, after each minute and at the end. What
// Redis does not take is lost: charts have a gap, and checks go on.
func (p *Pool) keepActivity(ctx context.Context) {
	keeper := activity.NewKeeper(p.ring)
	p.activity.Mark(activity.Mark{At: p.clocks.now(), Kind: activity.MarkStart, Subject: p.config.Replica})
	for {
		began := p.clocks.now()
		goes := sleep(ctx, began.Truncate(activity.Every).Add(activity.Every).Sub(began))
		if !goes {
			p.activity.Mark(activity.Mark{At: p.clocks.now(), Kind: activity.MarkStop, Subject: p.config.Replica})
		}
		sheet := p.activity.Take()
		if goes {
			goes = sleep(ctx, rand.N(activitySpread))
		}
		p.addActivity(ctx, keeper, began, sheet)
		if !goes {
			if rest := p.activity.Take(); !rest.Empty() {
				p.addActivity(ctx, keeper, p.clocks.now(), rest)
			}
			return
		}
	}
}

func (p *Pool) addActivity(ctx context.Context, keeper activity.Keeper, at time.Time, sheet *activity.Sheet) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), activityTime)
	defer cancel()
	if err := keeper.Add(ctx, at, sheet); err != nil {
		p.metrics.redisErrors.WithLabelValues("activity").Inc()
		p.log.Debug("what checks did in a minute is missing in the charts", "error", err)
	}
}
