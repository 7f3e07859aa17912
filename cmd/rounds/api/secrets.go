package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// maxSecretBody is the most bytes of a request that stores a secret. It has room for the longest
// value, even if every byte is escaped, and its binding.
const maxSecretBody = 6*secret.MaxValue + 64<<10

// SecretRequest is a secret to store, and where it may go.
type SecretRequest struct {
	_     struct{} `additionalProperties:"false"`
	Value string   `json:"value" doc:"1 to 65536 bytes. It is sealed at once, and never shown again. One newline at its end is not part of it."`
	Hosts []string `json:"hosts,omitempty" example:"[\"api.example.com\",\"*.weixin.qq.com\"]" doc:"Names and addresses to which it may go, each optionally with :PORT; *.example.com is every name below example.com. Left out: it is bound to none."`
	Kinds []string `json:"kinds,omitempty" example:"[\"http\"]" doc:"Kinds of accounts that may use it; left out: all."`
}

// Secret describes a stored secret, without its value.
type Secret struct {
	Name     string    `json:"name"`
	Hosts    []string  `json:"hosts,omitempty" doc:"Where it may go; left out: it is bound to no hosts."`
	Kinds    []string  `json:"kinds,omitempty" doc:"Kinds of accounts that may use it; left out: all."`
	Set      time.Time `json:"set,omitzero" doc:"When it was stored."`
	By       string    `json:"set_by,omitempty" doc:"The name of the key or person that stored it."`
	Revision int64     `json:"revision,omitempty" doc:"It differs after each change."`
	Key      string    `json:"key,omitempty" doc:"The id of the key for which it is sealed; left out if the stored record cannot be read."`

	Accounts *int `json:"accounts,omitempty" doc:"With uses: how many accounts refer to it, or at least so many; see uses_complete. Left out for secrets of the service."`
}

// SecretList is a page of secrets.
type SecretList struct {
	Secrets []Secret `json:"secrets" nullable:"false"`
	Key     string   `json:"key,omitempty" doc:"The id of the key for which the API seals now; left out if it has none."`
	Next    string   `json:"next,omitempty" doc:"The cursor of the next page; left out on the last one."`

	UsesComplete bool `json:"uses_complete,omitempty" doc:"With uses: all accounts were looked at. Otherwise there may be more than were counted."`
}

type secretReply struct {
	Status int
	Body   Secret
}

// SecretName is the secret in a path.
type SecretName struct {
	Name string `path:"name" maxLength:"128" doc:"1 to 64 letters, digits, underscores and dashes, preceded by service. for a secret that webhooks refer to."`
}

type putSecretRequest struct {
	SecretName
	Body SecretRequest
}

// secretRoutes adds the routes of stored secrets. They write values and never read them.
func (s *Server) secretRoutes(api huma.API) {
	answer(s, api, "list secrets", huma.Operation{
		OperationID: "list-secrets", Method: http.MethodGet, Path: "/v1/secrets", Tags: []string{"access"},
		Summary: "List stored secrets", Description: "Their names and bindings, in the order of names. Nobody gets the values: the API cannot open them.",
		Errors: []int{422},
	}, s.listSecrets)
	register(s, api, "put secret", huma.Operation{
		OperationID: "put-secret", Method: http.MethodPut, Path: "/v1/secrets/{name}", Tags: []string{"access"},
		Summary: "Store a secret",
		Description: "201 if it is new, 200 if one was replaced: value and binding change together, and take effect with the next check, within three seconds. It is sealed for the pollers' key, with its name and " +
			"binding. A file or a variable of the same name has precedence. 409 if the process has no key to seal with, or if 10000 secrets or 64 MiB are stored. Repeating the request is safe.",
		MaxBodyBytes: maxSecretBody, Errors: []int{409, 422},
	}, s.putSecret)
	register(s, api, "delete secret", huma.Operation{
		OperationID: "delete-secret", Method: http.MethodDelete, Path: "/v1/secrets/{name}", Tags: []string{"access"},
		Summary: "Delete a stored secret", Description: "For good. Checks that need it fail, within three seconds, and count against no account.",
		Errors: []int{404, 422},
	}, s.deleteSecret)
}

