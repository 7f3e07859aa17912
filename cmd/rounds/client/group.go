package client

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	// groupWait is how long one read waits for messages.
	groupWait = 10 * time.Second
	// groupPage is the most messages of one read.
	groupPage = 100
	// leaveTimeout bounds the last call, when the caller wants to end.
	leaveTimeout = 5 * time.Second
)

// Consume reads a consumer group, which begins at from if it is new, and calls read for
// each message, for ever. A message is acknowledged with the next call after read has
// returned without an error. limit, if not 0, is the most messages to read.
//
// It ends as Tail does, but first acknowledges and leaves the group. Unacknowledged
// messages go to other consumers.
func (c *Client) Consume(ctx context.Context, group, from string, limit int, read func(api.GroupMessage) error, lost func(err error, pause time.Duration)) error {
	path := namedPath("/v1/groups/", group) + "/read"
	// The caller chooses the name, so that the first call can be repeated too.
	turn := api.GroupReadRequest{Consumer: circulate.NewReplica(), From: from, Wait: groupWait.String()}
	again, given, connected := backoff{c.firstPause}, 0, false
	for {
		turn.Limit = groupPage
		if limit > 0 {
			turn.Limit = min(groupPage, limit-given)
		}
		var batch api.GroupBatch
		err := c.call(ctx, http.MethodPost, path, turn, &batch)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return c.leave(ctx, path, turn, context.Cause(ctx))
		case !connected || Refused(err):
			return err
		default:
			// The call may have been done. Repeating it acknowledges nothing twice, and
			// returns the messages of the lost reply.
			if !again.wait(ctx, err, lost) {
				return c.leave(ctx, path, turn, context.Cause(ctx))
			}
			continue
		}
		again, connected = backoff{c.firstPause}, true
		turn = api.GroupReadRequest{Consumer: batch.Consumer, Wait: groupWait.String()}
		for _, m := range batch.Messages {
			if ctx.Err() != nil {
				return c.leave(ctx, path, turn, context.Cause(ctx))
			}
			if err := read(m); err != nil {
				return c.leave(ctx, path, turn, err)
			}
			turn.Acknowledge = append(turn.Acknowledge, m.Handle)
			given++
		}
		if limit > 0 && given >= limit {
			return c.leave(ctx, path, turn, nil)
		}
	}
}

// leave acknowledges the messages that were read last, and leaves the group. It returns
// the error with which the consumer ends, or else its own.
func (c *Client) leave(ctx context.Context, path string, turn api.GroupReadRequest, why error) error {
	// This is done although the caller wants to end, so that the last messages are not
	// delivered again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	turn.From, turn.Limit, turn.Wait, turn.Leave = "", 0, "", true
	err := c.call(ctx, http.MethodPost, path, turn, nil)
	for err != nil && !Refused(err) {
		if !sleep(ctx, c.firstPause) {
			break
		}
		err = c.call(ctx, http.MethodPost, path, turn, nil)
	}
	return cmp.Or(why, err)
}
