package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// ErrWrong reports a secret that is not valid.
var ErrWrong = errors.New("session: the key or token is wrong")

// maxSecret is the most bytes of a secret that somebody signs in with.
const maxSecret = 1024

// TooManyError reports a secret that is not valid, from an address whose sign-ins failed too
// often before.
type TooManyError struct{ After time.Duration }

// Error says when to try again.
func (e TooManyError) Error() string {
	return fmt.Sprintf("session: too many sign-ins failed: try again in %v", e.After.Round(time.Second))
}

// Seconds returns the wait before the next try, in whole seconds, rounded up.
func (e TooManyError) Seconds() int { return int((e.After + time.Second - 1) / time.Second) }

// Judges decides who somebody is. Both methods return ErrWrong if the secret or the holder
// is not valid. Any other error means that this could not be found out.
type Judges interface {
	// Secret returns the holder of a token or a key.
	Secret(ctx context.Context, secret string) (Holder, access.Principal, error)
	// Holder returns the principal that a session's holder is now.
	Holder(ctx context.Context, s Session) (access.Principal, error)
}

// Door is where people sign in and out. All its fields are required.
type Door struct {
	Book     Book
	Judges   Judges
	Attempts *Attempts
	Log      *slog.Logger
}

// SignIn begins a session for a token or a key. It returns ErrForeign, TooManyError,
// ErrWrong or ErrPlain. Any other error is one of Redis.
//
// A valid secret is admitted whatever failed from its address before, because strangers may share
// the address: behind a proxy, or through a page that makes a person's browser try. So the length
// of secrets, and not the limit of attempts, prevents guessing.
func (d Door) SignIn(w http.ResponseWriter, r *http.Request, secret string) (access.Principal, error) {
	if err := CheckOrigin(r); err != nil {
		return access.Principal{}, err
	}
	if len(secret) > maxSecret {
		secret = "" // refused like any wrong one
	}
	holder, who, err := d.Judges.Secret(r.Context(), secret)
	if errors.Is(err, ErrWrong) {
		if wait := d.Refuse(r, "the key or token is not right"); wait > 0 {
			return access.Principal{}, TooManyError{wait}
		}
	}
	if err != nil {
		return access.Principal{}, err
	}
	return who, d.Begin(w, r, holder, who, secret)
}

// Refuse counts and logs a sign-in that failed. Why must not contain the secret. If too many
// from the request's address failed before, it does neither, and returns how long it takes
// until one more may fail.
func (d Door) Refuse(r *http.Request, why string) time.Duration {
	wait := d.Attempts.Fail(addressOf(r), time.Now())
	if wait == 0 {
		d.Log.WarnContext(r.Context(), "a sign-in was refused", "address", addressOf(r), "why", why)
	}
	return wait
}

// Begin begins a session for a principal that was authenticated, and logs it.
func (d Door) Begin(w http.ResponseWriter, r *http.Request, h Holder, who access.Principal, secret string) error {
	if err := d.Book.Begin(w, r, h, secret); err != nil {
		return err
	}
	trail.Of(r.Context()).By(who)
	about := []any{"name", who.Name, "via", string(h.Via), "role", who.Role.String(), "address", addressOf(r)}
	if h.Subject != "" {
		about = append(about, "subject", h.Subject)
	}
	d.Log.InfoContext(r.Context(), "signed in", about...)
	return nil
}

// Who returns the principal of a request's session, and how long the session still lasts. It
// returns the errors of [Book.Of], and ErrOver if the holder is no longer valid.
func (d Door) Who(r *http.Request) (access.Principal, time.Duration, error) {
	s, err := d.Book.Of(r)
	if err != nil {
		return access.Principal{}, 0, err
	}
	who, err := d.Judges.Holder(r.Context(), s)
	if errors.Is(err, ErrWrong) {
		err = ErrOver
	}
	if err != nil {
		return access.Principal{}, 0, err
	}
	return who, s.Left, nil
}

// SignOut ends the request's sessions; see [Book.End]. It returns the one that counted, or the
// zero Session if there was none.
func (d Door) SignOut(w http.ResponseWriter, r *http.Request) (Session, error) {
	s, err := d.Book.Of(r)
	if err != nil {
		s = Session{}
	} else if who, err := d.Judges.Holder(r.Context(), s); err == nil {
		trail.Of(r.Context()).By(who)
	}
	return s, d.Book.End(w, r)
}
