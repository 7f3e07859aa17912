package circulate

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var backlogScript = wire.NewScript("backlog", lua("backlog"))

// Late is how late an account is at least when claims promote the relatively latest first.
const Late = 10 * time.Second

// Paced is an account of a sample: when it is due, and how long its interval is.
type Paced struct {
	Weight   float64       // how many accounts it stands for
	Late     time.Duration // negative: it is not due yet
	Interval time.Duration // between its last success and when it is due, at least a second

	// Turn says that its limit has given it the time when it is due. Its interval is not known.
	Turn bool
}

// Backlog returns a sample of a shard's scheduled, waiting and claimed accounts: at most n
// that are scheduled, and of each lane and of those that are claimed. A claimed account
// counts as one that becomes due after its interval. Calls that third parties hold are left
// out.
func (r *Ring) Backlog(ctx context.Context, shard, n int) ([]Paced, error) {
	if err := wire.CheckBatch("backlog", n); err != nil {
		return nil, err
	}
	k := &r.keys[shard]
	reply, err := redis.Values(r.wire.Run(ctx, backlogScript, shard, []string{
		k.tickets, k.schedule, k.queue, k.urgent, k.low, k.processing,
	}, n))
	if err != nil {
		return nil, err
	}
	all, err := readBacklog(reply)
	if err != nil {
		return nil, fmt.Errorf("backlog, shard %d: %w", shard, err)
	}
	return all, nil
}

func readBacklog(reply []any) ([]Paced, error) {
	const places = 5
	if len(reply) != 1+2*places {
		return nil, wire.ErrReply
	}
	now, err := redis.Int64(reply[0], nil)
	if err != nil {
		return nil, err
	}
	var all []Paced
	for place := range places {
		many, err := redis.Int(reply[1+2*place], nil)
		if err != nil {
			return nil, err
		}
		values, err := redis.Strings(reply[2+2*place], nil)
		if err != nil {
			return nil, err
		}
		from := len(all)
		claimed := place == places-1
		for i := 0; i+1 < len(values); i += 2 {
			at, err := strconv.ParseInt(values[i], 10, 64)
			if err != nil {
				return nil, wire.ErrReply
			}
			p := paced(now, at, values[i+1])
			if claimed {
				if p.Interval <= time.Second {
					continue // a held call: its success is renewed with its claim
				}
				p.Late = -p.Interval
			}
			all = append(all, p)
		}
		if found := len(values) / 2; found > 0 {
			for i := range all[from:] {
				all[from+i].Weight = float64(many) / float64(found)
			}
		}
	}
	return all, nil
}

// paced reads what late.lua judges an account by: nine letters of its tickets field and the
// rule. At is when it is due.
func paced(now, at int64, about string) Paced {
	p := Paced{Late: time.Duration(now-at) * time.Millisecond, Interval: time.Minute}
	if len(about) < 10 {
		return p
	}
	const turn = 'l' // as entry.lua has it
	mark := Mark(about[8])
	if succeeded, err := strconv.ParseInt(about[:8], 16, 64); err == nil {
		// The success is cut to seconds: half a second in the mean.
		p.Interval = time.Duration(min(at-succeeded*1000-500, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
	if mark == '-' {
		p.Interval = max(p.Interval, time.Minute)
	}
	if mark != MarkOK {
		p.Interval = min(p.Interval, time.Hour)
	}
	p.Interval = max(p.Interval, time.Second)
	p.Turn = about[9] == turn
	return p
}
