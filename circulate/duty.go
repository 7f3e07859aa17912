package circulate

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed duty.lua
var dutyLua string

var dutyScript = wire.NewScript("duty", dutyLua)

// OnDuty asks that the caller be the one that does what only one monitor need
// do, for a time from now, and reports whether it is. It spares work and protects
// nothing: for a moment two may believe it of themselves, and whatever they do
// must stand that. A time of zero or less gives the duty up.
func (r *Ring) OnDuty(ctx context.Context, who string, ttl time.Duration) (bool, error) {
	mine, err := redis.Bool(r.wire.Eval(ctx, dutyScript, []string{dutiesKey(r.namespace)}, []any{who, ttl.Milliseconds()}))
	if err != nil {
		return false, fmt.Errorf("duty: %w", err)
	}
	return mine, nil
}
