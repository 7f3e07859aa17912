package wecomkf

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const (
	maxBody   = 8 << 20
	busyTries = 3 // further tries after WeCom was too busy
	busyPause = 200 * time.Millisecond

	// memory is how many bytes of memory each byte of an answer needs while the answer
	// is parsed.
	memory = 4
)

// limits are the limits of an answer. A page's messages stay unparsed, so only their
// depth counts.
var limits = strict.Limits{Depth: 128, Values: 2 * maxLimit, Within: 2}

// answer has the fields of every answer of the API.
type answer struct {
	ErrCode *int   `json:"errcode"`
	ErrMsg  string `json:"errmsg"`
}

// head returns the code. ok is false if there is none, because such an answer is not WeCom's.
func (a answer) head() (code int, errmsg string, ok bool) {
	if a.ErrCode == nil {
		return 0, "", false
	}
	return *a.ErrCode, a.ErrMsg, true
}

type headed interface {
	head() (code int, errmsg string, ok bool)
}

// call makes a call, repeats it while WeCom is too busy, and reads the answer into a.
// The URL's query has secrets, and no error shows it. The code of an empty answer, with
// status 204, is codeOK.
func (c *Checker) call(ctx context.Context, call fetch.Call, a headed) (code int, errmsg string, failed *poller.CheckError) {
	for try := 0; ; try++ {
		if code, errmsg, failed = c.callOnce(ctx, call, a); failed != nil || code != codeBusy || try == busyTries {
			return code, errmsg, failed
		}
		if !sleep(ctx, busyPause<<try) {
			return code, errmsg, nil
		}
	}
}

func (c *Checker) callOnce(ctx context.Context, call fetch.Call, a headed) (code int, errmsg string, failed *poller.CheckError) {
	call.MaxBody = maxBody
	response, err := c.client.Do(ctx, call)
	if err != nil {
		return 0, "", fetch.SharedCheckError(err)
	}
	switch {
	case response.Status == http.StatusNoContent:
		return codeOK, "", nil
	case response.Status < 200 || response.Status > 299:
		return 0, "", fetch.StatusError("the API", response)
	}
	if _, err := limits.Check(response.Body); err != nil {
		return 0, "", protocolError(err.Error())
	}
	release, err := c.client.Reserve(ctx, memory*int64(len(response.Body)))
	if err != nil {
		return 0, "", fetch.SharedCheckError(err)
	}
	defer release()
	if !utf8.Valid(response.Body) || json.Unmarshal(response.Body, a) != nil {
		return 0, "", protocolError("is not the expected JSON")
	}
	code, errmsg, ok := a.head()
	if !ok {
		return 0, "", protocolError("errcode: missing")
	}
	return code, errmsg, nil
}

func protocolError(text string) *poller.CheckError {
	return fetch.ProtocolError("WeCom's", text)
}

// getToken asks for an access token and its lifetime.
func (c *Checker) getToken(ctx context.Context, g *grant) (issued, *poller.CheckError) {
	query := url.Values{"corpid": {g.corp}, "corpsecret": {g.secret}}
	var a struct {
		answer
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"` // seconds
	}
	code, errmsg, failed := c.call(ctx, fetch.Call{URL: g.base + "/cgi-bin/gettoken?" + query.Encode(), Confined: g.open}, &a)
	switch {
	case failed != nil:
		return issued{}, failed
	case code != codeOK:
		return issued{code: code, errmsg: errmsg}, nil
	case a.AccessToken == "" || a.ExpiresIn < 1:
		return issued{}, protocolError("access_token or expires_in: missing")
	}
	return issued{token: a.AccessToken, life: min(time.Duration(a.ExpiresIn)*time.Second, maxLife)}, nil
}

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// These errcodes are handled. See
// https://developer.work.weixin.qq.com/document/path/90313 (global codes) and
// https://developer.work.weixin.qq.com/document/path/94670 (sync_msg) and
// https://developer.work.weixin.qq.com/document/path/90254 (media/get).
const (
	codeOK           = 0
	codeBusy         = -1
	codeBadSecret    = 40001
	codeBadMedia     = 40007
	codeBadCorp      = 40013
	codeBadToken     = 40014
	codeBadArgument  = 40058
	codeSecretType   = 40091
	codeNoRight      = 40201
	codeNoMedia      = 41006
	codeTokenExpired = 42001
	codeRate         = 45009
	codeConcurrency  = 45033
	codeMediaGone    = 46001
	codeNoAPI        = 48002
	codeBadIP        = 60020
	codeBadKfID      = 95000
	codeKfIDGone     = 95004
	codeBadMsgToken  = 95007
	codeInWeCom      = 95011
	codeNotInWeCom   = 95012
	codeAPIOff       = 95017
)

const (
	// egressRetry is the wait after WeCom refused our address. An administrator must add
	// the address to the application's list.
	egressRetry = 10 * time.Minute
	// crowdRetry is the wait of a check that found too many calls under way.
	crowdRetry = 2 * time.Second
)

// codeError returns the error for an errcode that ends the check. The texts are our
// own, because an errmsg may repeat what we sent.
func codeError(code int) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "wecom_" + strconv.Itoa(code)}
	operator := func(message string) {
		e.Kind, e.Final, e.Message = poller.AuthFailed, true, message
	}
	switch code {
	case codeBusy:
		e.Scope, e.Message = poller.ScopeRateKey, "WeCom is busy"
	case codeBadToken, codeTokenExpired:
		e.Scope, e.Message = poller.ScopeRateKey, "WeCom refuses a new access token as well"
	case codeBadSecret, codeBadCorp, codeSecretType:
		operator("WeCom refuses the corporation's id or secret")
	case codeRate:
		e.Kind, e.Scope, e.Message = poller.RateLimited, poller.ScopeRateKey, "the corporation makes more calls than WeCom allows"
	case codeConcurrency:
		e.Kind, e.Scope, e.RetryAfter = poller.RateLimited, poller.ScopeRateKey, crowdRetry
		e.Message = "the corporation makes more calls at once than WeCom allows"
	case codeBadMsgToken:
		e.Kind, e.Message = poller.Protocol, "WeCom refuses a callback's token, but none was sent"
	case codeBadKfID, codeKfIDGone:
		e.Kind, e.Message = poller.Gone, "WeCom knows no such customer-service account"
	case codeInWeCom:
		operator("the account is managed inside WeCom: an administrator must open it to the API")
	case codeNotInWeCom:
		operator("customer service is not in use in WeCom: an administrator must turn it on")
	case codeAPIOff:
		operator("the customer-service API is off: an administrator must turn it on")
	case codeNoAPI, codeNoRight:
		operator("the application may not call this API: an administrator must allow it")
	case codeBadIP:
		e.Scope, e.RetryAfter = poller.ScopeEgress, egressRetry
		e.Message = "WeCom does not accept calls from our address: an administrator must add it to the application's trusted ones"
	case codeBadArgument:
		e.Kind, e.Message = poller.ConfigInvalid, "WeCom refuses a field: open_kfid or voice_format must be wrong"
	default:
		e.Message = "WeCom answered with an error"
	}
	return e
}

var fromIP = regexp.MustCompile(`from ip: ?([0-9A-Fa-f.:]{2,45})`)

// addressIn returns the address from which WeCom saw our call, or an empty text if the
// errmsg names none. Nothing else of an errmsg is shown.
func addressIn(errmsg string) string {
	found := fromIP.FindStringSubmatch(errmsg)
	if found == nil {
		return ""
	}
	addr, err := netip.ParseAddr(found[1])
	if err != nil {
		return ""
	}
	return addr.String()
}
