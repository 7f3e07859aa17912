package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// maxKeyBody is the most bytes of a request that creates a key. It has room for the longest labels,
// even if every character is escaped.
const maxKeyBody = 64 << 10

// KeyRequest describes the key to create.
type KeyRequest struct {
	_         struct{}          `additionalProperties:"false"`
	Name      string            `json:"name" maxLength:"64" example:"press-reader" doc:"Letters, digits, dots, dashes, underscores or @; no other key has it."`
	Role      string            `json:"role" enum:"viewer,sender,operator,editor,admin" doc:"What it may do. viewer: read. sender: also send in the name of accounts. operator: read, pause, resume, nudge, revive and replay. editor: also register, change and delete. admin: everything."`
	Labels    map[string]string `json:"labels,omitempty" doc:"It sees and changes only accounts with all of these; left out: all accounts."`
	ExpiresIn string            `json:"expires_in,omitempty" example:"90d" doc:"How long it is valid, such as 90d or 12h; left out: until it is revoked."`
}

// Key is a key without its text.
type Key struct {
	Name    string            `json:"name"`
	Role    string            `json:"role" doc:"none: a later version made the key, and this version lets it do nothing."`
	Labels  map[string]string `json:"labels,omitempty" doc:"It sees and changes only accounts with all of these; left out: all accounts."`
	Created time.Time         `json:"created,omitzero"`
	By      string            `json:"created_by,omitempty" doc:"The name of the key or person that made it."`
	Expires time.Time         `json:"expires,omitzero" doc:"Left out: never."`
	Expired bool              `json:"expired,omitempty"`
	Used    time.Time         `json:"last_used,omitzero" doc:"To within an hour; left out: never."`
}

// NewKey is a key that was just created, with its text.
type NewKey struct {
	Key
	Text string `json:"key" doc:"The key itself. It is shown only this once, and stored nowhere."`
}

// KeyList is all keys.
type KeyList struct {
	Keys []Key `json:"keys" nullable:"false"`
}

// Caller describes the principal of a request.
type Caller struct {
	Name   string            `json:"name" doc:"The name of the key or the person; token for ROUNDS_API_TOKEN, local if no credential is demanded."`
	Role   string            `json:"role"`
	Labels map[string]string `json:"labels,omitempty" doc:"It sees and changes only accounts with all of these; left out: all accounts."`
	Via    string            `json:"via" enum:"token,key,session,oidc,local" doc:"How it was authenticated."`

	Service *Service `json:"service,omitempty" doc:"The service that answers. Left out for keys that are bound to labels."`
}

// Service distinguishes one service from another.
type Service struct {
	Version string `json:"version" doc:"The program's version."`
	Kept    string `json:"kept_in,omitempty" doc:"The directory or the Redis, without its password, in which everything is stored; memory: nothing is stored."`
}

// String names the service.
func (s *Service) String() string {
	if s.Kept == "" {
		return s.Version
	}
	return s.Version + " (with everything in " + s.Kept + ")"
}

// KeyName is the key in a path.
type KeyName struct {
	Name string `path:"name" maxLength:"128" doc:"The key's name."`
}

// keyRoutes adds the routes of keys and of the caller's rights.
func (s *Server) keyRoutes(api huma.API) {
	answer(s, api, "whoami", huma.Operation{
		OperationID: "whoami", Method: http.MethodGet, Path: "/v1/whoami", Tags: []string{"access"},
		Summary: "Who makes this request, and what it may do",
	}, s.whoami)
	answer(s, api, "list keys", huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: "/v1/keys", Tags: []string{"access"},
		Summary: "List keys", Description: "Including expired ones, until they are revoked or their room is needed.",
	}, s.listKeys)
	answer(s, api, "create key", huma.Operation{
		OperationID: "create-key", Method: http.MethodPost, Path: "/v1/keys", Tags: []string{"access"},
		Summary: "Make a key",
		Description: "Only the reply ever has the key itself: Redis stores its SHA-256. " +
			"409 if another key has the name, or there are 1000 keys. If the reply was lost, revoke the key by its name, and make another.",
		DefaultStatus: http.StatusCreated, MaxBodyBytes: maxKeyBody, Errors: []int{409, 422},
	}, s.createKey)
	register(s, api, "revoke key", huma.Operation{
		OperationID: "revoke-key", Method: http.MethodDelete, Path: "/v1/keys/{name}", Tags: []string{"access"},
		Summary: "Revoke a key", Description: "For good. Within three seconds the key admits nobody, and within ten its running requests end.",
		Errors: []int{404},
	}, s.revokeKey)
}

