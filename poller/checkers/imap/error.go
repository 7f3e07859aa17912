package imap

import (
	"errors"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// limitWait is the wait after a server names a limit without a time.
const limitWait = 5 * time.Minute

// codeThrottled is a response code of servers that package imap does not name.
const codeThrottled imap.ResponseCode = "THROTTLED"

// codeClosed is the code of a connection that the server closed without one.
const codeClosed = "bye"

// failed returns the error of a failed step. If the server completed its answer,
// refused makes the error of it. Otherwise the connection ended, and the error that
// the connection kept says why.
func (s *session) failed(err error, step string, refused func(*imap.Error) *poller.CheckError) error {
	var status *imap.Error
	if errors.As(err, &status) && s.ctx.Err() == nil {
		if e := common(status, step); e != nil {
			return e
		}
		return refused(status)
	}
	switch broken := s.conn.broken.Load(); {
	case s.ctx.Err() != nil:
		return fetch.CheckError(fetch.Broken(s.ctx, s.ctx.Err()))
	case s.conn.tooLarge.Load():
		return &poller.CheckError{Kind: poller.Protocol, Code: string(fetch.CodeTooLarge), Message: step + ": " + fetch.ErrTooLarge.Error(), Err: fetch.ErrTooLarge}
	case s.conn.unusable.Load(): // told below
	case broken != nil:
		return fetch.CheckError(fetch.Broken(s.ctx, *broken))
	}
	return &poller.CheckError{Kind: poller.Protocol, Code: "protocol", Message: step + ": the server's answer is not usable IMAP"}
}

// common returns the error for a code that means the same at every step, or nil for
// other codes.
func common(status *imap.Error, step string) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Code: codeOf(status), Message: step + ": the server refused: " + said(status)}
	switch upper(status.Code) {
	case imap.ResponseCodeUnavailable, imap.ResponseCodeServerBug:
		e.Scope = poller.ScopeRateKey
	case imap.ResponseCodeInUse:
	case imap.ResponseCodeLimit, codeThrottled, imap.ResponseCodeOverQuota:
		e.Kind, e.RetryAfter = poller.RateLimited, limitWait
	default:
		switch status.Type {
		case imap.StatusResponseTypeBye:
			e.Scope, e.Message = poller.ScopeRateKey, step+": the server closed the connection: "+said(status)
		case imap.StatusResponseTypeBad:
			e.Kind = poller.Protocol
		default:
			return nil
		}
	}
	return e
}

// loginRefused returns the error for a NO to LOGIN or AUTHENTICATE.
func loginRefused(status *imap.Error) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.AuthFailed, Code: codeOf(status), Message: "login: the server refused user or password: " + said(status)}
	if upper(status.Code) == imap.ResponseCodePrivacyRequired {
		e.Kind, e.Message = poller.ConfigInvalid, "config.tls: the server requires an encrypted connection before a login"
	}
	return e
}

// examineRefused returns the error for a NO to EXAMINE.
func examineRefused(status *imap.Error) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Code: codeOf(status), Message: "mailbox: the server refused to open it: " + said(status)}
	switch upper(status.Code) {
	case imap.ResponseCodeNonExistent:
		e.Kind, e.Message = poller.ConfigInvalid, "config.mailbox: there is no such mailbox"
	case imap.ResponseCodeNoPerm:
		e.Kind = poller.AuthFailed
	}
	return e
}

// readRefused returns the error for a NO to SEARCH or FETCH, for example because a
// message was expunged meanwhile.
func readRefused(status *imap.Error) *poller.CheckError {
	return &poller.CheckError{Kind: poller.Transient, Code: codeOf(status), Message: "read: the server refused: " + said(status)}
}

// startRefused returns the error for a NO to STARTTLS.
func startRefused(status *imap.Error) *poller.CheckError {
	return &poller.CheckError{Kind: poller.Transient, Code: "starttls", Message: "STARTTLS: the server refused: " + said(status)}
}

// said returns a status without its text, which may repeat secrets.
func said(status *imap.Error) string {
	if code := clean(status.Code); code != "" {
		return string(status.Type) + " [" + code + "]"
	}
	return string(status.Type)
}

// codeOf returns the response code as the code that people and metrics see.
func codeOf(status *imap.Error) string {
	if code := clean(status.Code); code != "" {
		return strings.ToLower(code)
	}
	if status.Type == imap.StatusResponseTypeBye {
		return codeClosed
	}
	return "imap_" + strings.ToLower(string(status.Type))
}

// clean returns a code if it looks like one of RFC 9051: a few capital letters. A
// server may send anything in its place.
func clean(code imap.ResponseCode) string {
	text := string(upper(code))
	switch imap.ResponseCode(text) {
	case imap.ResponseCodeAlert, imap.ResponseCodeAuthenticationFailed, imap.ResponseCodeAuthorizationFailed, imap.ResponseCodeCannot,
		imap.ResponseCodeClientBug, imap.ResponseCodeContactAdmin, imap.ResponseCodeCorruption, imap.ResponseCodeExpired,
		imap.ResponseCodeInUse, imap.ResponseCodeLimit, imap.ResponseCodeNonExistent, imap.ResponseCodeNoPerm,
		imap.ResponseCodeOverQuota, imap.ResponseCodeParse, imap.ResponseCodePrivacyRequired, imap.ResponseCodeServerBug,
		imap.ResponseCodeUnavailable, codeThrottled, "EXPUNGEISSUED":
		return text
	}
	return ""
}

func upper(code imap.ResponseCode) imap.ResponseCode {
	return imap.ResponseCode(strings.ToUpper(string(code)))
}
