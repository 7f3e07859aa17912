package scan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/cmd/rounds/login"
)

// MaxHold is the longest that Follow and Type wait for the phone.
const MaxHold = 45 * time.Second

// Look returns a sign-in as it is, or login.ErrNone.
func (d *Desk) Look(ctx context.Context, name string) (*Login, error) {
	k, err := d.get(ctx, name)
	if err != nil {
		return nil, err
	}
	return k.login(name), nil
}

// Follow asks the server what became of the code, and acts on it. The server holds the call until
// something happens. Follow waits for that, but at most for hold. It then returns the sign-in as it
// is, and the call goes on in the background, so that the next look sees its result. While digits
// are asked for, it returns at once.
func (d *Desk) Follow(ctx context.Context, registry *accounts.Registry, name string, hold time.Duration) (*Login, error) {
	return d.await(ctx, registry, name, "", hold)
}

// Type passes on the digits that the phone shows, and waits as Follow does. If they are wrong, the
// sign-in asks for them again, or draws another code.
func (d *Desk) Type(ctx context.Context, registry *accounts.Registry, name, digits string, hold time.Duration) (*Login, error) {
	if digits == "" || len(digits) > maxDigits || strings.Trim(digits, "0123456789") != "" {
		return nil, accounts.Faults{{Field: "digits", Reason: ErrDigits.Error()}}
	}
	return d.await(ctx, registry, name, digits, hold)
}

// Abandon ends a sign-in. Nothing of it remains, whatever the phone does later.
func (d *Desk) Abandon(ctx context.Context, name string) error { return d.book().End(ctx, name) }

// over reports whether nothing more happens, unless digits are typed in.
func (k *kept) over(digits string) bool {
	return k.State == Done || k.State == Expired || k.State == Bound || k.State == Digits && digits == "" && k.Token == ""
}

// step makes one call and acts on its result. It stores the result, or why there was none.
func (d *Desk) step(ctx context.Context, registry *accounts.Registry, name, digits string) (*Login, error) {
	k, err := d.get(ctx, name)
	if err != nil {
		return nil, err
	}
	if k.over(digits) {
		return k.login(name), nil
	}
	l, err := d.goOn(ctx, registry, name, k, digits)
	if err == nil || errors.Is(err, login.ErrNone) || ctx.Err() != nil {
		return l, err
	}
	text := d.tell(ctx, err)
	text = strings.ToValidUTF8(text[:min(len(text), maxTrouble)], "")
	if now, failed := d.get(ctx, name); failed == nil && now.Trouble != text {
		now.Trouble = text
		_ = d.replace(ctx, name, now) // the waiting caller gets the result in any case
	}
	return nil, err
}

// goOn goes on with a sign-in that is not over.
func (d *Desk) goOn(ctx context.Context, registry *accounts.Registry, name string, k *kept, digits string) (*Login, error) {
	if k.Token != "" { // a process died after the confirmation
		return d.finish(ctx, registry, name, k)
	}
	told, err := d.Server.Ask(ctx, k.Base, k.QRCode, digits)
	if err != nil {
		return nil, err
	}
	k.Tried, k.Trouble = k.Tried || digits != "", ""
	if err := d.obey(ctx, k, told); err != nil {
		return nil, err
	}
	// The phone may have confirmed although nobody waits any more.
	ctx = context.WithoutCancel(ctx)
	if k, err = d.storeResult(ctx, name, k); err != nil {
		return nil, err
	}
	if k.Token != "" {
		return d.finish(ctx, registry, name, k)
	}
	return k.login(name), nil
}

// storeResult stores the result of a call, unless another process was faster. A token is never given up
// for another process's result, because the server gives it only once. But an abandoned sign-in
// stays abandoned.
func (d *Desk) storeResult(ctx context.Context, name string, k *kept) (*kept, error) {
	for range 5 {
		err := d.replace(ctx, name, k)
		if !errors.Is(err, document.ErrChanged) {
			return k, err
		}
		now, err := d.get(ctx, name)
		if err != nil {
			return nil, err
		}
		if k.Token == "" || now.State == Done {
			return now, nil
		}
		now.confirmed(k.Token, k.Base)
		k = now
	}
	return nil, errors.New("the sign-in changes all the time")
}

// confirmed stores a token. The code is useless now, and makes room.
func (k *kept) confirmed(token, base string) {
	k.Token, k.Base, k.QRCode, k.Link, k.Trouble = token, base, "", "", ""
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
		k.confirmed(told.Token, told.Base)
	case "expired", "verify_code_blocked":
		return d.draw(ctx, k)
	default:
		return errors.New("the server has a status that this version does not know")
	}
	return nil
}

// draw replaces a useless code, a few times.
func (d *Desk) draw(ctx context.Context, k *kept) error {
	k.Tried = false
	if k.Drawn >= MaxDrawn {
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

// finish stores the token and registers the account, or puts an existing one back into circulation.
// Each part may be repeated, even by another process at the same time.
func (d *Desk) finish(ctx context.Context, registry *accounts.Registry, name string, k *kept) (*Login, error) {
	if k.State == Done {
		return k.login(name), nil
	}
	if !k.Free {
		// Once free is stored, a stored secret may be this sign-in's own.
		err := d.checkFree(ctx, registry, k)
		switch {
		case errors.Is(err, ErrTaken):
			k.Token, k.State = "", Expired
		case err != nil:
			return nil, err
		default:
			k.Free = true
		}
		if changed := d.replace(ctx, name, k); changed != nil {
			now, failed := d.get(ctx, name)
			if failed != nil || !now.Free {
				return nil, cmp.Or(err, changed)
			}
			return d.finish(ctx, registry, name, now) // another process was faster
		}
		if err != nil {
			return nil, err
		}
	}
	if err := d.Keep(ctx, SecretOf(k.ID), k.Base, k.Token); err != nil {
		return nil, err
	}
	var a accounts.Account
	if err := json.Unmarshal(k.Record, &a); err != nil {
		return nil, err
	}
	a.Kind, a.Config = d.Server.Kind, d.config(k.ID, k.Base)
	again, err := login.Register(ctx, registry, a, a.Config)
	if err != nil {
		return nil, err
	}
	d.Note(ctx, k.ID, again)
	k.State, k.Token, k.Trouble = Done, "", ""
	if err := d.replace(ctx, name, k); err != nil && !errors.Is(err, document.ErrChanged) && !errors.Is(err, login.ErrNone) {
		return nil, err
	}
	return k.login(name), nil
}
