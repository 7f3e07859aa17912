package circulate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed progress.lua
var progressLua string

var progressScript = wire.NewVitalScript("progress", progressLua)

// Page is one page of a check that has more.
type Page struct {
	Kind       string
	Messages   []Message
	Cursor     []byte // nil leaves it as it is
	DropCursor bool   // forgets it
}

// Progress writes a page and renews the claim, which changes in place: a Return
// of it must come after. ErrClaimLost says that nothing was written and that the
// account is someone else's. After an unknown outcome the claim must be dropped,
// for nobody knows which entry it has: the monitor finds it.
func (r *Ring) Progress(ctx context.Context, c *Claim, p Page) error {
	cursor := "keep"
	switch {
	case p.DropCursor:
		cursor = "drop"
		p.Cursor = nil
	case p.Cursor != nil:
		cursor = "set"
	}
	args := append(make([]any, 0, 4+4*len(p.Messages)), c.entry, p.Kind, cursor, p.Cursor)
	for i := range p.Messages {
		args = p.Messages[i].appendFields(args)
	}
	k := &r.keys[c.Shard]
	renewed, err := redis.String(r.wire.Run(ctx, progressScript, c.Shard,
		[]string{k.processing, k.tickets, k.ticketSeq, k.cursors, k.messages, k.ticketMark}, args...))
	switch {
	case errors.Is(err, redis.ErrNil):
		return ErrClaimLost
	case err != nil:
		return err
	case len(renewed) != len(c.entry):
		return fmt.Errorf("progress, shard %d: %w", c.Shard, wire.ErrReply)
	}
	c.entry = renewed
	switch {
	case p.DropCursor:
		c.Cursor = nil
	case p.Cursor != nil:
		c.Cursor = p.Cursor
	}
	return nil
}