func secretOf(stored *secret.Stored) Secret {
	return Secret{
		Name: stored.Name, Hosts: stored.Hosts, Kinds: stored.Kinds, Set: inUTC(stored.Set), By: stored.By, Revision: stored.Revision, Key: stored.Key,
	}
}

// sealer returns the public key that seals secrets, or nil if none is set.
func (s *Server) sealer() *secret.PublicKey {
	if s.options.Seal == nil {
		return nil
	}
	return s.options.Seal()
}

// noSealer is the reply if a key is needed and none is set.
func noSealer() *errorReply {
	return newErrorReply(http.StatusConflict, "the service has no key to seal secrets with: start `rounds serve` with ROUNDS_SECRETS_KEY=… (from `rounds secret keygen`), or with ROUNDS_SECRETS_PUBLIC_KEY=… where pollers are processes of their own")
}

func (s *Server) listSecrets(ctx context.Context, r *struct {
	Cursor string `query:"cursor" maxLength:"128" doc:"The previous page's next."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"100" doc:"At most this many."`
	Uses   bool   `query:"uses" doc:"Counts the accounts that refer to each, for at most half a second or so. The parameter secret of GET /v1/accounts lists them."`
}) (SecretList, error) {
	page, next, err := secret.Of(s.options.Ring).Page(ctx, r.Cursor, r.Limit)
	list := SecretList{Secrets: each(page, secretOf), Next: next}
	if k := s.sealer(); k != nil {
		list.Key = k.ID()
	}
	if err == nil && r.Uses {
		err = s.countUses(ctx, &list)
	}
	return list, err
}

// usesTime is how long accounts that use secrets are looked for.
const usesTime = 400 * time.Millisecond

// countUses counts the accounts that refer to the secrets of a list.
func (s *Server) countUses(ctx context.Context, list *SecretList) error {
	counts := make(map[string]*int)
	for i := range list.Secrets {
		if one := &list.Secrets[i]; !strings.HasPrefix(one.Name, secret.ServicePrefix) {
			one.Accounts = new(int)
			counts[one.Name] = one.Accounts
		}
	}
	if list.UsesComplete = len(counts) == 0; list.UsesComplete {
		return nil
	}
	query := accounts.Query{Limit: 1000, Selector: accounts.Selector{Secrets: slices.Sorted(maps.Keys(counts))}}
	for began := time.Now(); ; {
		page, err := s.registry(ctx).List(ctx, query)
		if err != nil {
			return err
		}
		for i := range page.Views {
			for _, name := range accounts.SecretsIn(page.Views[i].Config) {
				if n := counts[name]; n != nil {
					*n++
				}
			}
		}
		if query.Cursor = page.Next; query.Cursor == "" {
			list.UsesComplete = true
			return nil
		}
		if time.Since(began) >= usesTime {
			return nil
		}
	}
}

func (s *Server) putSecret(ctx context.Context, r *putSecretRequest) (*secretReply, error) {
	if err := secret.ValidateFullName(r.Name); err != nil {
		return nil, invalid("path.name", err.Error())
	}
	var faults accounts.Faults
	value := strings.TrimSuffix(strings.TrimSuffix(r.Body.Value, "\n"), "\r")
	switch {
	case value == "":
		faults.Add("value", "must not be empty")
	case len(value) > secret.MaxValue:
		faults.Add("value", "must be at most 65536 bytes")
	}
	binding, err := secret.Binding{Hosts: r.Body.Hosts, Kinds: r.Body.Kinds}.Normalized()
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			field, reason, _ := strings.Cut(strings.TrimSpace(line), ": ")
			faults.Add(field, reason)
		}
	}
	if len(faults) > 0 {
		return nil, faulty(faults)
	}
	stored, created, err := s.store(ctx, r.Name, value, binding)
	if err != nil {
		return nil, err
	}
	reply := &secretReply{Status: http.StatusOK, Body: secretOf(&stored)}
	if created {
		reply.Status = http.StatusCreated
	}
	return reply, nil
}

