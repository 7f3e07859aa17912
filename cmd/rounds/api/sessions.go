package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/signin"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// SignedIn is a session: somebody is signed in.
type SignedIn struct {
	ID      string    `json:"id" doc:"Names the session. Nobody gets in with it."`
	Name    string    `json:"name" doc:"The name of the key or the person; token for ROUNDS_API_TOKEN."`
	Via     string    `json:"via" enum:"token,key,oidc" doc:"With what the person signed in."`
	Host    string    `json:"host,omitempty" doc:"The name of the service at which it was begun."`
	Since   time.Time `json:"since" doc:"When it was begun."`
	Expires time.Time `json:"expires" doc:"When it ends at the latest."`
}

// SessionList is who is signed in.
type SessionList struct {
	Sessions []SignedIn `json:"sessions" nullable:"false" doc:"The latest first, at most 500."`
	Count    int        `json:"count" doc:"How many there are in all."`
}

// SessionID is the session in a path.
type SessionID struct {
	Session string `path:"session" maxLength:"64" doc:"The session's id."`
}

// sessionRoutes adds the routes of all people's sessions.
func (s *Server) sessionRoutes(api huma.API) {
	answer(s, api, "list sessions", huma.Operation{
		OperationID: "list-sessions", Method: http.MethodGet, Path: "/v1/sessions", Tags: []string{"access"},
		Summary: "Who is signed in", Description: "The sessions that have not ended, of all processes. One whose key was revoked is listed until it ends, and lets nobody in.",
		Errors: []int{401, 503},
	}, s.listSessions)
	register(s, api, "end session", huma.Operation{
		OperationID: "end-session", Method: http.MethodDelete, Path: "/v1/sessions/{session}", Tags: []string{"access"},
		Summary: "Sign somebody out", Description: "Ends the session for all processes. Its next request is refused, and running ones end within ten seconds. The person may sign in again: to prevent that, revoke the key.",
		Errors: []int{401, 404, 503},
	}, s.endSession)
}

func (s *Server) listSessions(ctx context.Context, _ *struct{}) (SessionList, error) {
	all, count, err := signin.In(s.options.Ring).All(ctx)
	return SessionList{each(all, func(k *signin.Known) SignedIn {
		return SignedIn{k.ID, k.Holder.Name, string(k.Holder.Via), k.Host, inUTC(k.Since), inUTC(k.Ends)}
	}), count}, err
}

func (s *Server) endSession(ctx context.Context, r *SessionID) (*struct{}, error) {
	// The id is short in the trail, as people compare it with a list.
	trail.Of(ctx).Subject("session", r.Session[:min(len(r.Session), 12)])
	there, err := signin.In(s.options.Ring).EndOf(ctx, r.Session)
	if err == nil && !there {
		return nil, newErrorReply(http.StatusNotFound, "no session has this id, or it has ended")
	}
	if err == nil {
		caller, _ := access.From(ctx)
		s.options.Log.InfoContext(ctx, "a session was ended", "by", caller.Name)
	}
	return nil, err
}
