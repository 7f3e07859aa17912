package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/cmd/rounds/login"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// LoginRequest is an account to be signed in by a scan.
type LoginRequest struct {
	_       struct{}          `additionalProperties:"false"`
	ID      string            `json:"id" strict:"id" minLength:"1" maxLength:"256" doc:"The account to register, or to sign in again."`
	Cadence string            `json:"cadence,omitempty" strict:"cadence" doc:"The cadence of a new account; left out: every 0, because its calls are held."`
	Labels  map[string]string `json:"labels,omitempty" strict:"labels" doc:"The labels of a new account."`
	BaseURL string            `json:"base_url,omitempty" strict:"base_url" doc:"Where signing in begins, if not at WeChat."`
}

// LoginDigits is what the phone shows.
type LoginDigits struct {
	_      struct{} `additionalProperties:"false"`
	Digits string   `json:"digits" strict:"digits" maxLength:"16" pattern:"^[0-9]+$" doc:"As the phone shows them."`
}

// Login is a sign-in under way, or its end.
type Login struct {
	Login   string    `json:"login" doc:"Names the sign-in. It is a secret of the caller that began it."`
	Account string    `json:"account"`
	State   string    `json:"state" enum:"wait,scanned,digits,drawn,expired,bound,confirmed" doc:"wait: nobody has scanned the code yet; scanned: the phone asks to confirm; digits: the phone shows digits to type in; drawn: the code expired and there is another one; expired: the last code expired; bound: the account is already bound to this client; confirmed: the account is registered, and its token stored."`
	Link    string    `json:"link,omitempty" doc:"The text to draw as a QR code; left out once it is over."`
	Drawn   int       `json:"drawn" doc:"How many codes there were; three at most."`
	Wrong   bool      `json:"wrong,omitempty" doc:"The digits that were typed in are wrong."`
	Trouble string    `json:"trouble,omitempty" doc:"Why the last call to the server found nothing, for example because it does not answer. Another call is made."`
	Until   time.Time `json:"until" doc:"When the sign-in ends."`
}

// LoginName is the sign-in in a path. It is exported because huma ignores unexported embedded
// fields.
type LoginName struct {
	Login string `path:"login" maxLength:"128" doc:"The field login of the reply that began it."`
}

// LoginHold is how long a caller waits for the phone.
type LoginHold struct {
	Hold int `query:"hold" minimum:"0" maximum:"45" default:"45" doc:"For how many seconds the reply may wait for the phone. The sign-in goes on in any case, and the next request shows it."`
}

func (h LoginHold) time() time.Duration { return time.Duration(h.Hold) * time.Second }

// loginOperations returns what describes the operations of sign-ins under a path.
func loginOperations(under string) func(id, method, path, summary, description string, status int, errors ...int) huma.Operation {
	return func(id, method, path, summary, description string, status int, errors ...int) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: under + path, Tags: []string{"accounts"}, Summary: summary, Description: description,
			DefaultStatus: status, MaxBodyBytes: 16 << 10, SkipValidateBody: true, Errors: append([]int{401, 422, 503}, errors...),
		}
	}
}

// loginRoutes adds the routes that sign WeChat accounts in, if there is where to do that.
func (s *Server) loginRoutes(api huma.API) {
	if s.logins == nil {
		return
	}
	operation := loginOperations("/v1/weixin/logins")
	answer(s, api, "begin sign-in", operation("begin-weixin-login", http.MethodPost, "", "Sign a WeChat account in by a scan",
		"Draws a code. Nothing is registered before a phone has scanned and confirmed it. An existing account of that id is signed in again, with its id, cursor and history. "+
			"A sign-in ends after a quarter of an hour. Any process of the API may serve any step. 409 if no secret can be stored, an account of another kind has the id, or its secret would take the place of another one, which only an admin may replace; 502 if the server does not draw a code.",
		http.StatusCreated, 409, 502), s.beginLogin)
	answer(s, api, "sign in", operation("follow-weixin-login", http.MethodGet, "/{login}", "Follow a sign-in",
		"Waits up to hold seconds, 45 at most, until the phone has done something. hold=0 replies at once, and asks the server after that. Once the phone has confirmed, this registers the account, with its token as a stored secret that is bound to its server.",
		http.StatusOK, 404, 409, 502), s.followLogin)
	answer(s, api, "type digits", operation("type-weixin-login", http.MethodPost, "/{login}/code", "Type in the digits that the phone shows",
		"Waits as GET does. Wrong digits are asked for again; after too many wrong ones there is another code.", http.StatusOK, 404, 409, 502), s.typeLogin)
	register(s, api, "abandon sign-in", operation("abandon-weixin-login", http.MethodDelete, "/{login}", "Abandon a sign-in",
		"Nothing of it remains. Repeating the request is safe.", http.StatusNoContent), s.abandonLogin)
}

