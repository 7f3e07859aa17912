package monitor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// scanPage is how many accounts a step looks at: half a millisecond, by Redis'
	// own measure, with a million accounts in 64 shards.
	scanPage = 500
	// scanPause comes after each shard; it is shorter where that is needed for a
	// ring of few accounts in many shards to be scanned once a minute. pagePause
	// comes between the steps of one shard, each of which costs Redis five commands:
	// a million accounts in 64 shards take about seventeen minutes.
	scanPause  = time.Second
	pagePause  = 500 * time.Millisecond
	scanWithin = 55 * time.Second
	// scanInterval is how often a scan begins, at most.
	scanInterval = 30 * time.Second
)

// scan looks how long ago each account was last checked with complete success. It
// goes by who is registered, not by where anyone is: what fell out of the ring
// gets older here. Parked accounts are left out of how stale accounts are, but
// not of what may be lost.
func (m *Monitor) scan(ctx context.Context) error {
	began := time.Now()
	pause := min(scanPause, scanWithin/time.Duration(m.ring.Shards()))
	var all circulate.Ages
	rooms := newHeadrooms(m.retentions)
	for shard := range m.ring.Shards() {
		for cursor := ""; cursor != circulate.ScanDone; {
			page, told, next, err := m.ring.Staleness(ctx, shard, cursor, scanPage, rooms.tell())
			if err != nil {
				return err
			}
			all.Add(page)
			cursor = next
			if err := m.tryAgain(ctx, shard, rooms.add(page.Now, told)); err != nil {
				return err
			}
			if next == circulate.ScanDone {
				rest(ctx, pause)
			} else {
				rest(ctx, min(pause, pagePause))
			}
			if ctx.Err() != nil || !m.duty.held() {
				return nil
			}
		}
	}
	headroom := rooms.sorted()
	m.warnOfLoss(headroom)
	m.metrics.setHeadroom(headroom)
	m.metrics.staleness.set(&all)
	m.metrics.scanSeconds.set(time.Since(began).Seconds())
	found, err := json.Marshal(accounts.Staleness{
		At: all.Now.UTC(), Scanned: all.Scanned,
		P50: all.Quantile(0.5).Seconds(), P99: all.Quantile(0.99).Seconds(), Max: all.Max.Seconds(),
		Stalest: all.Stalest, ParkedExcluded: all.Parked, Headroom: headroom,
	})
	if err != nil {
		return err
	}
	return m.ring.KeepStaleness(ctx, found)
}
