// Package wecomkf checks customer-service accounts of WeCom (微信客服) with
// kf/sync_msg. It is the kind "wecom-kf".
//
// The config has
//
//	corp_id       the corporation; required
//	open_kfid     the customer-service account; required
//	secret        {"secret": "NAME"}, the secret of the application that may read
//	              it; required
//	base_url      where the API is, if not https://qyapi.weixin.qq.com: the secret
//	              is sent there
//	voice_format  of voice messages: 0 AMR, 1 Silk; 0 if missing
//
// Anyone who may write records with a base_url can have secrets sent to any host,
// unless the secrets are bound to hosts; see package secrets. A base_url without TLS is
// refused, except for loopback and for private hosts that package secrets allows.
//
// A message is an element of msg_list. Its data is the element's unchanged JSON. Its id
// is the msgid, or "sha256:" and the digest of the JSON, because events may lack a
// msgid. Its time is send_time, to the second. Its type is the msgtype, or "event." and
// the event_type, as in "event.enter_session". The first check begins with the oldest
// message that WeCom still has. WeCom retains messages for three days. The cursor
// belongs to the open_kfid: if the record names another one, the check begins anew.
//
// An account remembers its messages, see poller.Rememberer: by their msgid, and by their
// content without msgid and media_id, because an element may come again without its msgid.
//
// A nudge's hint {"token": "…"}, from the callback kf_msg_or_event, is passed on as
// token, which lifts a strict limit. If WeCom no longer knows the token, the check asks
// for the same page again at once, without it. Without a token, further pages wait as
// the limit requires.
//
// Access tokens are shared by all checkers that share a token.Store. One of them fetches a
// token for all, replaces it before it expires, and drops it when WeCom refuses it. A
// secret that WeCom refuses is not tried again for an hour, even if an account is
// resumed or nudged meanwhile, because WeCom bans addresses that try wrong secrets. The
// refusal is only for that value. A new value is tried at once: store it where the
// pollers find it, and resume the parked accounts. Tokens are sealed with a key that is
// derived from the secret; see package token.
//
// A send is one send_msg, with the send's id as msgid. An event msg_send_fail with that
// msgid turns it from accepted into failed. The event enter_session of a new customer has
// a welcome_code: it opens a window of one message and 20 seconds, and a send with its
// token is one send_msg_on_event.
//
// Images, voices, videos and files have a media_id, by which media/get gives them for three days.
package wecomkf

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/token"
)

// kind is the kind's name in records.
const kind = "wecom-kf"

// Checker checks customer-service accounts. It is safe for concurrent use.
type Checker struct {
	*form
	client  *fetch.Client
	secrets secrets.Source
	broker  *token.Broker[*grant]
	crowds  crowds
	paces   paces
}

var (
	_ poller.Checker        = (*Checker)(nil)
	_ poller.DefaultLimiter = (*Checker)(nil)
	_ poller.Retainer       = (*Checker)(nil)
	_ poller.Rememberer     = (*Checker)(nil)
)

// New returns a checker that calls through client, finds the configs' secrets in
// secrets, and shares access tokens through tokens.
func New(client *fetch.Client, secrets secrets.Source, tokens token.Store) *Checker {
	c := &Checker{form: newForm(client), client: client, secrets: secrets, paces: paces{most: paceCalls}}
	c.broker = token.NewBroker(tokens, c.fetchToken)
	return c
}

// Kind is "wecom-kf".
func (*Checker) Kind() string { return kind }

// RateKey returns the corporation, because WeCom's limits are per corporation.
func (c *Checker) RateKey(raw json.RawMessage) string {
	config, _ := c.form.Read(raw)
	return config.corp
}

// DefaultLimit returns a limit that keeps the concurrent calls of a corporation below
// the number that WeCom answers with 45033.
func (*Checker) DefaultLimit() string { return "concurrency=5" }

// Retention returns how long WeCom retains messages.
func (*Checker) Retention(json.RawMessage) time.Duration { return 3 * 24 * time.Hour }

// Remembers is the usual. WeCom gives a message again if a cursor is lost.
func (*Checker) Remembers(json.RawMessage) poller.Remember { return poller.UsualRemember() }

// Check asks for one page. All its errors are *poller.CheckError.
func (c *Checker) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return poller.Result{}, poller.ConfigError(err)
	}
	at, err := decodeCursor(r.Cursor, config.openKfID)
	if err != nil {
		return poller.Result{}, poller.CursorError(err)
	}
	use := secrets.ForURL(kind, config.baseURL)
	secret, err := c.secrets.Get(ctx, config.secret.Name, use)
	if err != nil {
		return poller.Result{}, secrets.CheckError(err)
	}
	g, err := newGrant(config, secret)
	if err != nil {
		return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "seal", Message: "the access token cannot be sealed", Err: err}
	}
	page, failed := c.sync(ctx, g, syncRequest{
		Cursor: at, Token: tokenOf(r.Hint), Limit: message.Limit(r.Limit, maxLimit), VoiceFormat: config.voiceFormat, OpenKfID: config.openKfID,
	})
	if failed != nil {
		return poller.Result{}, failed
	}
	result := poller.Result{Messages: page.messages, HasMore: page.hasMore, NextPollAfter: page.wait, FailedSends: page.failed}
	if page.next != "" && page.next != at {
		if result.Cursor, err = encodeCursor(page.next, config.openKfID); err != nil {
			return poller.Result{}, &poller.CheckError{Kind: poller.Protocol, Code: "cursor", Message: "the cursor cannot be written", Err: err}
		}
	}
	return result, nil
}

// tokenOf returns the callback's token in a hint, or an empty text if there is none.
func tokenOf(hint json.RawMessage) string {
	var h struct {
		Token string `json:"token"`
	}
	if len(hint) == 0 || json.Unmarshal(hint, &h) != nil {
		return "" // a hint of another kind still asks for a check
	}
	return h.Token
}
