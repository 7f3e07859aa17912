package wire

import (
	"context"
	_ "embed"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	//go:embed heartbeat.lua
	heartbeatLua string
	//go:embed retire.lua
	retireLua string

	heartbeatScript = NewVitalScript("heartbeat", heartbeatLua)
	retireScript    = NewVitalScript("retire", retireLua)
)

// presenceMemory is how long a silent member is remembered. A member that is not
// remembered counts as gone as well.
const presenceMemory = 10 * time.Minute

// Presence is the keys of the live replicas, or of a group's live consumers: a ZSET,
// member -> last heartbeat, unix ms, and a HASH, member -> its report then.
type Presence struct{ Beats, Reports string }

// Beat reports that a member is alive, with its report. It returns all members that beat
// within the window.
func (w *Wire) Beat(ctx context.Context, p Presence, member string, report any, window time.Duration) (there []string, err error) {
	return redis.Strings(w.Eval(ctx, heartbeatScript, []string{p.Beats, p.Reports},
		[]any{member, report, presenceMemory.Milliseconds(), window.Milliseconds()}))
}

// Retire forgets a member.
func (w *Wire) Retire(ctx context.Context, p Presence, member string) error {
	_, err := w.Eval(ctx, retireScript, []string{p.Beats, p.Reports}, []any{member})
	return err
}
