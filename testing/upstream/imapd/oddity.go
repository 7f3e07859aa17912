package imapd

import "github.com/emersion/go-imap/v2"

// Oddity is what a provider does that the standard does not make one expect.
type Oddity struct {
	Name   string
	Source string // where it was seen
	Fault  Fault
}

// Oddities returns those of Gmail, Microsoft and Dovecot, in the words of their servers.
func Oddities() []Oddity {
	no := func(code imap.ResponseCode, text string) *imap.Error {
		return &imap.Error{Type: imap.StatusResponseTypeNo, Code: code, Text: text}
	}
	bad := func(text string) *imap.Error {
		return &imap.Error{Type: imap.StatusResponseTypeBad, Text: text}
	}
	const closed = "Connection closed. 14" // follows each BAD of Microsoft
	return []Oddity{
		{
			Name: "Gmail: too many connections", Source: "https://github.com/zone-eu/wildduck/issues/35",
			Fault: Fault{Login: no(imap.ResponseCodeAlert, "Too many simultaneous connections. (Failure)")},
		},
		{
			Name: "Gmail: application-specific password", Source: "https://github.com/LukeSmithxyz/mutt-wizard/issues/831",
			Fault: Fault{Login: no(imap.ResponseCodeAlert, "Application-specific password required: https://support.google.com/accounts/answer/185833 (Failure)")},
		},
		{ // 2,500 MB a day: https://support.google.com/a/answer/1071518
			Name: "Gmail: too many bytes", Source: "https://github.com/ljmerza/ha-email-sensor/issues/16",
			Fault: Fault{Select: no(imap.ResponseCodeOverQuota, "Account exceeded command or bandwidth limits. (Failure)")},
		},
		{
			Name: "Gmail: the session has expired", Source: "https://github.com/Webklex/php-imap/pull/288",
			Fault: Fault{Bye: "Session expired, please login again."},
		},
		{ // the connection is there, and nothing comes any more
			Name: "Microsoft: IDLE hangs", Source: "https://github.com/mjs/imapclient/issues/349",
			Fault: Fault{Hang: "idle"},
		},
		{
			Name: "Microsoft: throttled, NO", Source: "https://github.com/ikvk/imap_tools/issues/135",
			Fault: Fault{Select: no("", "Request is throttled. Suggested Backoff Time: 299910 milliseconds")},
		},
		{
			Name: "Microsoft: throttled, BAD", Source: "https://github.com/simonrob/email-oauth2-proxy/issues/191",
			Fault: Fault{Select: bad("Request is throttled. Suggested Backoff Time: 89117 milliseconds"), Bye: closed},
		},
		{ // for a while, or because the mailbox is not the user's
			Name: "Microsoft: not connected", Source: "https://github.com/simonrob/email-oauth2-proxy/issues/74",
			Fault: Fault{Select: bad("User is authenticated but not connected."), Bye: closed},
		},
		{
			Name: "Microsoft: the access token has expired", Source: "https://github.com/iroco-co/aioimaplib/issues/83",
			Fault: Fault{Bye: "Session invalidated - AccessTokenExpired"},
		},
		{
			Name: "Dovecot: too many connections", Source: "https://github.com/mscdex/node-imap/issues/606",
			Fault: Fault{Login: no(imap.ResponseCodeUnavailable, "Maximum number of connections from user+IP exceeded (mail_max_userip_connections=16)")},
		},
	}
}
