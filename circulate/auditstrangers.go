package circulate

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// strangers goes through what is scheduled, parked or recorded, for ids that are
// not registered.
func (a *audit) strangers(ctx context.Context) error {
	orphans := make(map[string]bool)
	k := a.keys
	lengths, err := a.ring.wire.Pipeline(ctx, k.tickets, wire.Command{"HLEN", k.tickets}, wire.Command{"HLEN", k.accounts})
	if err != nil {
		return err
	}
	for _, key := range []struct{ number, page int }{{4, auditRecords}, {2, auditPage}, {3, auditPage}} {
		if key.number == 4 && !a.o.Records && lengths[0] == lengths[1] {
			continue
		}
		seen := make(map[string]bool)
		for cursor := ScanDone; ; {
			before := a.repairs
			reply, err := a.ask(ctx, key.number, cursor, key.page)
			if err != nil {
				return err
			}
			var pairs [][]byte
			if _, err := redis.Scan(reply, &cursor, &pairs); err != nil {
				return errors.Join(wire.ErrReply, err)
			}
			var now time.Time
			if key.number == 4 && len(pairs) > 0 {
				if now, err = a.ring.Now(ctx, a.shard); err != nil {
					return err
				}
			}
			for i := 0; i+1 < len(pairs); i += 2 {
				id := string(pairs[i])
				switch {
				case key.number != 4:
					orphans[id] = true
				case !seen[id]:
					seen[id] = true
					if err := a.restore(ctx, id, pairs[i+1], now); err != nil {
						return err
					}
				}
			}
			if a.repairs == before {
				if err := a.pause(ctx); err != nil {
					return err
				}
			}
			if cursor == ScanDone {
				break
			}
		}
		for id := range seen {
			orphans[id] = false // reported by its record
		}
	}
	for id, orphan := range orphans {
		if orphan {
			if err := a.repair(ctx, Orphan, "drop", id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *audit) restore(ctx context.Context, id string, record []byte, now time.Time) error {
	var item Registration
	if a.o.Registration != nil {
		item = a.o.Registration(id, record, now)
	}
	return a.repair(ctx, Lost, "restore", id, max(0, item.Due.UnixMilli()), item.Priority.lane())
}
