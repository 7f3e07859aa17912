package keep

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/files"
)

const (
	// CollectEvery is the time between two turns of a Collector.
	CollectEvery = 5 * time.Minute
	// CompareEvery is the time between two comparisons of the store with the list.
	CompareEvery = 24 * time.Hour
	// stillNamed is how long a row is left alone that a dead letter or a send names. It is longer than
	// it takes from when the row of a send's file is added until the send is queued.
	stillNamed = time.Hour

	// condemnedFor is how long a name is condemned before it is removed: a Keep of that name may be
	// on its way to Redis.
	condemnedFor = time.Minute

	rowsAtOnce    = 4096
	lettersAtOnce = 256
	objectsAtOnce = 256
)

// Collector ends files whose message has gone, and removes from the store what no file has. Any
// number of them may run, in any processes.
type Collector struct {
	Ring  *circulate.Ring
	Store files.Store
	// Retention is how long files stay at least, from when their message was found. 0: for ever.
	Retention time.Duration
	Log       *slog.Logger // nil: no log
	Metrics   *Metrics     // nil: none
}

// Collected is what a turn did.
type Collected struct {
	Ended   int // rows
	Named   int // rows that were due, and that a dead letter or a send still names
	Removed int // objects
	Orphans int // objects that no file had
}

// Run collects at once and then every CollectEvery, until ctx is done.
func (c Collector) Run(ctx context.Context) error {
	tick := time.NewTicker(CollectEvery)
	defer tick.Stop()
	var compared time.Time
	for {
		did, err := c.Turn(ctx)
		if err == nil && time.Since(compared) >= CompareEvery {
			if did.Orphans, err = c.Compare(ctx, files.LeftoverAge); err == nil {
				compared = time.Now()
			}
		}
		c.report(ctx, did, err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (c Collector) report(ctx context.Context, did Collected, err error) {
	m := c.Metrics
	if m == nil {
		m = NewMetrics(nil)
	}
	m.ended.Add(float64(did.Ended))
	m.removed.Add(float64(did.Removed))
	m.orphans.Add(float64(did.Orphans))
	if totals, err := c.Ring.Files().Totals(ctx); err == nil {
		m.showTotals(totals)
	}
	log := cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	switch {
	case err != nil && ctx.Err() == nil:
		log.Warn("files were not collected", "error", err)
	case did.Ended+did.Removed+did.Orphans > 0:
		log.Info("files collected", "ended", did.Ended, "removed", did.Removed, "orphans", did.Orphans)
	}
}

// Turn ends rows that are due, and removes condemned objects from the store.
func (c Collector) Turn(ctx context.Context) (did Collected, err error) {
	list := c.Ring.Files()
	for c.Retention > 0 {
		more, err := c.end(ctx, list, &did)
		if err != nil {
			return did, err
		}
		if !more {
			break
		}
	}
	for {
		more, err := c.endSent(ctx, list, &did)
		if err != nil {
			return did, err
		}
		if !more {
			break
		}
	}
	err = list.Condemned(ctx, condemnedFor, func(names []string) error {
		n, err := remove(ctx, c.Store, list, names)
		did.Removed += n
		return err
	})
	return did, err
}

// end ends some of the rows that are due, and reports whether there may be more.
func (c Collector) end(ctx context.Context, list circulate.Files, did *Collected) (more bool, err error) {
	low, err := c.Ring.Streams().LowWater(ctx)
	if err != nil {
		return false, err
	}
	before := low.Now.Add(-c.Retention)
	if !low.Before.IsZero() && low.Before.Before(before) {
		before = low.Before
	}
	rows, err := list.Due(ctx, before, rowsAtOnce)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	// The letters come after the low water: a message that was buried meanwhile is found.
	named, err := c.named(ctx, rows)
	if err != nil {
		return false, err
	}
	return c.endUnnamed(ctx, list, did, rows, named, func(ids []string) error {
		_, err := list.Raise(ctx, before.Add(stillNamed), ids...)
		return err
	})
}

// endUnnamed ends rows, except those that something still names, which are raised. It reports whether
// there may be more.
func (c Collector) endUnnamed(ctx context.Context, list circulate.Files, did *Collected, rows []circulate.File, named map[string]bool, raise func(ids []string) error) (more bool, err error) {
	ending := rows[:0:0]
	var stay []string
	for _, row := range rows {
		if named[row.ID] {
			stay = append(stay, row.ID)
			continue
		}
		ending = append(ending, row)
	}
	if err := raise(stay); err != nil {
		return false, err
	}
	did.Named += len(stay)
	ended, _, err := list.End(ctx, "", ending...)
	did.Ended += ended
	return err == nil && len(rows) == rowsAtOnce, err
}

// endSent ends some of the rows whose send is no longer known, and uploads that are old enough. It
// reports whether there may be more.
func (c Collector) endSent(ctx context.Context, list circulate.Files, did *Collected) (more bool, err error) {
	now, err := list.Now(ctx)
	if err != nil {
		return false, err
	}
	rows, err := list.DueSent(ctx, now.Add(-stillNamed), rowsAtOnce)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	named := make(map[string]bool)
	for _, row := range rows {
		switch row.Holder {
		case circulate.FileOfUpload:
			named[row.ID] = now.Sub(row.Kept) < circulate.UploadLasts
		case circulate.FileOfSend:
			_, err := c.Ring.Sends().Look(ctx, row.Of)
			if err != nil && !errors.Is(err, circulate.ErrNoSend) {
				return false, err
			}
			named[row.ID] = err == nil
		}
	}
	return c.endUnnamed(ctx, list, did, rows, named, func(ids []string) error {
		_, err := list.RaiseSent(ctx, now, ids...)
		return err
	})
}

// named returns which rows of messages a dead letter of any group still names.
func (c Collector) named(ctx context.Context, rows []circulate.File) (map[string]bool, error) {
	type holder struct{ account, of string }
	messages := make(map[holder][]string)
	named := make(map[string]bool)
	for _, row := range rows {
		at := holder{row.Account, row.Of}
		messages[at] = append(messages[at], row.ID)
	}
	if len(messages) == 0 {
		return named, nil
	}
	// While the number of shards changes, the shards that accounts leave come first, and dead
	// letters move from them to the others: in this order none is missed.
	for shard := range c.Ring.Shards() {
		for after := circulate.StreamStart; ; {
			letters, err := group.Of(c.Ring).DeadLetters(ctx, shard, after, lettersAtOnce)
			if err != nil {
				return nil, err
			}
			for i := range letters {
				for _, id := range messages[holder{letters[i].Account, letters[i].Message.ID}] {
					named[id] = true
				}
				after = letters[i].Position
			}
			if len(letters) < lettersAtOnce {
				break
			}
		}
	}
	return named, nil
}

// Compare condemns objects of the store that no file has and that are older than an age, which is
// longer than circulate.KeepWithin. Turn removes them later. It returns how many it found.
func (c Collector) Compare(ctx context.Context, age time.Duration) (orphans int, err error) {
	list := c.Ring.Files()
	now := time.Now()
	var old []circulate.StoredFile
	look := func() error {
		names, err := list.Orphans(ctx, old...)
		old = old[:0]
		if err != nil {
			return err
		}
		orphans += len(names) // the next turn removes them
		return err
	}
	for object, err := range c.Store.List(ctx) {
		if err != nil {
			return orphans, err
		}
		if now.Sub(object.Modified) < age {
			continue
		}
		old = append(old, circulate.StoredFile{Name: object.Name, Hash: object.SHA256, Size: object.Size})
		if len(old) == objectsAtOnce {
			if err := look(); err != nil {
				return orphans, err
			}
		}
	}
	if err := look(); err != nil {
		return orphans, err
	}
	_, err = c.Store.Tidy(ctx, now.Add(-age))
	return orphans, err
}
