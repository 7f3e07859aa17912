package imap

import (
	"encoding/base64"
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// maxSaid bounds the words of a server in an error, in characters.
const maxSaid = 200

// limitWait is the wait after a server names a limit without a time.
const limitWait = 5 * time.Minute

// codeThrottled is a response code of servers that package imap does not name.
const codeThrottled imap.ResponseCode = "THROTTLED"

// codeClosed is the code for a connection that the server closed without giving one.
const codeClosed = "bye"

// failed returns the error of a failed step. If the server completed its answer,
// refused turns the answer into the error. Otherwise the connection ended, and the
// error that the connection stored says why.
func (s *session) failed(err error, step string, refused func(*imap.Error) *poller.CheckError) error {
	var status *imap.Error
	bye := s.conn.goodbye.Load()
	if !errors.As(err, &status) && bye != nil {
		if _, limited := limitOf(bye); limited { // the server went away before it answered
			status = bye
		}
	}
	if status != nil && s.ctx.Err() == nil {
		status = s.shown(s.reason(status, bye))
		if e := common(status, step); e != nil {
			return e
		}
		return refused(status)
	}
	switch broken := s.conn.broken.Load(); {
	case s.ctx.Err() != nil:
		failed := fetch.CheckError(fetch.Broken(s.ctx, s.ctx.Err()))
		if failed.Code == string(fetch.CodeTimeout) && !s.conn.heard.Load() {
			failed.Message = "the server sent no greeting in time: this may be the port of another service, or one that needs another config.tls"
		}
		return failed
	case s.conn.tooLarge.Load():
		return &poller.CheckError{Kind: poller.Protocol, Code: string(fetch.CodeTooLarge), Message: step + ": " + fetch.ErrTooLarge.Error(), Err: fetch.ErrTooLarge}
	case s.conn.unusable.Load(): // reported below
	case broken != nil:
		return fetch.CheckError(fetch.Broken(s.ctx, *broken))
	}
	return &poller.CheckError{Kind: poller.Protocol, Code: "protocol", Message: step + ": the server's answer is not usable IMAP"}
}

// common returns the error for a code that means the same at every step, or nil for
// other codes.
func common(status *imap.Error, step string) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Code: codeOf(status), Message: step + ": the server refused: " + said(status)}
	if wait, limited := limitOf(status); limited {
		e.Kind, e.RetryAfter = poller.RateLimited, wait
		return e
	}
	switch upper(status.Code) {
	case imap.ResponseCodeUnavailable, imap.ResponseCodeServerBug:
		e.Scope = poller.ScopeRateKey
	case imap.ResponseCodeInUse:
	default:
		switch status.Type {
		case imap.StatusResponseTypeBye:
			e.Scope, e.Message = poller.ScopeRateKey, step+": the server closed the connection: "+said(status)
		case imap.StatusResponseTypeBad:
			if step == stepStart { // servers without STARTTLS may answer this, which is a refusal
				return nil
			}
			if unconnected.MatchString(status.Text) {
				return e
			}
			e.Kind = poller.Protocol
		default:
			return nil
		}
	}
	return e
}

// reason returns the status that says why a command was refused: a BYE before a refusal without a
// code, which may only repeat that the server is going away, or a BYE that names a limit. A BYE after
// the refusal is no reason for it: Microsoft closes the connection after each BAD.
func (s *session) reason(status, bye *imap.Error) *imap.Error {
	if bye == nil || !s.conn.followed.Load() || status == bye || status.Type != imap.StatusResponseTypeNo && status.Type != imap.StatusResponseTypeBad {
		return status
	}
	if _, limited := limitOf(bye); limited || knownCode(status.Code) == "" {
		return bye
	}
	return status
}

// limitOf reports whether a status says that a limit was reached, and how long to wait.
func limitOf(status *imap.Error) (wait time.Duration, limited bool) {
	if named := backoff.FindStringSubmatch(status.Text); named != nil {
		ms, err := strconv.Atoi(named[1]) // of so many digits that it cannot be too large
		return max(time.Second, time.Duration(ms)*time.Millisecond), err == nil
	}
	switch upper(status.Code) {
	case imap.ResponseCodeLimit, codeThrottled, imap.ResponseCodeOverQuota:
		return limitWait, true
	}
	return limitWait, crowded.MatchString(status.Text)
}

