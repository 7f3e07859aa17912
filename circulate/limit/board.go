package limit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var lookScript = wire.NewScript("look at limit", lua("look"))

const (
	reportLives = time.Minute // a process that is silent for so long no longer counts
	nameMost    = 200         // bytes of a name that a report has
)

// Board is where the processes of a ring's namespace report what they see of limits. Only
// operators' views depend on it.
type Board struct{ wire *wire.Wire }

// BoardOf returns the ring's board.
func BoardOf(ring *circulate.Ring) Board { return Board{ring.Wire(wire.Insider{})} }

func (b Board) presence() wire.Presence {
	tag := "{" + b.wire.Namespace() + ":limits}:"
	return wire.Presence{Beats: tag + "reporters", Reports: tag + "reports"}
}

// Report replaces the report of a process.
func (b Board) Report(ctx context.Context, process string, seen []Seen) error {
	text, err := json.Marshal(seen)
	if err != nil {
		return fmt.Errorf("report limits: %w", err)
	}
	if _, err := b.wire.Beat(ctx, b.presence(), process, text, reportLives); err != nil {
		return fmt.Errorf("report limits: %w", err)
	}
	return nil
}

// Withdraw removes the report of a process that ends.
func (b Board) Withdraw(ctx context.Context, process string) error {
	if err := b.wire.Retire(ctx, b.presence(), process); err != nil {
		return fmt.Errorf("withdraw report of limits: %w", err)
	}
	return nil
}

// State is what processes see of a limit, and its state now.
type State struct {
	Seen
	Taken   int       // starts of the burst that are used up now
	Running int       // checks that run under it now; 0 without a concurrency
	Waiting int       // about how many checks wait with a promise
	Last    time.Time // the last promise; zero: no check waits
}

// MostStates is the most limits that one call of States may return.
const MostStates = 200

// States returns the limits that were used lately, those with the most denials first, how
// many more there are, and the time by Redis' clock. It reads only the processes' reports
// and the states of the returned limits. It leaves out unreadable reports.
func (b Board) States(ctx context.Context, most int) (states []State, more int, now time.Time, err error) {
	if most < 1 || most > MostStates {
		return nil, 0, now, fmt.Errorf("%w: limits: most: must be 1 to %d, is %d", wire.ErrInput, MostStates, most)
	}
	seen, now, err := b.seen(ctx)
	if err != nil {
		return nil, 0, now, err
	}
	more = max(0, len(seen)-most)
	seen = seen[:len(seen)-more]
	calls := make([]wire.Call, len(seen))
	states = make([]State, len(seen))
	for i, s := range seen {
		states[i].Seen = s
		key := b.wire.Namespace() + ":limits:{" + s.text() + "}"
		calls[i].Keys = []string{key, key + ":leases"}
	}
	if len(calls) == 0 {
		return states, more, now, nil
	}
	for i, reply := range b.wire.EvalEach(ctx, lookScript, calls) {
		if wire.HasCode(reply.Err, "WRONGTYPE") {
			continue // the next check that asks this limit sets the key aside
		}
		if reply.Err != nil {
			return nil, 0, now, fmt.Errorf("limits: %w", reply.Err)
		}
		if err := states[i].read(reply.Value); err != nil {
			return nil, 0, now, fmt.Errorf("limits: %w", err)
		}
	}
	return states, more, now, nil
}

// seen returns the sum of the live processes' reports.
func (b Board) seen(ctx context.Context) ([]Seen, time.Time, error) {
	p := b.presence()
	replies, err := b.wire.Pipeline(ctx, p.Beats,
		wire.Command{"TIME"}, wire.Command{"ZRANGE", p.Beats, 0, -1, "WITHSCORES"}, wire.Command{"HGETALL", p.Reports})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reports of limits: %w", err)
	}
	now, err := wire.Time(replies[0])
	if err != nil {
		return nil, now, err
	}
	beats, err := redis.Int64Map(replies[1], nil)
	if err != nil {
		return nil, now, fmt.Errorf("reports of limits: %w", err)
	}
	texts, err := redis.StringMap(replies[2], nil)
	if err != nil {
		return nil, now, fmt.Errorf("reports of limits: %w", err)
	}
	sum := make(map[string]Seen)
	for process, beat := range beats {
		var report []Seen
		if now.Sub(time.UnixMilli(beat)) > reportLives || json.Unmarshal([]byte(texts[process]), &report) != nil {
			continue
		}
		for _, s := range report {
			if !s.plausible() {
				continue
			}
			before := sum[s.text()]
			s.Asked, s.Denied = s.Asked+before.Asked, s.Denied+before.Denied
			if before.Until.After(s.Until) {
				s.Until = before.Until
			}
			sum[s.text()] = s
		}
	}
	all := make([]Seen, 0, len(sum))
	for _, s := range sum {
		all = append(all, s)
	}
	slices.SortFunc(all, bySeen)
	return all, now, nil
}

// text returns the limit's name as in its keys.
func (s *Seen) text() string {
	if s.Key != "" {
		return s.Key
	}
	return s.Name
}

var digestPattern = regexp.MustCompile(`^#[0-9a-f]{64}$`)

// plausible reports whether a process of any version may have reported this.
func (s *Seen) plausible() bool {
	named := plainPattern.MatchString(s.Name) && s.Key == "" || digestPattern.MatchString(s.Key) && len(s.Name) <= nameMost
	counts := s.Asked >= 0 && s.Denied >= 0 && s.Every >= 0 && s.Burst >= 0 && s.Concurrency >= 0
	return named && counts && s.Asked < math.MaxInt32 && s.Denied < math.MaxInt32 && s.Every <= maxTolerance && s.Burst < math.MaxInt32 && s.Concurrency <= maxRunning
}

// cut shortens a name for a report.
func cut(name string) string {
	if len(name) <= nameMost {
		return strings.ToValidUTF8(name, "")
	}
	const dots = "…"
	return strings.ToValidUTF8(name[:nameMost-len(dots)], "") + dots
}

// read reads the reply of look.lua.
func (s *State) read(reply any) error {
	values, err := redis.Strings(reply, nil)
	if err != nil || len(values) != 7 {
		return errors.Join(wire.ErrReply, err)
	}
	number := func(i int, otherwise float64) float64 {
		n, err := strconv.ParseFloat(values[i], 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return otherwise
		}
		return n
	}
	// The names and the bounds of hold, in µs, are those of acquire.lua.
	now, running, tat := number(0, 0), number(1, 0), number(2, 0)
	line, front := number(3, 0), number(4, 0)
	hold, pace := max(1000, number(5, 200_000)), number(6, 1)
	s.Running = int(running)
	every := float64(s.Every.Microseconds())
	if every > 0 {
		s.Taken = int(min(float64(s.Burst), max(0, math.Ceil((tat-now)/every))))
	}
	// The distance of slots, as in acquire.lua.
	step := 0.0
	if every > 0 {
		step = every + max(0, float64(promiseJitter.Microseconds())-every*float64(s.Burst-1))
	}
	if s.Concurrency > 0 {
		step = max(step, pace*hold/float64(s.Concurrency))
	}
	if step <= 0 {
		return nil
	}
	last := 0.0
	for _, next := range []float64{line, front} { // the next free slot of each line
		if slot := next - step; slot > now {
			s.Waiting += int(min(maxWaiting, math.Ceil((slot-now)/step)))
			last = max(last, slot)
		}
	}
	if last > 0 && last < math.MaxInt64/2 {
		s.Last = time.UnixMicro(int64(last))
	}
	return nil
}

// maxWaiting bounds an estimate that garbage in Redis could make absurd.
const maxWaiting = 1e9