func (s *Server) deleteSecret(ctx context.Context, r *SecretName) (*struct{}, error) {
	if err := secret.ValidateFullName(r.Name); err != nil {
		return nil, invalid("path.name", err.Error())
	}
	removed, err := secret.Of(s.options.Ring).Remove(ctx, r.Name)
	if err == nil && !removed {
		return nil, newErrorReply(http.StatusNotFound, "no stored secret has this name")
	}
	return nil, err
}

// newLogins returns the desk that signs WeChat accounts in, or nil.
func (s *Server) newLogins() *scan.Desk {
	if s.options.Scan == nil {
		return nil
	}
	return &scan.Desk{Ring: s.options.Ring, Server: *s.options.Scan, Keep: s.storeToken, Stored: s.isStored, Tell: s.loginTrouble, Note: s.noteLogin("weixin-signed-in")}
}

// newMailboxes returns the desk that signs mailboxes in, or nil.
func (s *Server) newMailboxes() *mailbox.Desk {
	if s.options.Mailbox == nil {
		return nil
	}
	return &mailbox.Desk{
		Ring: s.options.Ring, Servers: s.options.Mailbox, Stored: s.isStored, Note: s.noteLogin("mail-signed-in"),
		Keep: func(ctx context.Context, kind, name string, hosts []string, text string) error {
			return s.storeFor(ctx, name, text, secret.Binding{Hosts: hosts, Kinds: []string{kind}})
		},
		Tell: func(ctx context.Context, err error) string { return s.loginError(ctx, atProvider, err).Error() },
	}
}

// noteLogin returns a function that adds a sign-in to the trail.
func (s *Server) noteLogin(action string) func(ctx context.Context, id string, again bool) {
	return func(ctx context.Context, id string, again bool) {
		caller, _ := access.From(ctx)
		e := trail.Entry{Action: action, Outcome: trail.Done, Account: id, By: caller.Name, Via: caller.Via, Counts: map[string]int{"created": 1}}
		if again {
			e.Counts = map[string]int{"signed_in_again": 1}
		}
		s.options.Trail.Add(ctx, e)
	}
}

// isStored reports whether a secret is stored.
func (s *Server) isStored(ctx context.Context, name string) (bool, error) {
	_, _, there, err := secret.Of(s.options.Ring).Get(ctx, name)
	return there, err
}

// storeToken stores an account's token, bound to its server and to the kind.
func (s *Server) storeToken(ctx context.Context, name, base, token string) error {
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	return s.storeFor(ctx, name, token, secret.Binding{Hosts: []string{u.Host}, Kinds: []string{s.options.Scan.Kind}})
}

// storeFor stores a secret with a binding that was not normalized yet.
func (s *Server) storeFor(ctx context.Context, name, value string, b secret.Binding) error {
	b, err := b.Normalized()
	if err != nil {
		return err
	}
	_, _, err = s.store(ctx, name, value, b)
	return err
}

// store seals and stores a secret. Its error may be the reply if there is no key, or no room.
func (s *Server) store(ctx context.Context, name, value string, binding secret.Binding) (stored secret.Stored, created bool, err error) {
	k := s.sealer()
	if k == nil {
		return stored, false, noSealer()
	}
	caller, _ := access.From(ctx)
	stored, created, err = secret.Of(s.options.Ring).Put(ctx, k, name, binding, caller.Name, []byte(value))
	if errors.Is(err, secret.ErrFull) {
		err = newErrorReply(http.StatusConflict, "as many secrets, or as many bytes, are stored as there may be; remove some first")
	}
	return stored, created, err
}
