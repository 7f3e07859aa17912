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

// presenceMemory is how long a silent member is remembered. One that is not
// remembered counts as gone all the same.
const presenceMemory = 10 * time.Minute

// Presence is who is there of replicas, or of a group's consumers: a ZSET, member ->
// last heartbeat, unix ms, and a HASH, member -> what it reported then.
type Presence struct{ Beats, Reports string }

// Beat says that a member is there, and what it reports of itself. It returns all
// members that were heard of within the window.
func (w *Wire) Beat(ctx context.Context, p Presence, member string, report any, window time.Duration) (there []string, err error) {
	return redis.Strings(w.Eval(ctx, heartbeatScript, []string{p.Beats, p.Reports},
		[]any{member, report, presenceMemory.Milliseconds(), window.Milliseconds()}))
}

// Retire forgets a member.
func (w *Wire) Retire(ctx context.Context, p Presence, member string) error {
	_, err := w.Eval(ctx, retireScript, []string{p.Beats, p.Reports}, []any{member})
	return err
}
