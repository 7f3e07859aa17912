package api

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/signin"
)

// Session describes the caller and, if the request has a session, when the session ends.
type Session struct {
	Caller
	Expires time.Time `json:"expires,omitzero" doc:"When the session ends at the latest. Left out if the request has none."`
}

// judges implements signin.Judges with the server's keys, the current terms and the
// identity provider.
type judges struct {
	*Server
	terms terms
}

// Secret returns the holder of a token or a key. It implements signin.Judges.
func (j judges) Secret(ctx context.Context, secret string) (signin.Holder, access.Principal, error) {
	if sameSecret(secret, j.terms.token) {
		return signin.Holder{Via: access.ViaToken, Name: access.TokenName}, access.Token(), nil
	}
	if !key.Looks(secret) {
		return signin.Holder{}, access.Principal{}, signin.ErrWrong
	}
	k, err := j.options.Keys.Authenticate(ctx, secret)
	if err != nil {
		return signin.Holder{}, access.Principal{}, refusedKey(err)
	}
	return signin.Holder{Via: access.ViaKey, Name: k.Name, Key: k.Digest}, k.Principal(), nil
}

// Holder returns the principal of a session. It implements signin.Judges.
func (j judges) Holder(ctx context.Context, s signin.Session) (access.Principal, error) {
	var who access.Principal
	switch s.Via {
	case access.ViaToken:
		if !s.Began(j.terms.token) {
			return who, signin.ErrWrong
		}
		who = access.Token()
		who.Via = access.ViaSession
	case access.ViaKey:
		k, err := j.options.Keys.Find(ctx, s.Key)
		if err != nil {
			return who, refusedKey(err)
		}
		who = k.Principal()
		who.Via = access.ViaSession
	case access.ViaOIDC:
		if j.options.People == nil {
			return who, signin.ErrWrong
		}
		return j.options.People.Principal(s.Holder)
	default:
		return who, signin.ErrWrong
	}
	return who, nil
}

// refusedKey returns signin.ErrWrong if the error means that a key is not valid. It
// returns any other error unchanged.
func refusedKey(err error) error {
	if errors.Is(err, key.ErrMistyped) || errors.Is(err, key.ErrUnknown) || errors.Is(err, key.ErrExpired) {
		return signin.ErrWrong
	}
	return err
}

// door returns the door at which people sign in under these terms.
func (s *Server) door(t terms) signin.Door {
	return signin.Door{Book: signin.In(s.options.Ring), Judges: judges{s, t}, Attempts: &s.attempts, Log: s.options.Log}
}

// bySession returns the way that authenticates requests with a session's cookie. It ignores
// the cookie of a request that has an Authorization header too.
func (s *Server) bySession(t terms) way {
	door := s.door(t)
	return func(r *http.Request) (access.Principal, error) {
		if r.Header.Get("Authorization") != "" {
			return access.Principal{}, errNobody
		}
		who, _, err := door.Who(r)
		switch {
		case errors.Is(err, signin.ErrNone):
			return access.Principal{}, errNobody
		case errors.Is(err, signin.ErrOver) && s.closedTo(t):
			return access.Principal{}, refusal("the session has ended: sign in again, at " + signin.Path)
		case errors.Is(err, signin.ErrOver):
			return access.Principal{}, errNobody // the caller gets in without a session
		}
		return who, err
	}
}

