package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// MailLoginRequest is a mailbox to be signed in at a provider.
type MailLoginRequest struct {
	_        struct{}          `additionalProperties:"false"`
	ID       string            `json:"id" strict:"id" minLength:"1" maxLength:"256" doc:"The account to register, or to sign in again."`
	Kind     string            `json:"kind,omitempty" strict:"kind" enum:"imap,graph" doc:"The kind of a new account: imap, which is meant if it is left out, or graph, for Microsoft Graph."`
	Provider string            `json:"provider" strict:"provider" doc:"google, microsoft, or the URL of an OpenID Connect issuer."`
	User     string            `json:"user,omitempty" strict:"user" doc:"The user of a new account, mostly the mail address. One of kind graph has none, and it is only a hint for the provider's page."`
	Host     string            `json:"host,omitempty" strict:"host" doc:"The IMAP server of a new account; left out: Google's or Microsoft's."`
	Redirect string            `json:"redirect_uri,omitempty" strict:"redirect_uri" doc:"Where the provider sends the browser back to: https, or an http address of the browser's own machine. Needed if the provider has no device codes; Google has none for mail."`
	Cadence  string            `json:"cadence,omitempty" strict:"cadence" doc:"The cadence of a new account; left out: every 0, because a mailbox is held in IDLE, or every 60s of kind graph."`
	Labels   map[string]string `json:"labels,omitempty" strict:"labels" doc:"The labels of a new account."`
}

// MailLoginCode is what the browser brings back from the provider.
type MailLoginCode struct {
	_      struct{} `additionalProperties:"false"`
	Code   string   `json:"code,omitempty" strict:"code" maxLength:"4096" doc:"The parameter code of the address; left out: the provider sent none, because it or the person refused."`
	State  string   `json:"state" strict:"state" maxLength:"256" doc:"The parameter state of the address."`
	Issuer string   `json:"iss,omitempty" strict:"iss" maxLength:"1024" doc:"The parameter iss of the address, if it has one."`
}

// MailLogin is a sign-in of a mailbox under way, or its end.
type MailLogin struct {
	Login    string    `json:"login" doc:"Names the sign-in. It is a secret of the caller that began it."`
	Account  string    `json:"account"`
	State    string    `json:"state" enum:"wait,refused,confirmed" doc:"wait: nobody has consented yet; refused: the provider or the person refused; confirmed: the account is registered, and its refresh token stored."`
	Page     string    `json:"page,omitempty" doc:"The page of the provider to open in a browser; left out once it is over."`
	UserCode string    `json:"user_code,omitempty" doc:"The code to type in at the page, on any device. Left out: the page sends the browser back to redirect_uri."`
	Trouble  string    `json:"trouble,omitempty" doc:"Why the last call to the provider found nothing, for example because it does not answer. Another call is made."`
	Until    time.Time `json:"until" doc:"When the sign-in ends."`
}

// mailLoginRoutes adds the routes that sign mailboxes in, if there is where to do that.
func (s *Server) mailLoginRoutes(api huma.API) {
	if s.mailboxes == nil {
		return
	}
	operation := loginOperations("/v1/mail/logins")
	answer(s, api, "begin sign-in", operation("begin-mail-login", http.MethodPost, "", "Sign a mailbox in at its provider",
		"Returns the page where a person consents. Nothing is registered before that. An existing account of that id is signed in again, with its id, cursor and history, and without its password. "+
			"A sign-in ends after a quarter of an hour. Any process of the API may serve any step. 409 if no secret can be stored, an account of another kind has the id, or its secret would take the place of another one, which only an admin may replace; 502 if the provider does not answer as it should.",
		http.StatusCreated, 409, 502), s.beginMailLogin)
	answer(s, api, "sign in", operation("follow-mail-login", http.MethodGet, "/{login}", "Follow the sign-in of a mailbox",
		"Waits up to hold seconds, 45 at most, until the sign-in is over. With a device code it asks the provider as often as that allows. Once the person has consented, this registers the account, with its refresh token as a stored secret that is bound to the provider and the mail servers.",
		http.StatusOK, 404, 409, 502), s.followMailLogin)
	answer(s, api, "complete sign-in", operation("complete-mail-login", http.MethodPost, "/{login}/code", "Pass on what the browser brings back",
		"For sign-ins without a device code: the parameters with which the provider sent the browser to redirect_uri.", http.StatusOK, 404, 409, 502), s.completeMailLogin)
	register(s, api, "abandon sign-in", operation("abandon-mail-login", http.MethodDelete, "/{login}", "Abandon the sign-in of a mailbox",
		"Nothing of it remains. Repeating the request is safe.", http.StatusNoContent), s.abandonMailLogin)
}

var (
	mailLoginDecoder = strict.NewDecoder[MailLoginRequest]("a sign-in")
	mailCodeDecoder  = strict.NewDecoder[MailLoginCode]("a code")
)

func (s *Server) beginMailLogin(ctx context.Context, in *bodyInput) (MailLogin, error) {
	given, faults := mailLoginDecoder.Decode(strict.OrEmpty(in.RawBody))
	for _, f := range [][2]string{{"id", given.ID}, {"provider", given.Provider}} {
		if f[1] == "" && !faulted(faults, f[0]) {
			faults.Add(f[0], "missing")
		}
	}
	if err := faults.Err(); err != nil {
		return MailLogin{}, err
	}
	trail.Of(ctx).Account(given.ID)
	if s.sealer() == nil {
		return MailLogin{}, noSealer()
	}
	l, err := s.mailboxes.Begin(ctx, s.registry(ctx), loginBy(ctx), mailbox.Request{
		Account:  accounts.Account{ID: given.ID, Kind: given.Kind, Cadence: given.Cadence, Labels: given.Labels},
		Provider: given.Provider, User: given.User, Host: given.Host, Redirect: given.Redirect,
	})
	return s.mailLoggedIn(ctx, l, err)
}

func (s *Server) followMailLogin(ctx context.Context, in *struct {
	LoginName
	LoginHold
}) (MailLogin, error) {
	l, err := s.mailboxes.Follow(ctx, s.registry(ctx), in.Login, in.time())
	return s.mailLoggedIn(ctx, l, err)
}

func (s *Server) completeMailLogin(ctx context.Context, in *struct {
	LoginName
	RawBody []byte `contentType:"application/json"`
}) (MailLogin, error) {
	given, faults := mailCodeDecoder.Decode(strict.OrEmpty(in.RawBody))
	if given.State == "" && !faulted(faults, "state") {
		faults.Add("state", "missing")
	}
	if err := faults.Err(); err != nil {
		return MailLogin{}, err
	}
	l, err := s.mailboxes.Complete(ctx, s.registry(ctx), in.Login, given.State, given.Code, given.Issuer)
	if err == nil {
		trail.Of(ctx).Account(l.Account)
	}
	return s.mailLoggedIn(ctx, l, err)
}

func (s *Server) abandonMailLogin(ctx context.Context, in *LoginName) (*struct{}, error) {
	return nil, s.mailboxes.Abandon(ctx, in.Login)
}

// atProvider begins what a provider says.
const atProvider = "signing in at the provider: "

// mailLoggedIn returns the reply to a step of a sign-in, or the reply to its error.
func (s *Server) mailLoggedIn(ctx context.Context, l *mailbox.Login, err error) (MailLogin, error) {
	if err != nil {
		return MailLogin{}, s.loginError(ctx, atProvider, err)
	}
	return MailLogin{Login: l.Name, Account: l.Account, State: l.State, Page: l.Page, UserCode: l.UserCode, Trouble: l.Trouble, Until: l.Until.UTC()}, nil
}
