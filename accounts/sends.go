package accounts

import (
	"context"
	"errors"
	"slices"

	"github.com/rounds-dev/rounds/circulate"
)

// SendQuery says which sends Sends returns.
type SendQuery struct {
	Limit   int                   // 1 to MaxListLimit; 0 means ListLimit
	Cursor  string                // Next of the page before; empty: the first page
	Account string                // only this account's; empty: those of all accounts
	States  []circulate.SendState // only sends in these states; empty: in any
}

// SendPage is a part of a list of sends.
type SendPage struct {
	Sends []circulate.Send
	Next  string // the next page's Cursor; empty: this page is the last
}

// sendGroups returns the groups in which sends are listed, in the order of a list: what somebody
// has to look at comes first.
func sendGroups() []circulate.SendGroup {
	return []circulate.SendGroup{circulate.GroupUnknown, circulate.GroupAttempting, circulate.GroupQueued, circulate.GroupEnded}
}

// Send returns a send, or circulate.ErrNoSend.
func (r *Registry) Send(ctx context.Context, id string) (circulate.Send, error) {
	send, err := r.ring.Sends().Look(ctx, id)
	if err == nil {
		err = r.checkSend(ctx, &send)
	}
	if err != nil {
		return circulate.Send{}, err
	}
	return send, nil
}

// checkSend returns circulate.ErrNoSend for a send of an account that the bound principal does
// not see.
func (r *Registry) checkSend(ctx context.Context, send *circulate.Send) error {
	err := r.check(ctx, send.Account)
	if errors.Is(err, ErrNotFound) {
		err = circulate.ErrNoSend
	}
	return err
}

// CancelSend cancels a queued send, and returns it as it then is. Its errors are
// circulate.ErrNoSend and, with the send, circulate.ErrSendState.
func (r *Registry) CancelSend(ctx context.Context, id string) (circulate.Send, error) {
	if _, err := r.Send(ctx, id); err != nil {
		return circulate.Send{}, err
	}
	return r.ring.Sends().Cancel(ctx, id)
}

// ResolveSend writes what somebody decided about a send that the caller has seen, and returns
// it as it then is. Its errors are those of CancelSend.
func (r *Registry) ResolveSend(ctx context.Context, seen circulate.Send, to circulate.Resolution) (circulate.Send, error) {
	if err := r.checkSend(ctx, &seen); err != nil {
		return circulate.Send{}, err
	}
	to.Fence = seen.Fence
	return r.ring.Sends().Resolve(ctx, seen.ID, to)
}

// Sends returns sends, a page at a time: first those that are unknown, then those under an
// attempt, the queued ones and those that have ended. In each of these groups the sends of all
// accounts are in one order, the oldest first: by when they were queued, and those that have
// ended by when they did. A send that stays in its group is in a walk once. One that changes its
// group during a walk may be in it twice, or not at all. With states, a page may have fewer sends
// than asked for, or none, and still not be the last. Sends returns Faults for a limit that
// is not valid, ErrNotFound for an account that does not exist, and ErrCursor for a cursor
// that Sends never returned.
func (r *Registry) Sends(ctx context.Context, q SendQuery) (SendPage, error) {
	var err error
	if q.Limit, err = pageLimit(q.Limit); err != nil {
		return SendPage{}, err
	}
	if q.Account != "" {
		if _, err := r.Get(ctx, q.Account); err != nil {
			return SendPage{}, err
		}
	}
	var at sendPlace
	if q.Cursor != "" {
		if at, err = parseSendPlace(q.Cursor); err != nil {
			return SendPage{}, err
		}
	}
	groups := sendGroups()
	page := SendPage{Sends: make([]circulate.Send, 0, min(q.Limit, ListLimit))}
	for looked := 0; at.group < len(groups); {
		if len(page.Sends) == q.Limit || looked >= lookBudget {
			page.Next = at.seal()
			return page, nil
		}
		if !q.holds(groups[at.group]) {
			at = at.after("")
			continue
		}
		// Never more than fit, so that every send that was looked at is on the page or not selected.
		want := min(lookCount, q.Limit-len(page.Sends))
		sends, behind, err := r.ring.Sends().Oldest(ctx, groups[at.group], q.Account, at.behind, want)
		if err != nil {
			return SendPage{}, err
		}
		looked += len(sends)
		if sends, err = r.selected(ctx, sends, q.States); err != nil {
			return SendPage{}, err
		}
		page.Sends = append(page.Sends, sends...)
		at = at.after(behind)
	}
	return page, r.complete(ctx)
}

// holds reports whether a group may have sends in a selected state.
func (q *SendQuery) holds(group circulate.SendGroup) bool {
	return len(q.States) == 0 || slices.ContainsFunc(q.States, func(state circulate.SendState) bool {
		switch state {
		case circulate.SendUnknown:
			return group == circulate.GroupUnknown
		case circulate.SendAttempting:
			return group == circulate.GroupAttempting
		case circulate.SendQueued:
			return group == circulate.GroupQueued
		}
		return group == circulate.GroupEnded
	})
}

// selected returns the sends in some states, or in any, of accounts that the bound principal
// sees.
func (r *Registry) selected(ctx context.Context, sends []circulate.Send, states []circulate.SendState) ([]circulate.Send, error) {
	if len(states) > 0 {
		sends = slices.DeleteFunc(sends, func(s circulate.Send) bool { return !slices.Contains(states, s.State) })
	}
	if len(r.labels) == 0 || len(sends) == 0 {
		return sends, nil
	}
	var ids []string
	for i := range sends {
		ids = append(ids, sends[i].Account)
	}
	slices.Sort(ids)
	seen, err := r.Seen(ctx, slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(sends, func(s circulate.Send) bool {
		_, sees := seen[s.Account]
		return !sees
	}), nil
}

// sendPlace is how far a walk through sends has come: behind a place in the order of a group.
type sendPlace struct {
	group  int
	behind string // empty: before the first
}

// after returns the place where the walk goes on. An empty behind says that the group has no
// more.
func (p sendPlace) after(behind string) sendPlace {
	if behind == "" {
		return sendPlace{group: p.group + 1}
	}
	return sendPlace{p.group, behind}
}

func (p sendPlace) seal() string {
	return SealCursor(CursorSends, append([]byte{byte(p.group)}, p.behind...))
}

func parseSendPlace(cursor string) (sendPlace, error) {
	content, err := UnsealCursor(CursorSends, cursor)
	if err != nil {
		return sendPlace{}, err
	}
	if len(content) == 0 || int(content[0]) >= len(sendGroups()) || len(content) > 1 && len(content) != 1+circulate.SendPlaceLength {
		return sendPlace{}, ErrCursor
	}
	return sendPlace{int(content[0]), string(content[1:])}, nil
}