// addSessions adds the routes of sessions and the pages where people sign in. The routes in
// open need no authentication, because people authenticate themselves there.
func (s *Server) addSessions(open, closed *routeMux, t terms) error {
	door := s.door(t)
	options := signin.Options{Door: door, People: s.options.People, At: s.options.PeopleAt, Unneeded: !s.closedTo(t), Log: s.options.Log}
	if s.options.Pages != nil {
		options.Home = "/"
	}
	pages, err := signin.NewPages(options)
	if err != nil {
		return err
	}
	add := func(pattern string, handler func(http.ResponseWriter, *http.Request)) {
		if s.closedTo(t) {
			open.HandleFunc(pattern, handler)
			return
		}
		open.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !signin.Loopback(r.Host) {
				elsewhere("set ROUNDS_API_TOKEN to use another name").write(w, r)
				return
			}
			handler(w, r)
		})
	}
	pages.Each(add)
	closed.HandleFunc("GET /v1/session", func(w http.ResponseWriter, r *http.Request) {
		who, _ := access.From(r.Context()) // always there: the mux refuses requests without a principal
		reply := Session{Caller: callerOf(who)}
		if who.Via == access.ViaSession || who.Via == access.ViaOIDC {
			if _, left, err := door.Who(r); err == nil {
				reply.Expires = time.Now().Add(left).UTC().Truncate(time.Second)
			}
		}
		writeJSON(w, reply)
	})
	add("POST /v1/session", func(w http.ResponseWriter, r *http.Request) {
		given, ok := bearer(r)
		if !ok && !s.closedTo(t) {
			newErrorReply(http.StatusConflict, "nobody needs to sign in here: the service answers this machine alone. To sign in with a key send Authorization: Bearer KEY").write(w, r)
			return
		}
		who, err := door.SignIn(w, r, given)
		if err != nil {
			s.signInReply(r, err).write(w, r)
			return
		}
		who.Via = access.ViaSession
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		writeJSON(w, Session{Caller: callerOf(who), Expires: time.Now().Add(signin.Life).UTC().Truncate(time.Second)})
	})
	add("DELETE /v1/session", func(w http.ResponseWriter, r *http.Request) {
		if _, err := door.SignOut(w, r); err != nil {
			s.signInReply(r, err).write(w, r)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return nil
}

// signInReply returns the reply for an error of signing in or out.
func (s *Server) signInReply(r *http.Request, err error) *errorReply {
	var tooMany signin.TooManyError
	switch {
	case errors.Is(err, signin.ErrWrong):
		return unauthorized("to sign in send Authorization: Bearer TOKEN, with the token of ROUNDS_API_TOKEN or a valid key")
	case errors.Is(err, signin.ErrForeign):
		return foreign()
	case errors.Is(err, signin.ErrPlain):
		return newErrorReply(http.StatusForbidden, "a browser stores the session only if it reaches the service by https, or at localhost")
	case errors.As(err, &tooMany):
		p := newErrorReply(http.StatusTooManyRequests, "the key or token is not right, and too many sign-ins from this address failed before")
		p.headers = http.Header{"Retry-After": {strconv.Itoa(tooMany.Seconds())}}
		return p
	}
	return s.errorReply(r.Context(), "sign in or out", err)
}

// foreign returns the reply to a request that a page of another site made.
func foreign() *errorReply {
	return newErrorReply(http.StatusForbidden, "the request comes from a page of another site")
}

// elsewhere returns the reply to a request that does not name this machine, while no
// token is set. Without a token, only the name shows that the caller is local.
func elsewhere(cure string) *errorReply {
	return newErrorReply(http.StatusForbidden, "without a token only requests to localhost or a loopback address are answered: "+cure)
}

// sessionOperations returns the descriptions of the session's routes.
func (d describer) sessionOperations() []*huma.Operation {
	describe := func(method, id, summary, about string, problems ...int) *huma.Operation {
		return d.problems(&huma.Operation{
			OperationID: id, Method: method, Path: "/v1/session", Tags: []string{"access"}, Summary: summary, Description: about,
			Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"application/json": d.media(reflect.TypeFor[Session]())}}},
		}, problems...)
	}
	signIn := describe(http.MethodPost, "sign-in", "Sign in with the token or a key",
		"The reply sets a cookie, HttpOnly and SameSite=Strict, that identifies the caller for twelve hours, until sign-out, or until the key is revoked: off loopback only over https, and only at the host where it was set. "+
			"After ten failed sign-ins at once, an address gets 429 for further ones; a valid key or token is admitted at any time.", 401, 403, 409, 429, 503)
	signIn.Responses["201"] = signIn.Responses["200"]
	delete(signIn.Responses, "200")
	signOut := describe(http.MethodDelete, "sign-out", "Sign out", "Ends the session of the request's cookie for all processes, if there is one.", 403, 503)
	signOut.Security = []map[string][]string{{}} // needs no authentication: without a session there is nothing to end
	signOut.Responses["204"] = &huma.Response{Description: "Nobody is signed in."}
	delete(signOut.Responses, "200")
	who := describe(http.MethodGet, "get-session", "Who is signed in", "Or who makes the request with the token or a key; expires is then left out.")
	return []*huma.Operation{signIn, who, signOut}
}
