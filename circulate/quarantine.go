package circulate

import (
	"context"
	_ "embed"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed quarantine.lua
var quarantineLua string

var quarantineScript = wire.NewScript("quarantine", quarantineLua)

// Quarantine parks an account with a reason right after its entry was requeued,
// if it has that many strikes at least. Unlike Park it leaves alone whom
// somebody else has claimed, changed or parked in between: a record that was just
// put right, or a pause, must not end in quarantine for what was before. It
// reports whether the account is parked now.
func (r *Ring) Quarantine(ctx context.Context, shard int, h Held, strikes int, reason string) (bool, error) {
	if h.Malformed() {
		return false, nil
	}
	k := &r.keys[shard]
	return redis.Bool(r.wire.Run(ctx, quarantineScript, shard,
		[]string{k.tickets, k.ticketSeq, k.parked, k.reasons, k.strikes, k.ticketMark}, h.text, strikes, reason))
}
