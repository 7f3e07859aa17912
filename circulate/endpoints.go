package circulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var disableScript = wire.NewScript("disable endpoint", lua("disable"))

// maxReason is how many bytes of a reason are stored.
const maxReason = 256

// DisabledEndpoint is an endpoint that gets no messages until it is enabled.
type DisabledEndpoint struct {
	Name   string
	Since  time.Time // by Redis' clock
	Reason string
}

// Endpoints are the disabled webhook endpoints of a namespace.
type Endpoints struct{ ring *Ring }

// Endpoints returns the disabled endpoints of the ring's namespace.
func (r *Ring) Endpoints() Endpoints { return Endpoints{r} }

// Disable stops messages to an endpoint until Enable. An endpoint that is already
// disabled retains its time and reason, and Disable returns them. At most 256 bytes of
// the reason are stored.
func (e Endpoints) Disable(ctx context.Context, name, reason string) (DisabledEndpoint, error) {
	if name == "" {
		return DisabledEndpoint{}, fmt.Errorf("%w: disable endpoint: name: missing", wire.ErrInput)
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	value, err := redis.String(e.ring.wire.Eval(ctx, disableScript, []string{endpointsKey(e.ring.namespace)}, []any{name, reason}))
	if err != nil {
		return DisabledEndpoint{}, fmt.Errorf("disable endpoint: %w", err)
	}
	return parseDisabled(name, value), nil
}

// Enable lets an endpoint get messages again, from where it stopped. It reports whether
// the endpoint was disabled.
func (e Endpoints) Enable(ctx context.Context, name string) (bool, error) {
	key := endpointsKey(e.ring.namespace)
	replies, err := e.ring.wire.Pipeline(ctx, key, wire.Command{"HDEL", key, name})
	if err != nil {
		return false, fmt.Errorf("enable endpoint: %w", err)
	}
	n, err := redis.Int(replies[0], nil)
	return n > 0, err
}

// Disabled returns when and why an endpoint was disabled. ok is false if the endpoint is
// not disabled.
func (e Endpoints) Disabled(ctx context.Context, name string) (d DisabledEndpoint, ok bool, err error) {
	key := endpointsKey(e.ring.namespace)
	replies, err := e.ring.wire.Pipeline(ctx, key, wire.Command{"HGET", key, name})
	if err != nil {
		return DisabledEndpoint{}, false, fmt.Errorf("endpoint: %w", err)
	}
	value, err := redis.String(replies[0], nil)
	if errors.Is(err, redis.ErrNil) {
		return DisabledEndpoint{}, false, nil
	}
	if err != nil {
		return DisabledEndpoint{}, false, fmt.Errorf("endpoint: %w", err)
	}
	return parseDisabled(name, value), true, nil
}

// All returns all disabled endpoints, by name.
func (e Endpoints) All(ctx context.Context) ([]DisabledEndpoint, error) {
	key := endpointsKey(e.ring.namespace)
	replies, err := e.ring.wire.Pipeline(ctx, key, wire.Command{"HGETALL", key})
	if err != nil {
		return nil, fmt.Errorf("endpoints: %w", err)
	}
	values, err := redis.StringMap(replies[0], nil)
	if err != nil {
		return nil, fmt.Errorf("endpoints: %w", err)
	}
	disabled := make([]DisabledEndpoint, 0, len(values))
	for name, value := range values {
		disabled = append(disabled, parseDisabled(name, value))
	}
	slices.SortFunc(disabled, func(a, b DisabledEndpoint) int { return strings.Compare(a.Name, b.Name) })
	return disabled, nil
}

// parseDisabled reads since|reason. An unreadable text disables the endpoint too, at an
// unknown time: somebody wrote it on purpose.
func parseDisabled(name, value string) DisabledEndpoint {
	since, reason, found := strings.Cut(value, "|")
	ms, err := strconv.ParseInt(since, 10, 64)
	if !found || err != nil {
		return DisabledEndpoint{Name: name, Reason: value}
	}
	return DisabledEndpoint{Name: name, Since: time.UnixMilli(ms), Reason: reason}
}
