package wecomkf

import (
	"net/netip"
	"regexp"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// The errcodes that are handled.
// See https://developer.work.weixin.qq.com/document/path/90313 (global codes)
// and https://developer.work.weixin.qq.com/document/path/94670 (sync_msg).
const (
	codeOK           = 0
	codeBusy         = -1
	codeBadSecret    = 40001
	codeBadCorp      = 40013
	codeBadToken     = 40014
	codeBadArgument  = 40058
	codeSecretType   = 40091
	codeNoRight      = 40201
	codeTokenExpired = 42001
	codeRate         = 45009
	codeConcurrency  = 45033
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
	// egressRetry is the wait after WeCom refused our address. An administrator has to
	// add it to the application's list.
	egressRetry = 10 * time.Minute
	// crowdRetry is the wait of a check that met too many calls at once.
	crowdRetry = 2 * time.Second
)

// codeError returns the error for an errcode that ends the check. The texts are our
// own, because an errmsg may repeat what it was sent.
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

// addressIn returns the address from which WeCom saw our call, or an empty text if
// the errmsg names none. Nothing else of an errmsg is shown.
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
