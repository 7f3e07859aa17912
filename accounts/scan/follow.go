package scan

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/rounds-dev/rounds/accounts"
)

// Look returns a sign-in as it is, or ErrNone.
func (d *Desk) Look(ctx context.Context, name string) (*Login, error) {
	k, err := d.get(ctx, name)
	if err != nil {
		return nil, err
	}
	return k.login(name), nil
}

// Follow asks the server what became of the code, and does what follows. The server holds the
// call until something happens. While digits are asked for it returns at once.
func (d *Desk) Follow(ctx context.Context, registry *accounts.Registry, name string) (*Login, error) {
	return d.step(ctx, registry, name, "")
}

// Type passes on the digits that the phone shows. If they are wrong, the sign-in asks for them
// again, or draws another code.
func (d *Desk) Type(ctx context.Context, registry *accounts.Registry, name, digits string) (*Login, error) {
	if digits == "" || len(digits) > maxDigits || strings.Trim(digits, "0123456789") != "" {
		return nil, accounts.Faults{{Field: "digits", Reason: ErrDigits.Error()}}
	}
	return d.step(ctx, registry, name, digits)
}

// Abandon ends a sign-in. Nothing of it is left.
func (d *Desk) Abandon(ctx context.Context, name string) error { return d.store().End(ctx, name) }

func (d *Desk) step(ctx context.Context, registry *accounts.Registry, name, digits string) (*Login, error) {
	k, err := d.get(ctx, name)
	if err != nil {
		return nil, err
	}
	switch {
	case k.State == Done || k.State == Expired || k.State == Bound || k.State == Digits && digits == "":
		return k.login(name), nil
	case k.Token != "": // a process died behind the confirmation
		return d.finish(ctx, registry, name, k)
	}
	told, err := d.Server.Ask(ctx, k.Base, k.QRCode, digits)
	if err != nil {
		return nil, err
	}
	k.Tried = k.Tried || digits != ""
	if err := d.obey(ctx, k, told); err != nil {
		return nil, err
	}
	// The phone may have confirmed for somebody who does not wait any more.
	ctx = context.WithoutCancel(ctx)
	if err := d.put(ctx, name, k); err != nil {
		return nil, err
	}
	if k.Token != "" {
		return d.finish(ctx, registry, name, k)
	}
	return k.login(name), nil
}

// obey changes a sign-in as the server says.
func (d *Desk) obey(ctx context.Context, k *kept, told Told) error {
	switch told.Status {
	case "wait":
		if k.State != Scanned {
			k.State = Waiting
		}
	case "scaned":
		k.State, k.Tried = Scanned, false
	case "need_verifycode":
		k.State = Digits
	case "scaned_but_redirect":
		k.State, k.Base = Scanned, told.Base
	case "binded_redirect":
		k.State = Bound
	case "confirmed":
		k.Token, k.Base = told.Token, told.Base
	case "expired", "verify_code_blocked":
		return d.draw(ctx, k)
	default:
		return errors.New("the server has a status that this version does not know")
	}
	return nil
}

// draw replaces a code that is of no more use, a few times.
func (d *Desk) draw(ctx context.Context, k *kept) error {
	k.Tried = false
	if k.Drawn >= maxDrawn {
		k.State = Expired
		return nil
	}
	code, err := d.Server.NewCode(ctx, k.Origin)
	if err != nil {
		return err
	}
	k.QRCode, k.Link, k.Base, k.State, k.Drawn = code.QRCode, code.Link, k.Origin, Again, k.Drawn+1
	return nil
}

// finish stores the token and registers the account, or brings it back if it is there. Each
// part may be repeated.
func (d *Desk) finish(ctx context.Context, registry *accounts.Registry, name string, k *kept) (*Login, error) {
	if err := d.Keep(ctx, SecretOf(k.ID), k.Base, k.Token); err != nil {
		return nil, err
	}
	var a accounts.Account
	if err := json.Unmarshal(k.Record, &a); err != nil {
		return nil, err
	}
	a.Kind, a.Config = d.Server.Kind, d.config(k.ID, k.Base)
	again, err := d.register(ctx, registry, a)
	if err != nil {
		return nil, err
	}
	d.Note(ctx, k.ID, again)
	k.State, k.Token, k.QRCode, k.Link = Done, "", "", ""
	if err := d.put(ctx, name, k); err != nil {
		return nil, err
	}
	return k.login(name), nil
}

// register registers an account, or changes the config of one that is there and brings it
// back. It keeps its id, cursor and history then.
func (d *Desk) register(ctx context.Context, registry *accounts.Registry, a accounts.Account) (again bool, err error) {
	if _, err = registry.Create(ctx, a); !errors.Is(err, accounts.ErrExists) {
		return false, err
	}
	there, err := registry.Get(ctx, a.ID)
	if err != nil {
		return true, err
	}
	if there.Kind != a.Kind {
		return true, ErrKind
	}
	patch, err := json.Marshal(map[string]json.RawMessage{"config": a.Config})
	if err != nil {
		return true, err
	}
	if _, _, err = registry.Patch(ctx, a.ID, patch, accounts.Match{}); err != nil {
		return true, err
	}
	_, err = registry.Resume(ctx, a.ID)
	return true, err
}