var (
	// crowded finds the words of servers that have no code for a limit of connections: Gmail and Dovecot.
	crowded = regexp.MustCompile(`(?i)too many (simultaneous )?connections|maximum number of connections`)
	// backoff finds the wait that Microsoft asks for.
	backoff = regexp.MustCompile(`(?i)Suggested Backoff Time: ([0-9]{1,9}) milliseconds`)
	// unconnected finds the words of Microsoft for a mailbox that its front end does not reach just now.
	unconnected = regexp.MustCompile(`(?i)User is authenticated but not connected`)
)

// loginRefused returns the error for a NO to LOGIN or AUTHENTICATE.
func loginRefused(status *imap.Error) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.AuthFailed, Code: codeOf(status), Message: "login: the server refused user or password: " + said(status)}
	if upper(status.Code) == imap.ResponseCodePrivacyRequired {
		e.Kind, e.Message = poller.ConfigInvalid, "config.tls: the server requires an encrypted connection before a login"
	}
	return e
}

// examineRefused returns the error for a NO to EXAMINE or STATUS. See session.where.
func examineRefused(status *imap.Error, step, field string) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Code: codeOf(status), Message: step + ": the server refused to open it: " + said(status)}
	switch upper(status.Code) {
	case imap.ResponseCodeNonExistent:
		e.Kind, e.Message = poller.ConfigInvalid, field+": there is no such mailbox: "+said(status)
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

// stepStart is the step that asks for TLS.
const stepStart = "STARTTLS"

// startRefused returns the error for a NO or BAD to STARTTLS.
func startRefused(status *imap.Error) *poller.CheckError {
	return &poller.CheckError{Kind: poller.Transient, Code: "starttls", Message: stepStart + ": the server refused: " + said(status)}
}

// startRefusedNear is startRefused for an address in a private network, where TLS may be left out.
func startRefusedNear(status *imap.Error) *poller.CheckError {
	e := startRefused(status)
	e.Message += "; set config.tls to none if the server has no TLS"
	return e
}

// said returns a status for people, with the server's words unless shown has removed them.
func said(status *imap.Error) string {
	text := string(status.Type)
	if code := knownCode(status.Code); code != "" {
		text += " [" + code + "]"
	}
	if status.Text != "" {
		text += ": " + status.Text
	}
	return text
}

// shown returns a status with the server's words in the form of words.
func (s *session) shown(status *imap.Error) *imap.Error {
	return &imap.Error{Type: status.Type, Code: status.Code, Text: words(status.Text, s.secret)}
}

// words returns a server's words as one printable line, cut after maxSaid characters. They are
// empty if they repeat the password, in any case or encoding, or may have another secret.
func words(text, password string) string {
	line := strings.Join(strings.Fields(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) || c == unicode.ReplacementChar {
			return ' '
		}
		return c
	}, text)), " ")
	lower := strings.ToLower(line)
	for _, form := range forms(password) {
		if form != "" && strings.Contains(lower, strings.ToLower(form)) {
			return ""
		}
	}
	if keyed.MatchString(line) {
		return ""
	}
	if runes := []rune(line); len(runes) > maxSaid {
		line = string(runes[:maxSaid]) + "…"
	}
	return line
}

// keyed finds values that software calls secret.
var keyed = regexp.MustCompile(`(?i)(token|password|passwd|secret|key|auth|bearer)\s*[=:]`)

// forms returns the password as it is sent, and in the forms in which a server may repeat it.
func forms(password string) []string {
	if password == "" {
		return nil
	}
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)
	forms := []string{password, strings.Join(strings.Fields(password), " "), quoted, url.QueryEscape(password), url.PathEscape(password)}
	// In the base64 of SASL PLAIN, the password begins at any of three offsets.
	for _, before := range []string{"", "\x00", "\x00\x00"} {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(before + password))
		begin := []int{0, 2, 3}[len(before)]
		forms = append(forms, encoded[min(begin, len(encoded)):max(len(encoded)-1, min(begin, len(encoded)))])
	}
	return forms
}

// codeOf returns the response code in the form that people and metrics see.
func codeOf(status *imap.Error) string {
	if code := knownCode(status.Code); code != "" {
		return strings.ToLower(code)
	}
	if status.Type == imap.StatusResponseTypeBye {
		return codeClosed
	}
	return "imap_" + strings.ToLower(string(status.Type))
}

// knownCode returns a response code in capitals if it is one of those below, or "". A server
// may send any text as its code.
func knownCode(code imap.ResponseCode) string {
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