var (
	loginDecoder  = strict.NewDecoder[LoginRequest]("a sign-in")
	digitsDecoder = strict.NewDecoder[LoginDigits]("a code")
	digits        = regexp.MustCompile(`^[0-9]{1,16}$`)
)

// faulted reports whether a field has a fault already.
func faulted(faults strict.Faults, field string) bool {
	return slices.ContainsFunc(faults, func(f strict.Fault) bool { return f.Field == field })
}

func (s *Server) beginLogin(ctx context.Context, in *bodyInput) (Login, error) {
	given, faults := loginDecoder.Decode(strict.OrEmpty(in.RawBody))
	if given.ID == "" && !faulted(faults, "id") {
		faults.Add("id", "missing")
	}
	if err := faults.Err(); err != nil {
		return Login{}, err
	}
	trail.Of(ctx).Account(given.ID)
	if s.sealer() == nil {
		return Login{}, noSealer()
	}
	account := accounts.Account{ID: given.ID, Cadence: cmp.Or(given.Cadence, "every 0"), Labels: given.Labels}
	l, err := s.logins.Begin(ctx, s.registry(ctx), loginBy(ctx), account, given.BaseURL)
	return s.loggedIn(ctx, l, err)
}

// loginBy returns the caller as the one who begins a sign-in.
func loginBy(ctx context.Context) login.By {
	caller, _ := access.From(ctx)
	return login.By{Name: caller.Name, MayReplace: caller.Role.Includes(access.Admin) && !caller.Bound()}
}

func (s *Server) followLogin(ctx context.Context, in *struct {
	LoginName
	LoginHold
}) (Login, error) {
	l, err := s.logins.Follow(ctx, s.registry(ctx), in.Login, in.time())
	return s.loggedIn(ctx, l, err)
}

func (s *Server) typeLogin(ctx context.Context, in *struct {
	LoginName
	LoginHold
	RawBody []byte `contentType:"application/json"`
}) (Login, error) {
	given, faults := digitsDecoder.Decode(strict.OrEmpty(in.RawBody))
	if !faulted(faults, "digits") && !digits.MatchString(given.Digits) {
		faults.Add("digits", "must be 1 to 16 digits, as the phone shows them")
	}
	if err := faults.Err(); err != nil {
		return Login{}, err
	}
	l, err := s.logins.Type(ctx, s.registry(ctx), in.Login, given.Digits, in.time())
	if err == nil {
		trail.Of(ctx).Account(l.Account)
	}
	return s.loggedIn(ctx, l, err)
}

func (s *Server) abandonLogin(ctx context.Context, in *LoginName) (*struct{}, error) {
	return nil, s.logins.Abandon(ctx, in.Login)
}

// loginTrouble returns what the caller may see of an error of a step that nobody waited for.
func (s *Server) loginTrouble(ctx context.Context, err error) string {
	_, err = s.loggedIn(ctx, nil, err)
	return err.Error()
}

// loggedIn returns the reply to a step of a sign-in, or the reply to its error.
func (s *Server) loggedIn(ctx context.Context, l *scan.Login, err error) (Login, error) {
	if err != nil {
		return Login{}, s.loginError(ctx, "signing in at WeChat: ", err)
	}
	return Login{Login: l.Name, Account: l.Account, State: l.State, Link: l.Link, Drawn: l.Drawn, Wrong: l.Wrong, Trouble: l.Trouble, Until: l.Until.UTC()}, nil
}

// loginError returns the reply to an error of a sign-in. where begins what a third party says.
func (s *Server) loginError(ctx context.Context, where string, err error) error {
	var told *login.Error
	var status huma.StatusError
	switch {
	case errors.Is(err, login.ErrNone):
		return huma.Error404NotFound("there is no such sign-in, or it has ended: begin another one")
	case errors.Is(err, login.ErrKind):
		return huma.Error409Conflict("an account of another kind has this id")
	case errors.Is(err, scan.ErrTaken), errors.Is(err, mailbox.ErrTaken):
		return huma.Error409Conflict(err.Error())
	case errors.As(err, &told):
		return huma.Error502BadGateway(where + told.Error())
	case errors.As(err, &status):
		return err
	}
	return s.errorReply(ctx, "sign in", err)
}
