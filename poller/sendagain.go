package poller

import (
	"context"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	doubtsRead  = 128 // sends that one step reads
	doubtsPages = 8   // such steps for each shard and look
)

// reviveOn sends unknown sends again where that does no harm, until ctx is done: the third party
// takes a send once, or the account's on_unknown says so. Before that, it looks for sends of kinds that
// can find them at the third party. It looks at this replica's own shards, every
// Config.IdleInterval and after an attempt has become unknown here, and more often while
// a send waits for its pause to end.
func (s *sends) reviveOn(ctx context.Context) {
	behind := make(map[int]string) // by shard, where the next look goes on
	for {
		wait := s.config.IdleInterval
		waits, err := s.revive(ctx, behind)
		if err != nil {
			s.log.Debug("unknown sends were not looked at", "error", err)
		}
		if waits {
			wait = min(wait, 2*sendRetry)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.doubted:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// revive looks once at the unknown sends of this replica's own shards. It reports whether one is to
// be sent again soon.
func (s *sends) revive(ctx context.Context, behind map[int]string) (waits bool, err error) {
	shards, err := s.outbox.Present(ctx)
	for _, shard := range shards {
		for page := 0; page < doubtsPages && err == nil && s.times.aloof(shard) == 1; page++ {
			var some []circulate.Send
			if some, behind[shard], err = s.outbox.List(ctx, shard, circulate.GroupUnknown, "", behind[shard], doubtsRead); err != nil {
				break
			}
			var later bool
			later, err = s.reviveSome(ctx, shard, some)
			waits = waits || later
			if behind[shard] == "" {
				break
			}
		}
	}
	return waits, err
}

// reviveSome queues those of some unknown sends that are to be sent again now, each as the last of
// its peer, and ends fleeting ones. It reports whether others are to be resolved later.
func (s *sends) reviveSome(ctx context.Context, shard int, some []circulate.Send) (waits bool, err error) {
	known := make(map[string]bool)
	var ids []string
	for i := range some {
		if id := some[i].Account; !known[id] {
			known[id], ids = true, append(ids, id)
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	views, err := s.ring.Look(ctx, shard, ids)
	if err != nil {
		return false, err
	}
	of := make(map[string]*circulate.View, len(views))
	for i := range views {
		of[views[i].ID] = &views[i]
	}
	for i := range some {
		view := of[some[i].Account]
		var to circulate.SendState
		if view != nil {
			to = s.ends(&some[i], view)
			if to != circulate.SendRejected && s.traces.pending(ctx, &some[i], view) {
				waits = true
				continue
			}
		}
		r := circulate.Resolution{Fence: some[i].Fence, To: to, Code: some[i].Code, Text: some[i].Text}
		switch to {
		case circulate.SendQueued:
			r.Expires = some[i].Expires
		case circulate.SendRejected:
			r.Code, r.Text = codeLate, textLate
		default:
			continue
		}
		if view.Now.Before(some[i].Since.Add(sendRetry << min(max(0, some[i].Attempts-1), 8))) {
			waits = true
			continue
		}
		if _, err := s.outbox.Resolve(ctx, some[i].ID, r); err != nil { // somebody else has resolved it, or Redis is away: the next look sees it
			s.log.Debug("an unknown send was not resolved", "send", some[i].ID, "error", err)
		}
	}
	return waits, nil
}

// ends returns what becomes of an unknown send without a person's decision: SendQueued, SendRejected,
// or nothing, 0.
func (s *sends) ends(send *circulate.Send, view *circulate.View) circulate.SendState {
	late := view.Now.After(send.Queued.Add(sendGiveUp))
	if !send.Expires.IsZero() {
		late = !view.Now.Before(send.Expires)
	}
	account, _, err := accounts.ReadStored(view.Record)
	sender := s.checkers.Sender(send.Kind)
	if err != nil || sender == nil || account.Kind != send.Kind {
		return 0
	}
	sending := answer("Sending", sender.Sending, account.Config, nil)
	switch {
	case slices.Contains(sending.Fleeting, send.Type):
		return circulate.SendRejected
	case late:
		return 0
	case account.OnUnknown == accounts.OnUnknownRetry || sending.Doubt == DoubtRepeats:
		return circulate.SendQueued
	}
	return 0
}
