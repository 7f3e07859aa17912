package group

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Effect is what a consumer group does with a message inside Redis, in the step that
// acknowledges it.
type Effect struct {
	script *wire.Script
	before int // lines of the script before the effect's own
}

// NewEffect makes an effect of the body of a Lua function
//
//	function effect(message, KEYS, ARGV)
//
// where message has position, account, kind, id, type, time (RFC 3339, or empty) and data
// (JSON) as texts, and KEYS and ARGV are the caller's own. The returned value is ignored.
// An error raised by error or by redis.call means that the message could not be handled.
//
// Lua cannot roll back: the writes of an effect that fails stay, and are repeated when
// the message is delivered again. So check first, then write.
func NewEffect(name, body string) *Effect {
	script := wire.NewGroupScript("effect "+name, "local function effect(message, KEYS, ARGV)\n"+body+"\nend\n"+lua("effect"))
	return &Effect{script, script.LinesBefore("local function effect(") + 1}
}

// lineOf matches a line number in an error of Redis, or of the embedded server, whose
// scripts have no name.
var lineOf = regexp.MustCompile(`(?:^|@?user_script): ?(\d+):`)

// ownLines replaces the script's line numbers in an error by the effect's, which begin at
// 1.
func (e *Effect) ownLines(text string) string {
	return lineOf.ReplaceAllStringFunc(text, func(found string) string {
		line, err := strconv.Atoi(lineOf.FindStringSubmatch(found)[1])
		if err != nil || line <= e.before {
			return found
		}
		return fmt.Sprintf("effect:%d:", line-e.before)
	})
}

// Applying is the input of an effect besides the messages.
type Applying struct {
	Group string
	// Keys are all keys that the effect uses. On a cluster each must have the shard's
	// hash tag: see [circulate.Ring.Tag].
	Keys []string
	Args []any
	// Remember is how long applied messages are remembered by account and message id; 0:
	// not at all. [Groups.Apply] describes the effect.
	Remember time.Duration
}

// Applied is the outcome of a message.
type Applied byte

// The outcomes of a message.
const (
	AppliedNow    Applied = '1' // applied and acknowledged
	NotPending    Applied = '0' // acknowledged before, or not the group's
	AppliedBefore Applied = '2' // remembered as applied; acknowledged now
	EffectFailed  Applied = 'e' // not acknowledged
	HeldByEarlier Applied = 'h' // an earlier message of the account failed; not acknowledged
)

// Apply runs an effect for messages of one shard, in the stream's order, and acknowledges
// them, in one step of Redis. It returns the outcome of each message, and the errors of
// the failed ones, in order.
//
// The effect runs for a message only if the message is pending in the group, and the same
// step acknowledges it. So each delivery of a group is applied once, however often and by
// whichever process the step is run, and whatever happens to replies. The step may be
// repeated after an unknown outcome. Nothing is stored for that.
//
// With Remember a message is also known by its account and id for that long. It is then
// applied once even if its group is rewound or made again, or if Redis lost the end of
// the stream and the message was found again under another position. That takes about 100
// bytes and the two ids for each message of that time. Each group remembers for itself.
// An account that is deregistered and registered again under its id counts as the same
// account: messages with repeated ids are skipped.
func (g *Groups) Apply(ctx context.Context, shard int, e *Effect, a Applying, messages []circulate.Found) ([]Applied, []string, error) {
	if len(messages) < 1 || len(messages) > MaxRead {
		return nil, nil, fmt.Errorf("%w: apply: must be 1 to %d messages, are %d", wire.ErrInput, MaxRead, len(messages))
	}
	if err := wire.CheckGroup("apply", a.Group); err != nil {
		return nil, nil, err
	}
	if a.Remember < 0 {
		return nil, nil, fmt.Errorf("%w: apply: remember: must not be negative, is %v", wire.ErrInput, a.Remember)
	}
	k := g.streams.Keys(shard)
	keys := append([]string{k.Messages, k.Applied(a.Group)}, a.Keys...)
	args := make([]any, 0, 4+7*len(messages)+len(a.Args))
	args = append(args, a.Group, a.Remember.Milliseconds(), len(messages), len(a.Args))
	for i := range messages {
		f := &messages[i]
		args = append(args, f.Position, f.Account, f.Kind)
		args = wire.AppendMessage(args, f.Message.ID, f.Message.Type, f.Message.Time, f.Message.Data)
	}
	args = append(args, a.Args...)
	reply, err := redis.Values(g.wire.Eval(ctx, e.script, keys, args))
	if err != nil {
		return nil, nil, fmt.Errorf("%s, shard %d: %w", e.script.Name(), shard, noGroup(err))
	}
	texts, err := redis.Strings(reply, nil)
	if err != nil || len(texts) == 0 || len(texts[0]) != len(messages) {
		return nil, nil, fmt.Errorf("%s, shard %d: %w", e.script.Name(), shard, wire.ErrReply)
	}
	for i := range texts[1:] {
		texts[1+i] = e.ownLines(texts[1+i])
	}
	return []Applied(texts[0]), texts[1:], nil
}
