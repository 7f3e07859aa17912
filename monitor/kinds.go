package monitor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

const (
	// kindGrace is how long accounts wait by a kind that no live replica checks. After
	// that, any replica may claim them and report that it cannot check them. Restarted
	// replicas are back by then.
	kindGrace = time.Minute
	// recallBatch is how many accounts of a shard are recalled in one step.
	recallBatch = 512
)

// kindWatch finds accounts that wait by a kind which no replica checks any more, and lets them
// wait for any replica instead.
type kindWatch struct {
	missing map[string]time.Time // kind -> since when no live replica has reported that it checks the kind
	long    []string             // kinds missing for longer than kindGrace
}

// look recalls the accounts of the given shards that wait by such a kind. It uses Redis'
// clock.
func (w *kindWatch) look(ctx context.Context, m *Monitor, shards []int) error {
	if len(shards) == 0 {
		w.missing, w.long = nil, nil
		return nil
	}
	replicas, now, err := m.ring.Replicas(ctx)
	if err != nil {
		return err
	}
	checked := make(map[string]bool)
	for _, r := range replicas {
		var report accounts.Report
		if now.Sub(r.Beat) <= m.config.DeadAfter && json.Unmarshal(r.Report, &report) == nil {
			for _, kind := range report.Kinds {
				checked[kind] = true
			}
		}
	}
	missing := make(map[string]time.Time)
	defer func() {
		w.missing, w.long = missing, nil
		for kind, since := range missing {
			if now.Sub(since) >= kindGrace {
				w.long = append(w.long, kind)
			}
		}
	}()
	for _, shard := range shards {
		kinds, err := m.ring.Kinds().Waiting(ctx, shard)
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			if checked[kind] {
				continue
			}
			since, known := w.missing[kind]
			if !known {
				since = now
			}
			missing[kind] = since
			if now.Sub(since) < kindGrace {
				continue
			}
			if err := w.recall(ctx, m, shard, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *kindWatch) recall(ctx context.Context, m *Monitor, shard int, kind string) error {
	recalled := 0
	for {
		n, err := m.ring.Kinds().Recall(ctx, shard, kind, recallBatch)
		recalled += n
		m.metrics.recalled.Add(float64(n))
		if err != nil {
			return err
		}
		if n < recallBatch {
			break
		}
	}
	if recalled > 0 {
		m.log.Warn("no live replica checks a kind: its accounts wait for any replica again", "kind", kind, "shard", shard, "accounts", recalled)
	}
	return nil
}
