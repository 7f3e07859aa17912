package circulate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	handOverScript   = wire.NewVitalScript("handover", lua("list"), lua("bykind"), lua("handover"))
	recallKindScript = wire.NewScript("recallkind", lua("bykind"), lua("recallkind"))
)

const (
	// KindsKept is how long a shard remembers the kinds of accounts that some replica
	// could not check.
	KindsKept = 15 * time.Minute
	// maxWaitingKind is the most bytes of a kind by which accounts can wait.
	maxWaitingKind = 64
	// maxWaitingKinds is the most kinds that Waiting returns.
	maxWaitingKinds = 256
)

// Kinds are the steps by which replicas that check different kinds share a ring. The ring
// learns the kind of an account only when a replica hands the account over.
type Kinds struct{ ring *Ring }

// Kinds returns the steps that concern kinds.
func (r *Ring) Kinds() Kinds { return Kinds{r} }

// WaitsByKind reports whether accounts of a kind can wait by it. The kind must be 1 to 64
// bytes without control characters.
func WaitsByKind(kind string) bool {
	return kind != "" && len(kind) <= maxWaitingKind && !strings.ContainsFunc(kind, func(r rune) bool { return r < 0x20 })
}

// claimedKinds returns kinds in the form that claim takes.
func claimedKinds(kinds []string) string {
	var text strings.Builder
	for _, kind := range kinds {
		if WaitsByKind(kind) {
			text.WriteString("\t" + kind)
		}
	}
	if text.Len() == 0 && len(kinds) > 0 {
		return "\t" // no account can wait by these kinds; an empty text would mean any kind
	}
	return text.String()
}

// HandOver is an account that a replica claimed and cannot check.
type HandOver struct {
	Claim *Claim
	Kind  string // the account's kind, one that WaitsByKind accepts
}

// HandOver hands over claims of one shard unchecked. Their accounts wait in
// message_queue:by_kind for a replica that claims with their kind. For at least KindsKept
// no other replica gets them. They retain their due times. The caller must know a live
// replica that checks the kind, because no other would take them. HandOver returns how
// many were still claimed.
func (k Kinds) HandOver(ctx context.Context, shard int, all []HandOver) (int, error) {
	if err := wire.CheckBatch("hand over", len(all)); err != nil {
		return 0, err
	}
	args := append(k.ring.wakeArgs(shard), KindsKept.Milliseconds())
	for _, h := range all {
		if !WaitsByKind(h.Kind) {
			return 0, fmt.Errorf("%w: hand over: no account can wait by the kind %q", wire.ErrInput, h.Kind)
		}
		args = append(args, h.Claim.entry, max(0, h.Claim.Due.UnixMilli()), h.Kind)
	}
	keys := &k.ring.keys[shard]
	return redis.Int(k.ring.wire.Run(ctx, handOverScript, shard,
		[]string{keys.processing, keys.tickets, keys.ticketSeq, keys.ticketMark, keys.byKind, keys.kinds}, args...))
}

// Recall lets up to n accounts of a shard that wait by a kind wait for any replica
// instead. The empty kind means all kinds. Recall is for kinds that no live replica
// checks: any replica may then claim the accounts and report that it cannot check them.
// It returns how many entries it took out of message_queue:by_kind, including void ones.
func (k Kinds) Recall(ctx context.Context, shard int, kind string, n int) (int, error) {
	if err := wire.CheckBatch("recall", n); err != nil {
		return 0, err
	}
	keys := &k.ring.keys[shard]
	return redis.Int(k.ring.wire.Run(ctx, recallKindScript, shard,
		[]string{keys.byKind, keys.tickets, keys.ticketSeq, keys.ticketMark, keys.kinds, keys.setAside, keys.urgent, keys.queue, keys.low},
		append(k.ring.wakeArgs(shard), n, kind)...))
}

// Waiting returns the kinds that accounts of a shard wait by, at most 256.
func (k Kinds) Waiting(ctx context.Context, shard int) ([]string, error) {
	key := k.ring.keys[shard].byKind
	var kinds []string
	for from := "-"; len(kinds) < maxWaitingKinds; {
		replies, err := k.ring.wire.PipelineOn(ctx, wire.Ordinary, shard, key, wire.Command{"ZRANGEBYLEX", key, from, "+", "LIMIT", 0, 1})
		if err != nil {
			return nil, fmt.Errorf("waiting kinds, shard %d: %w", shard, err)
		}
		members, err := redis.Strings(replies[0], nil)
		if err != nil {
			return nil, fmt.Errorf("waiting kinds, shard %d: %w: %w", shard, wire.ErrReply, err)
		}
		if len(members) == 0 {
			break
		}
		kind, _, _ := strings.Cut(members[0], "\t")
		kinds = append(kinds, kind)
		from = "(" + kind + "\n"
	}
	return kinds, nil
}

// waitingEntry returns the entry of a member of message_queue:by_kind.
func waitingEntry(member string) string {
	_, rest, ok := strings.Cut(member, "\t")
	if _, entry, ranked := strings.Cut(rest, "|"); ok && ranked {
		return entry
	}
	return member
}
