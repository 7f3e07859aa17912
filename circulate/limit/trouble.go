package limit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// MostTroubles is the most names that are in trouble at once. Further ones are as if well.
	MostTroubles = 1024
	// MaxPause is the longest wait that a name is paused for.
	MaxPause = 24 * time.Hour

	causeMost = 120 // bytes of a cause
)

var troubleScript = wire.NewScript("trouble", lua("trouble"))

// Troubles are the names of limits that are not well: what accounts share, such as a host, is out
// of reach, or has asked for a pause. All replicas of a namespace share them. A name that is well
// has nothing in Redis.
//
// A name is in trouble from the first report that its checks fail until a check of it succeeds.
// Meanwhile one probe at a time may start: the first 2 s after the report, the next ones after one
// and a half times the distance before, up to 15 s. A probe of which nothing is heard for 10 s no
// longer counts. A trouble of which nothing is heard for ten minutes is forgotten.
type Troubles struct{ wire *wire.Wire }

// TroublesOf returns the troubles of a ring's namespace.
func TroublesOf(ring *circulate.Ring) Troubles { return Troubles{ring.Wire(wire.Insider{})} }

// Trouble is the state of a name that is not well. Times are by Redis' clock.
type Trouble struct {
	Name    string    // cut if it is very long
	Cause   string    // the code of the failure that was last reported
	Paused  bool      // its third party asked for a pause until Next; otherwise it is down
	Since   time.Time // when it was first reported
	Next    time.Time // when the next probe may start
	Probing time.Time // until when a probe counts as under way; past: none is
}

// TroubleStep is what a replica saw of a name, or asks about it.
type TroubleStep struct {
	Name  string
	What  TroubleWhat
	Wait  time.Duration // with Failed and Paused: the wait that the third party asked for
	Cause string        // with Failed and Paused: the failure's code
}

// TroubleWhat is the kind of a TroubleStep.
type TroubleWhat string

// The kinds.
const (
	Failed TroubleWhat = "failed" // its checks fail in a row, or a probe failed
	Paused TroubleWhat = "paused" // its third party asked for the wait; no check before then ends that
	Well   TroubleWhat = "well"   // a check of it succeeded
	Probe  TroubleWhat = "probe"  // may a probe of it start?
)

// TroubleAnswer is the answer to a TroubleStep.
type TroubleAnswer struct {
	Trouble *Trouble // nil: the name is not in trouble
	Granted bool     // to a Probe: it may start
}

// Do does at most circulate.MaxBatch steps in their order. It returns an answer to each, and the
// time by Redis' clock. All steps but Probe are safe to repeat after an unknown outcome.
func (t Troubles) Do(ctx context.Context, steps []TroubleStep) ([]TroubleAnswer, time.Time, error) {
	if err := wire.CheckBatch("trouble", len(steps)); err != nil {
		return nil, time.Time{}, err
	}
	args := make([]any, 0, 1+4*len(steps))
	args = append(args, MostTroubles)
	for _, s := range steps {
		if s.Name == "" {
			return nil, time.Time{}, fmt.Errorf("%w: trouble: name: must not be empty", wire.ErrInput)
		}
		wait := min(max(0, s.Wait), MaxPause)
		args = append(args, string(s.What), textOf(s.Name), wait.Milliseconds(), oneLine(cut(s.Name), nameMost)+"\n"+oneLine(s.Cause, causeMost))
	}
	values, now, err := t.eval(ctx, args)
	if err != nil {
		return nil, now, err
	}
	if len(values) != len(steps) {
		return nil, now, fmt.Errorf("trouble: %w", wire.ErrReply)
	}
	answers := make([]TroubleAnswer, len(steps))
	for i, text := range values {
		if text, answers[i].Granted = strings.CutPrefix(text, "!"); text != "" {
			if answers[i].Trouble = parseTrouble(text); answers[i].Trouble == nil {
				return nil, now, fmt.Errorf("trouble: %w", wire.ErrReply)
			}
		}
	}
	return answers, now, nil
}

// All returns the names in trouble, by TroubleKey, and the time by Redis' clock. There are at most
// MostTroubles. It leaves out unreadable ones. If there are none, which costs one command, the time
// is zero.
func (t Troubles) All(ctx context.Context) (map[string]*Trouble, time.Time, error) {
	replies, err := t.wire.Pipeline(ctx, t.key(), wire.Command{"EXISTS", t.key()})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("troubles: %w", err)
	}
	if there, err := redis.Bool(replies[0], nil); err != nil || !there {
		return nil, time.Time{}, err
	}
	values, now, err := t.eval(ctx, []any{MostTroubles})
	if err != nil {
		return nil, now, err
	}
	all := make(map[string]*Trouble, len(values)/2)
	for i := 0; i+1 < len(values); i += 2 {
		if one := parseTrouble(values[i+1]); one != nil {
			all[values[i]] = one
		}
	}
	return all, now, nil
}

func (t Troubles) key() string { return "{" + t.wire.Namespace() + ":limits}:troubles" }

// TroubleKey returns a name as Troubles.All has it: the name itself, or its digest.
func TroubleKey(name string) string { return textOf(name) }

// Via returns the name of what accounts share, such as a host, as one way out reaches it. The way is empty
// for calls that take no way with a name.
func Via(name, way string) string {
	if way == "" {
		return name + " (direct)"
	}
	return name + " (via " + way + ")"
}

var viaPattern = regexp.MustCompile(`^(.+) \((direct|via [a-z0-9-]+)\)$`)

// CutVia takes a name of Via apart. The way is "direct" if it has no name, and empty if Via did not make
// the name.
func CutVia(name string) (of, way string) {
	if found := viaPattern.FindStringSubmatch(name); found != nil {
		return found[1], strings.TrimPrefix(found[2], "via ")
	}
	return name, ""
}

// eval runs the script and returns its reply behind the time.
func (t Troubles) eval(ctx context.Context, args []any) ([]string, time.Time, error) {
	keys := []string{t.key()}
	reply, err := t.wire.Eval(ctx, troubleScript, keys, args)
	if wire.HasCode(err, "WRONGTYPE") {
		if moved, failed := t.wire.SetAside(ctx, keys, []any{"hash"}); failed == nil && moved > 0 {
			reply, err = t.wire.Eval(ctx, troubleScript, keys, args)
		}
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("trouble: %w", err)
	}
	values, err := redis.Strings(reply, nil)
	if err != nil || len(values) == 0 {
		return nil, time.Time{}, fmt.Errorf("trouble: %w", errors.Join(wire.ErrReply, err))
	}
	ms, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("trouble: %w", wire.ErrReply)
	}
	return values[1:], time.UnixMilli(ms), nil
}

// parseTrouble reads a trouble as trouble.lua writes it. It returns nil if it cannot be read.
func parseTrouble(text string) *Trouble {
	lines := strings.SplitN(text, "\n", 3)
	words := strings.Fields(lines[0])
	if len(lines) != 3 || len(words) != 6 {
		return nil
	}
	var times [5]time.Time
	for i, word := range words[1:] {
		ms, err := strconv.ParseInt(word, 10, 64)
		if err != nil || ms < 0 || ms > 1<<53 {
			return nil
		}
		times[i] = time.UnixMilli(ms)
	}
	return &Trouble{
		Name: oneLine(lines[1], nameMost), Cause: oneLine(lines[2], causeMost), Paused: words[0] == "p",
		Since: times[0], Next: times[1], Probing: times[3],
	}
}

// oneLine replaces control characters and cuts a text to some bytes.
func oneLine(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
