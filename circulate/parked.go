package circulate

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed parked.lua
var parkedLua string

var parkedScript = wire.NewScript("parked", parkedLua)

// ParkedAccount is an account out of circulation.
type ParkedAccount struct {
	ID     string
	Since  time.Time // by Redis' clock, in ms
	Reason string
}

// ParkedPage gives some of a shard's parked accounts, the longest parked first,
// and the time now by the same clock. It goes on behind an account that it gave
// before, which need not be parked any more; the zero one is before the first.
// Who is parked throughout a walk is in it once. A page that is not full is the
// last.
func (r *Ring) ParkedPage(ctx context.Context, shard int, behind ParkedAccount, count int) ([]ParkedAccount, time.Time, error) {
	if err := wire.CheckBatch("parked", count); err != nil {
		return nil, time.Time{}, err
	}
	since := int64(0)
	if behind.ID != "" {
		since = behind.Since.UnixMilli()
	}
	k := &r.keys[shard]
	answer, err := redis.Values(r.wire.Run(ctx, parkedScript, shard, []string{k.parked, k.reasons}, since, behind.ID, count))
	if err != nil {
		return nil, time.Time{}, err
	}
	malformed := fmt.Errorf("parked, shard %d: %w", shard, wire.ErrReply)
	if len(answer)%3 != 1 {
		return nil, time.Time{}, malformed
	}
	now, ok := answer[0].(int64)
	if !ok {
		return nil, time.Time{}, malformed
	}
	texts, err := redis.ByteSlices(answer[1:], nil)
	if err != nil {
		return nil, time.Time{}, malformed
	}
	page := make([]ParkedAccount, 0, len(texts)/3)
	for i := 0; i < len(texts); i += 3 {
		at, err := score(texts[i+1])
		if err != nil {
			return nil, time.Time{}, malformed
		}
		page = append(page, ParkedAccount{ID: string(texts[i]), Since: at, Reason: string(texts[i+2])})
	}
	return page, time.UnixMilli(now), nil
}
