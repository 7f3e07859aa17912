package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/maintenance"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// scanPage is how many accounts a step looks at. That takes half a millisecond, by
	// Redis' own measure, with a million accounts in 64 shards. It takes up to two and a
	// half if all their records are read, because they fail or were not checked for a
	// while.
	scanPage = 500
	// scanBytes is how many bytes of records a step should read at most. Where records
	// are larger, the next steps look at fewer accounts, but at least at scanLeast.
	scanBytes = 256 << 10
	scanLeast = 4
	// scanPause follows each shard. It is shorter for a ring of few accounts in many
	// shards, so that such a ring is scanned once a minute. pagePause lies between the
	// steps of one shard, each of which costs Redis six commands: a million accounts in
	// 64 shards take about seventeen minutes.
	scanPause  = time.Second
	pagePause  = 500 * time.Millisecond
	scanWithin = 55 * time.Second
	// scanInterval is the shortest time between the beginnings of two scans.
	scanInterval = 30 * time.Second
	// scanAgain is how long a scan waits before it tries Redis again, and scanResumes how
	// long it goes on trying. After that its first shards would be too old.
	scanAgain   = 5 * time.Second
	scanResumes = 10 * time.Minute
)

// scan measures how long ago each account was last checked with complete success. It
// walks over the registered accounts, wherever they are, so an account that fell out of
// the ring shows as getting older. Parked accounts do not count for staleness, but they
// do for messages that may be lost. While a maintenance window is open, accounts in it
// count neither as behind nor as about to lose messages.
func (m *Monitor) scan(ctx context.Context) error {
	began := time.Now()
	pause := min(scanPause, scanWithin/time.Duration(m.ring.Shards()))
	var all circulate.Ages
	excused, err := m.openWindows(ctx)
	if err != nil {
		return err
	}
	rooms, failing := newHeadrooms(m.options.Retentions, excused), accounts.NewFailingCount()
	tell := rooms.tell()
	tell.Slow, tell.Sound = accounts.SlowFrom, accounts.SoundMarks()
	if len(excused) > 0 {
		tell.Excused = accounts.ExcusedMarks()
	}
	for shard := range m.ring.Shards() {
		pages, err := m.scanShard(ctx, shard, pause, tell)
		for away := time.Now(); circulate.Unavailable(err) && ctx.Err() == nil; {
			// A restarted server has its accounts in another order, so this shard is
			// scanned again from its start. The others are not.
			rest(ctx, scanAgain)
			if !m.duty.await(ctx) || time.Since(away) >= scanResumes {
				return err
			}
			pages, err = m.scanShard(ctx, shard, pause, tell)
		}
		if errors.Is(err, errOffDuty) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		var try []circulate.ParkedAccount
		for i := range pages {
			all.Add(pages[i].Ages)
			failing.Add(pages[i].Now, pages[i].Slow)
			try = append(try, rooms.add(pages[i].Now, pages[i].Told)...)
		}
		for _, err := range []error{m.hasten(ctx, shard, rooms.takeSoon()), m.tryAgain(ctx, shard, try)} {
			if err != nil && !circulate.Unavailable(err) {
				return err
			}
		}
	}
	headroom := rooms.sorted()
	m.warnOfLoss(headroom)
	m.metrics.setHeadroom(headroom)
	vain := failing.Found(all.Scanned)
	m.metrics.setFailing(vain)
	m.metrics.staleness.set(&all)
	m.metrics.scanSeconds.set(time.Since(began).Seconds())
	found, err := json.Marshal(accounts.Scan{Staleness: accounts.Staleness{
		At: all.Now.UTC(), Scanned: all.Scanned,
		P50: all.Quantile(0.5).Seconds(), P99: all.Quantile(0.99).Seconds(), Max: all.Max.Seconds(),
		Stalest: all.Stalest, ParkedExcluded: all.Parked, Headroom: headroom, Moving: m.ring.Sources() > 0,
	}, Failing: &vain})
	if err != nil {
		return err
	}
	return m.ring.KeepStaleness(ctx, found)
}

// openWindows returns the maintenance windows that are open when a scan begins.
func (m *Monitor) openWindows(ctx context.Context) ([]maintenance.Window, error) {
	all, now, err := maintenance.Of(m.ring).All(ctx)
	return slices.DeleteFunc(all, func(w maintenance.Window) bool { return !w.Open(now) }), err
}

// scanShard looks at all accounts of a shard, a page at a time.
func (m *Monitor) scanShard(ctx context.Context, shard int, pause time.Duration, tell circulate.StaleFilter) (pages []circulate.StalePage, err error) {
	for cursor := ""; cursor != circulate.ScanDone; {
		page, err := m.ring.Staleness(ctx, shard, cursor, m.scanned.page(), tell)
		if err != nil {
			return nil, err
		}
		m.scanned.read(page.Read)
		pages, cursor = append(pages, page), page.Next
		if cursor == circulate.ScanDone {
			rest(ctx, pause)
		} else {
			rest(ctx, min(pause, pagePause))
		}
		if ctx.Err() != nil || !m.duty.held() {
			return nil, errOffDuty
		}
	}
	return pages, nil
}

// scanSize is how many accounts a step of the scan looks at. It shrinks if records are
// large, because Redis serves nobody else during a step. The zero scanSize is the
// largest.
type scanSize struct{ fewer int }

func (s *scanSize) page() int { return max(scanLeast, scanPage>>s.fewer) }

// read notes how many bytes of records a step read.
func (s *scanSize) read(bytes int) {
	switch {
	case bytes > scanBytes && s.page() > scanLeast:
		s.fewer++
	case bytes < scanBytes/4 && s.fewer > 0:
		s.fewer--
	}
}
