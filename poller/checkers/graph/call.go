package graph

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	who   = "Microsoft Graph"
	whose = who + "'s"

	codeToken = "graph_401" // of a refused access token
)

// mailbox makes calls for one account.
type mailbox struct {
	client *fetch.Client
	config config
	token  string
	open   bool // the token is sent without TLS
}

// signedIn does something with an access token. If Graph refuses the token, it is done once more, with
// another one.
func (c *Checker) signedIn(ctx context.Context, account string, config config, do func(*mailbox) *poller.CheckError) *poller.CheckError {
	use := secrets.ForURL(Kind, config.base)
	var refused *oauth.Access
	for {
		access, failed := c.tokens.Token(ctx, account, config.oauth.Name, use, refused)
		if failed != nil {
			return failed
		}
		failed = do(&mailbox{c.client, config, access.Token, use.Open()})
		if failed == nil || failed.Code != codeToken || refused != nil || !c.tokens.Drop(ctx, access) {
			return failed
		}
		refused = access
	}
}

// call returns a call of a path with a query. The ids of messages are the immutable ones.
func (m *mailbox) call(path string, prefer ...string) fetch.Call {
	return fetch.Call{URL: m.config.base + "/v1.0/me" + path, Confined: m.open, Header: http.Header{
		"Authorization": {"Bearer " + m.token}, "Prefer": {strings.Join(append([]string{`IdType="ImmutableId"`}, prefer...), ", ")},
	}}
}

// The codes of Graph's errors that mean something here, in lower case.
const (
	noItem     = "erroritemnotfound"
	noFolder   = "errorfoldernotfound"
	noFolderID = "errorinvalididmalformed"
	noMIME     = "errormimecontentconversionfailed"
)

// refusal is an unsuccessful answer of Graph.
type refusal struct {
	*poller.CheckError
	code  string // Graph's own, in lower case; empty: something in front of Graph answered
	reset bool   // Graph does not know the state token
}

// refusalOf reads an unsuccessful answer. Nothing of its text is shown.
func refusalOf(response *fetch.Response) refusal {
	var body struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(response.Body, &body) != nil {
		body.Error.Code = ""
	}
	r := refusal{CheckError: fetch.StatusError(who, response), code: strings.ToLower(body.Error.Code)}
	switch {
	case response.Status == http.StatusGone, strings.HasPrefix(r.code, "syncstate"), r.code == "resyncrequired":
		r.reset = true
	case response.Status == http.StatusUnauthorized:
		r.Kind, r.Scope, r.Code, r.Message = poller.AuthFailed, poller.ScopeAccount, codeToken, "Microsoft Graph refuses the access token: sign in again"
	case response.Status == http.StatusForbidden && r.code != "":
		r.Kind, r.Scope, r.Code, r.Message = poller.AuthFailed, poller.ScopeAccount, "graph_403", "Microsoft Graph does not let this sign-in at the mailbox: sign in again, and allow what is asked for there"
	case r.code == "mailboxnotenabledforrestapi", r.code == "mailboxnotsupportedforrestapi", r.code == "errorinvaliduser", r.code == "resourcenotfound":
		r.Kind, r.Scope, r.Code, r.Message = poller.AuthFailed, poller.ScopeAccount, "graph_mailbox", "who signed in has no mailbox that Microsoft Graph can read"
	case response.Status >= 400 && response.Status < 500 && r.code != "" && response.Status != http.StatusTooManyRequests:
		r.Scope = poller.ScopeAccount
	}
	return r
}

// get makes a call whose answer is JSON, and decodes it.
func (m *mailbox) get(ctx context.Context, call fetch.Call, limits limits, into any) (refused *refusal, failed *poller.CheckError) {
	call.MaxBody = limits.bytes
	response, err := m.client.Do(ctx, call)
	if err != nil {
		return nil, fetch.SharedCheckError(err)
	}
	if response.Status != http.StatusOK {
		r := refusalOf(response)
		return &r, r.CheckError
	}
	if _, err := limits.Check(response.Body); err != nil {
		return nil, fetch.ProtocolError(whose, err.Error())
	}
	if json.Unmarshal(response.Body, into) != nil {
		return nil, fetch.ProtocolError(whose, "is not the expected JSON")
	}
	return nil, nil
}
