package circulate

import (
	"context"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var auditSendScript = wire.NewScript("audit send", lua("sends"), lua("send_audit"))

// auditSends is how many sends one step of an audit looks at.
const auditSends = 100

// SendViolation is a way in which a send is not where its state demands.
type SendViolation byte

// The violations.
const (
	SendOrphan   SendViolation = 'o' // its account is not registered; mended: forgotten, as by Deregister
	SendNoRecord SendViolation = 'r' // a place without a record; mended: the place is freed
	SendLost     SendViolation = 'l' // it is missing from a place; mended: it is put there
	SendStray    SendViolation = 's' // it is in a place where it does not belong; mended: it is taken out
)

// SendFinding is one violation.
type SendFinding struct {
	Kind   SendViolation
	Of     string // the send's id, the account, or account NUL peer
	Mended bool
}

// Audit checks that each send of a shard is in exactly the places of its state, in short
// atomic steps, and mends what it finds if it is told to. No step of the protocol leaves
// anything to be found: only a Redis that lost keys, or a person, does. [Ring.AuditShard]
// does it too.
func (s Sends) Audit(ctx context.Context, shard int, mend bool) (found []SendFinding, err error) {
	err = s.audit(ctx, shard, mend, func(_ context.Context, page []SendFinding) error {
		found = append(found, page...)
		return nil
	})
	return found, err
}

// audit calls looked after each step, with what that step has found. Its error ends the
// audit.
func (s Sends) audit(ctx context.Context, shard int, mend bool, looked func(context.Context, []SendFinding) error) error {
	k := &s.ring.keys[shard]
	for _, key := range []struct{ name, start string }{{"sends", ScanDone}, {"index", "-"}, {"line", "-"}, {"due", "-"}} {
		for at := key.start; ; {
			reply, err := redis.Values(s.ring.wire.Run(ctx, auditSendScript, shard, k.outbox.with(k.tickets), key.name, at, auditSends, wire.Flag(mend)))
			if err != nil {
				return err
			}
			var pairs []string
			if _, err := redis.Scan(reply, &at, &pairs); err != nil {
				return fmt.Errorf("audit sends, shard %d: %w: %w", shard, wire.ErrReply, err)
			}
			var page []SendFinding
			for i := 0; i+1 < len(pairs); i += 2 {
				page = append(page, SendFinding{SendViolation(pairs[i][0]), pairs[i+1], mend})
			}
			if err := looked(ctx, page); err != nil {
				return err
			}
			if at == "" || at == ScanDone {
				break
			}
		}
	}
	return nil
}

// sends finds sends that are not where their states demand. A shard without sends costs
// one command.
func (a *audit) sends(ctx context.Context) error {
	o := &a.keys.outbox
	replies, err := a.ring.wire.PipelineOn(ctx, wire.Ordinary, a.shard, o.sends, wire.Command{"EXISTS", o.sends, o.line, o.due, o.index})
	if err != nil || replies[0] == int64(0) {
		return err
	}
	return a.ring.Sends().audit(ctx, a.shard, a.o.Repair, func(ctx context.Context, page []SendFinding) error {
		for _, f := range page {
			a.report(Misplaced, strings.ReplaceAll(f.Of, "\x00", " "), f.Mended)
		}
		if a.o.Repair && len(page) > 0 {
			return nil
		}
		return a.pause(ctx)
	})
}
