package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

// keeper is a replica with an account whose third party holds its calls, as package poller keeps
// it: one call follows the other under one claim. It makes its calls outside of Redis, so each
// step is what comes between two of them. Between two rounds it may release what it holds without
// knowing, as after a claim or a page of unknown outcome.
func keeper() *program {
	return &program{name: "keeper", named: true, run: func(a *actor) error {
		ctx := context.Background()
		if a.pick(2) == 1 {
			return a.reclaim(ctx)
		}
		b, err := a.ring.Claim(ctx, 0, a.name, 1, 0)
		if circulate.Unknown(err) || err == nil && len(b.Claims) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		return a.keep(ctx, &b.Claims[0])
	}}
}

// What may follow the end of a call.
const (
	renews  = iota // an empty end, and the claim would become stale during the next call
	finds          // a page of messages, which the third party does not give again
	stops          // the replica was told to stop in the middle of a hold
	watches        // it looks whether the account is still its own
	leaves         // the check fails, or something that only a return changes has come
	ends           // how many there are
)

// keep makes the calls of an account until that is not held any more.
func (a *actor) keep(ctx context.Context, c *circulate.Claim) error {
	for {
		a.at("holds", c.ID+" "+c.Ticket())
		var err error
		switch a.pick(ends) {
		case renews:
			err = a.write(ctx, c, circulate.Page{Kind: "k", Succeeded: true})
		case finds:
			err = a.write(ctx, c, circulate.Page{Kind: "k", Succeeded: true, Messages: found(c)})
		case stops:
			_, err := a.ring.Release(ctx, 0, []*circulate.Claim{c})
			return unless(circulate.Unknown(err), err)
		case watches:
			var current []string
			current, err = a.ring.Tickets(ctx, 0, []string{c.ID})
			if err == nil && current[0] != c.Ticket() {
				return nil // the call is ended, and what it brings is dropped
			}
			err = unless(circulate.Unknown(err), err)
		case leaves:
			for {
				if err = a.give(ctx, c, later()); !circulate.Unknown(err) || a.pick(2) == 1 {
					return unless(circulate.Unknown(err), err)
				}
				a.at("returns", c.ID+" "+c.Ticket())
			}
		}
		if errors.Is(err, circulate.ErrClaimLost) || circulate.Unknown(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// write writes a page, and tries again while the outcome is unknown, until it gives up. The third
// party is not asked again before.
func (a *actor) write(ctx context.Context, c *circulate.Claim, page circulate.Page) error {
	for {
		err := a.ring.Progress(ctx, c, page)
		if !circulate.Unknown(err) || a.pick(2) == 1 {
			return err
		}
		a.at(fmt.Sprint("writes ", len(page.Messages)), c.ID+" "+c.Ticket())
	}
}

// releasedFirst returns which account does not come first in line after a release.
func releasedFirst(before, after snapshot) string {
	for _, lane := range []string{"message_queue:urgent", "message_queue", "message_queue:low"} {
		was, is := before.get(lane), after.get(lane)
		if len(is) < len(was) || !slices.Equal(is[:len(was)], was) {
			return fmt.Sprintf("released behind others: of %s, %s became %s", lane, strings.Join(was, " "), strings.Join(is, " "))
		}
	}
	return ""
}
