package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/access/origin"
	"github.com/rounds-dev/rounds/accounts/trail"
)

// ErrRefused reports a secret that lets nobody in.
var ErrRefused = errors.New("session: the key or token is not right")

// MaxSecret is how many bytes a secret may have that somebody signs in with.
const MaxSecret = 1024

// TooManyError reports an address whose sign-ins failed too often.
type TooManyError struct{ After time.Duration }

// Error says when to come back.
func (e TooManyError) Error() string {
	return fmt.Sprintf("session: too many sign-ins failed: try again in %v", e.After.Round(time.Second))
}

// Seconds is when to come back, in whole seconds from now.
func (e TooManyError) Seconds() int { return int((e.After + time.Second - 1) / time.Second) }

// Judges know who somebody is. Both return ErrRefused where that is nobody; any other error
// says nothing: it could not be found out.
type Judges interface {
	// Secret says whose a token or a key is.
	Secret(ctx context.Context, secret string) (Holder, access.Principal, error)
	// Holder says who a session's holder is now.
	Holder(ctx context.Context, s Session) (access.Principal, error)
}

// Door is where people sign in and out. All its fields are required.
type Door struct {
	Book     Book
	Judges   Judges
	Attempts *Attempts
	Log      *slog.Logger
}

// SignIn begins a session for who shows a token or a key. It returns origin.ErrForeign,
// TooManyError, ErrRefused or ErrPlain; any other error is one of Redis.
func (d Door) SignIn(w http.ResponseWriter, r *http.Request, secret string) (access.Principal, error) {
	if err := d.Admit(r); err != nil {
		return access.Principal{}, err
	}
	if len(secret) > MaxSecret {
		secret = ""
	}
	holder, who, err := d.Judges.Secret(r.Context(), secret)
	if errors.Is(err, ErrRefused) {
		d.Refuse(r, "the key or token is not right")
	}
	if err != nil {
		return access.Principal{}, err
	}
	return who, d.Begin(w, r, holder, who, secret)
}

// Admit refuses who may not try to sign in: with origin.ErrForeign or TooManyError.
func (d Door) Admit(r *http.Request) error {
	if err := origin.Check(r); err != nil {
		return err
	}
	return d.Wait(r)
}

// Wait refuses whose sign-ins failed too often, with TooManyError.
func (d Door) Wait(r *http.Request) error {
	if wait := d.Attempts.Wait(AddressOf(r), time.Now()); wait > 0 {
		return TooManyError{wait}
	}
	return nil
}

// Refuse counts and logs a sign-in that failed. Why holds nothing that was shown.
func (d Door) Refuse(r *http.Request, why string) {
	d.Attempts.Fail(AddressOf(r), time.Now())
	d.Log.WarnContext(r.Context(), "a sign-in was refused", "address", AddressOf(r), "why", why)
}

// Begin begins a session for who was let in, and logs it.
func (d Door) Begin(w http.ResponseWriter, r *http.Request, h Holder, who access.Principal, secret string) error {
	if err := d.Book.Begin(w, r, h, secret); err != nil {
		return err
	}
	trail.Of(r.Context()).By(who)
	about := []any{"name", who.Name, "via", string(h.Via), "role", who.Role.String(), "address", AddressOf(r)}
	if h.Subject != "" {
		about = append(about, "subject", h.Subject)
	}
	d.Log.InfoContext(r.Context(), "signed in", about...)
	return nil
}

// Who says who a request's session is, and for how long it lasts. It returns what
// [Book.Of] does, and ErrOver where the holder is nobody any more.
func (d Door) Who(r *http.Request) (access.Principal, time.Duration, error) {
	s, err := d.Book.Of(r)
	if err != nil {
		return access.Principal{}, 0, err
	}
	who, err := d.Judges.Holder(r.Context(), s)
	if errors.Is(err, ErrRefused) {
		err = ErrOver
	}
	if err != nil {
		return access.Principal{}, 0, err
	}
	return who, s.Left, nil
}

// SignOut ends the request's sessions; see [Book.End].
func (d Door) SignOut(w http.ResponseWriter, r *http.Request) error {
	if who, _, err := d.Who(r); err == nil {
		trail.Of(r.Context()).By(who)
	}
	return d.Book.End(w, r)
}
