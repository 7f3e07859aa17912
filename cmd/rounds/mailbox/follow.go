package mailbox

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/login"
)

// Follow returns a sign-in once it is over, or as it is after hold at the latest. It asks the provider
// what became of a device code when it is time for that, in one process at a time.
func (d *Desk) Follow(ctx context.Context, registry *accounts.Registry, name string, hold time.Duration) (*Login, error) {
	end := time.Now().Add(hold)
	for {
		k, err := d.get(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case k.over():
			return k.login(name), nil
		case k.Grant != nil:
			return d.finish(ctx, registry, name)
		}
		now := time.Now()
		if k.Pending.Interval > 0 && !now.Before(k.Next) {
			if l, err := d.poll(ctx, registry, name, k); l != nil || err != nil {
				return l, err
			}
			continue
		}
		if !now.Before(end) {
			return k.login(name), nil
		}
		timer := time.NewTimer(min(lookAgain, end.Sub(now)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
}

// poll asks the provider once, unless another process does. It returns nothing while there is nothing
// new.
func (d *Desk) poll(ctx context.Context, registry *accounts.Registry, name string, k *kept) (*Login, error) {
	seen := k.Next
	mine := false
	k, err := d.update(ctx, name, func(k *kept) bool {
		mine = k.Next.Equal(seen) && k.Grant == nil && !k.over()
		k.Next = time.Now().Add(k.Pending.Interval)
		return mine
	})
	if err != nil || !mine {
		return nil, err
	}
	// The provider gives what it has only once, so this does not end with the caller.
	ctx = context.WithoutCancel(ctx)
	g, slow, err := d.server(k.Kind).Poll(ctx, &k.Pending)
	switch {
	case g != nil, errors.Is(err, ErrRefused):
		return d.came(ctx, registry, name, g)
	case err != nil:
		d.trouble(ctx, name, err)
		return nil, err
	}
	_, err = d.update(ctx, name, func(k *kept) bool {
		changed := slow || k.Trouble != ""
		k.Trouble = ""
		if slow {
			k.Pending.Interval += slower
			k.Next = time.Now().Add(k.Pending.Interval)
		}
		return changed
	})
	return nil, err
}

// Complete ends a sign-in with what the browser brings back: the state and the code that the provider
// has added to the address, and its issuer if it has added that. Without a code the person or the
// provider has refused.
func (d *Desk) Complete(ctx context.Context, registry *accounts.Registry, name, state, code, issuer string) (*Login, error) {
	k, err := d.get(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case k.over():
		return k.login(name), nil
	case k.Pending.Interval > 0:
		return nil, accounts.Faults{{Field: "code", Reason: "this sign-in has a device code: type that in at the provider"}}
	}
	if k.Grant == nil {
		var g *Grant
		if code != "" {
			g, err = d.server(k.Kind).Exchange(context.WithoutCancel(ctx), &k.Pending, state, code, issuer)
		}
		if errors.Is(err, ErrState) {
			return nil, accounts.Faults{{Field: "state", Reason: ErrState.Error()}}
		}
		if err != nil && !errors.Is(err, ErrRefused) {
			d.trouble(ctx, name, err)
			return nil, err
		}
		return d.came(context.WithoutCancel(ctx), registry, name, g)
	}
	return d.finish(ctx, registry, name)
}

// Abandon ends a sign-in. Nothing of it remains, whatever the person does later.
func (d *Desk) Abandon(ctx context.Context, name string) error { return d.book().End(ctx, name) }

// came stores what a sign-in has led to, nil if the provider refused, and goes on with it.
func (d *Desk) came(ctx context.Context, registry *accounts.Registry, name string, g *Grant) (*Login, error) {
	k, err := d.update(ctx, name, func(k *kept) bool {
		if k.Grant != nil || k.State == Done {
			return false // a page that was loaded twice
		}
		k.Trouble = ""
		if k.Grant = g; g == nil {
			k.State = Refused
		}
		return true
	})
	if err != nil || k.over() {
		return k.loginOr(name, err)
	}
	return d.finish(ctx, registry, name)
}

func (k *kept) loginOr(name string, err error) (*Login, error) {
	if err != nil {
		return nil, err
	}
	return k.login(name), nil
}

// trouble stores why a call has failed.
func (d *Desk) trouble(ctx context.Context, name string, err error) {
	text := d.Tell(ctx, err)
	text = strings.ToValidUTF8(text[:min(len(text), maxTrouble)], "")
	_, _ = d.update(ctx, name, func(k *kept) bool { // the caller gets the error in any case
		changed := k.Trouble != text
		k.Trouble = text
		return changed
	})
}

// finish stores the grant as a secret and registers the account, or puts an existing one back into
// circulation. Each part may be repeated, even by another process at the same time.
func (d *Desk) finish(ctx context.Context, registry *accounts.Registry, name string) (*Login, error) {
	var taken error
	k, err := d.update(ctx, name, func(k *kept) bool {
		if k.Free || k.over() {
			return false // once free is stored, a stored secret may be this sign-in's own
		}
		if taken = d.checkFree(ctx, registry, k); taken == nil {
			k.Free = true
		} else if errors.Is(taken, ErrTaken) {
			k.Grant, k.State = nil, Refused
		}
		return taken == nil || errors.Is(taken, ErrTaken)
	})
	if err = errors.Join(err, taken); err != nil || k.over() {
		return k.loginOr(name, err)
	}
	hosts := append(slices.Clone(k.Grant.Hosts), k.Hosts...)
	if err := d.Keep(ctx, k.Kind, SecretOf(k.ID), hosts, k.Grant.Text); err != nil {
		return nil, err
	}
	var a accounts.Account
	if err := json.Unmarshal(k.Record, &a); err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{"oauth": refTo(k.ID), "password": nil})
	if err != nil {
		return nil, err
	}
	again, err := login.Register(ctx, registry, a, config)
	if err != nil {
		return nil, err
	}
	d.Note(ctx, k.ID, again)
	k, err = d.update(ctx, name, func(k *kept) bool {
		changed := k.State != Done
		k.State, k.Grant, k.Trouble, k.Pending = Done, nil, "", Pending{}
		return changed
	})
	if errors.Is(err, login.ErrNone) {
		return (&kept{ID: a.ID, State: Done}).login(name), nil // abandoned, or over, and yet registered
	}
	return k.loginOr(name, err)
}
