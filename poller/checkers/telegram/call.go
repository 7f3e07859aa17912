package telegram

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const (
	methodUpdates = "getUpdates" // the call that may be held

	maxBody = 8 << 20
	// memory is how many bytes of memory each byte of an answer needs while it is parsed.
	memory = 4
)

// limits are the limits of an answer. A page's updates stay unparsed, so only their depth counts.
var limits = strict.Limits{Depth: 128, Values: 4 * maxLimit, Within: 2}

// request is the body of getUpdates.
type request struct {
	Offset  int64    `json:"offset,omitempty"`
	Limit   int      `json:"limit"`
	Timeout int      `json:"timeout"` // seconds; 0: an answer at once
	Allowed []string `json:"allowed_updates,omitempty"`
}

// answer is an answer of the API. Its description is a stranger's text, and is shown nowhere.
type answer struct {
	OK   *bool `json:"ok"`
	Code int   `json:"error_code"`
	// Description is compared with texts that Telegram is known to use, and shown to nobody.
	Description string          `json:"description"`
	Result      json.RawMessage `json:"result"`
	Parameters  struct {
		RetryAfter int64 `json:"retry_after"` // seconds
	} `json:"parameters"`
}

// caller makes calls for one bot. The URL has the token, and the errors of fetch have no URL.
type caller struct {
	client *fetch.Client
	base   string
	token  string
	open   bool // the token is sent without TLS
}

// post calls a method. If the answer is the API's own, the error is nil, whatever the answer says.
func (c *caller) post(ctx context.Context, method string, body any) (a answer, status int, failed *poller.CheckError) {
	raw, err := json.Marshal(body)
	if err != nil {
		return a, 0, poller.CursorError(err)
	}
	response, err := c.client.Do(ctx, fetch.Call{
		Method: http.MethodPost, URL: c.base + "/bot" + c.token + "/" + method, Body: raw, MaxBody: maxBody, Confined: c.open, Held: method == methodUpdates,
		Header: http.Header{"Content-Type": {"application/json"}},
	})
	if err != nil {
		return a, 0, fetch.SharedCheckError(err)
	}
	if _, err := limits.Check(response.Body); err != nil {
		return a, 0, protocolError(err.Error())
	}
	release, err := c.client.Reserve(ctx, memory*int64(len(response.Body)))
	if err != nil {
		return a, 0, fetch.SharedCheckError(err)
	}
	defer release()
	own := utf8.Valid(response.Body) && json.Unmarshal(response.Body, &a) == nil && a.OK != nil
	switch {
	case own && (*a.OK || a.Code != 0):
		return a, response.Status, nil
	case response.Status != http.StatusOK:
		return a, 0, fetch.StatusError("the API", response)
	}
	return a, 0, protocolError("is not the expected JSON")
}

// getUpdates asks for a page.
func (c *caller) getUpdates(ctx context.Context, q request) (updates, *poller.CheckError) {
	a, _, failed := c.post(ctx, methodUpdates, q)
	switch {
	case failed != nil:
		return nil, failed
	case !*a.OK && a.Code == http.StatusConflict:
		return nil, c.conflict(ctx)
	case !*a.OK:
		return nil, codeError(&a)
	}
	var list updates
	if json.Unmarshal(a.Result, &list) != nil {
		return nil, protocolError("result: must be an array")
	}
	return list, nil
}

// conflict says who else takes the bot's updates. It shows nothing of the webhook's URL, which may
// have a secret.
func (c *caller) conflict(ctx context.Context) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "telegram_409",
		Message: "the bot's updates are taken by a webhook or by another program"}
	a, _, failed := c.post(ctx, "getWebhookInfo", struct{}{})
	var info struct {
		URL *string `json:"url"`
	}
	if failed != nil || !*a.OK || json.Unmarshal(a.Result, &info) != nil || info.URL == nil {
		return e // nobody knows which
	}
	if *info.URL != "" {
		e.Code, e.Message = "telegram_409_webhook", "a webhook is set: delete it with deleteWebhook, or it takes the bot's updates"
	} else {
		e.Code, e.Message = "telegram_409_poller", "another program polls the same bot: stop it, or register the bot once only"
	}
	return e
}

// codeError returns the error for an error_code. The texts are our own, because a description may
// repeat what we sent.
func codeError(a *answer) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "telegram_" + strconv.Itoa(a.Code), Message: "Telegram answered with an error"}
	switch {
	case a.Code == http.StatusUnauthorized || a.Code == http.StatusNotFound:
		e.Kind, e.Final, e.Message = poller.AuthFailed, true, "Telegram knows no such token: it was revoked or is wrong"
	case a.Code == http.StatusForbidden:
		e.Kind, e.Message = poller.AuthFailed, "Telegram refuses the bot"
	case a.Code == http.StatusTooManyRequests:
		e.Kind, e.Message = poller.RateLimited, "the bot makes more calls than Telegram allows"
		if wait := a.Parameters.RetryAfter; wait > 0 {
			e.RetryAfter = fetch.ClampRetryAfter(time.Duration(min(wait, 1<<31)) * time.Second)
		}
	case a.Code >= 500:
		e.Scope, e.Message = poller.ScopeRateKey, "Telegram has an internal error"
	}
	return e
}

func protocolError(text string) *poller.CheckError {
	return fetch.ProtocolError("Telegram's", text)
}