func (s *Server) whoami(ctx context.Context, _ *struct{}) (Caller, error) {
	p, _ := access.From(ctx) // always there: the mux refuses requests without a principal
	caller := callerOf(p)
	if len(p.Labels) == 0 {
		caller.Service = &Service{Version: s.options.Version}
		if s.options.Data != nil {
			data := s.options.Data(ctx)
			caller.Service.Kept = cmp.Or(data.Dir, data.Store)
			if data.Forgets {
				caller.Service.Kept = "memory"
			}
		}
	}
	return caller, nil
}

func callerOf(p access.Principal) Caller {
	return Caller{Name: p.Name, Role: p.Role.String(), Labels: p.Labels, Via: string(p.Via)}
}

func keyAt(k *key.Key, now time.Time) Key {
	return Key{
		Name: k.Name, Role: k.Role.String(), Labels: k.Labels, Created: inUTC(k.Created), By: k.By,
		Expires: inUTC(k.Expires), Expired: k.Expired(now), Used: inUTC(k.Used),
	}
}

func (s *Server) listKeys(ctx context.Context, _ *struct{}) (KeyList, error) {
	keys, now, err := s.options.Keys.List(ctx)
	return KeyList{each(keys, func(k *key.Key) Key { return keyAt(k, now) })}, err
}

func (s *Server) createKey(ctx context.Context, r *struct{ Body KeyRequest }) (NewKey, error) {
	caller, _ := access.From(ctx)
	trail.Of(ctx).Subject("key", r.Body.Name)
	role, _ := access.ParseRole(r.Body.Role) // Validate reports an unknown role
	n := key.New{Name: r.Body.Name, Role: role, Labels: r.Body.Labels, By: caller.Name}
	var faults accounts.Faults
	if r.Body.ExpiresIn != "" {
		var err error
		if n.Life, err = key.ParseLife(r.Body.ExpiresIn); err != nil {
			faults.Add("expires_in", err.Error())
		}
	}
	var more accounts.Faults
	errors.As(n.Validate(), &more) // Validate returns no other error
	if faults = append(faults, more...); len(faults) > 0 {
		return NewKey{}, faulty(faults)
	}
	text, k, err := s.options.Keys.Create(ctx, n)
	switch {
	case errors.Is(err, key.ErrTaken):
		return NewKey{}, newErrorReply(http.StatusConflict, "another key has this name; revoke it first, or take another name")
	case errors.Is(err, key.ErrFull):
		return NewKey{}, newErrorReply(http.StatusConflict, fmt.Sprintf("there are %d keys, which is the most there may be; revoke one first", key.Most))
	case err != nil:
		return NewKey{}, err
	}
	s.options.Log.InfoContext(ctx, "a key was made", "key", k.Name, "role", k.Role.String(), "labels", k.Labels.String(), "by", caller.Name)
	return NewKey{keyAt(&k, k.Created), text}, nil
}

func (s *Server) revokeKey(ctx context.Context, r *KeyName) (*struct{}, error) {
	k, err := s.options.Keys.Revoke(ctx, r.Name)
	if errors.Is(err, key.ErrNotFound) {
		return nil, newErrorReply(http.StatusNotFound, "no key has this name")
	}
	if err != nil {
		return nil, err
	}
	caller, _ := access.From(ctx)
	s.options.Log.InfoContext(ctx, "a key was revoked", "key", k.Name, "role", k.Role.String(), "by", caller.Name)
	return nil, nil
}
