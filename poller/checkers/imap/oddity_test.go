package imap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
	"github.com/rounds-dev/rounds/testing/upstream/smtpd"
)

// What Gmail, Microsoft and Dovecot do keeps no mail from being found once, and parks nobody whose
// credential is right. The waits that they name are kept.
func TestOddities(t *testing.T) {
	wants := map[string]struct {
		want string        // the failure
		wait time.Duration // that it asks for
	}{
		"Gmail: too many connections":             {"rate_limited alert", limitWait},
		"Gmail: application-specific password":    {"auth alert", 0},
		"Gmail: too many bytes":                   {"rate_limited overquota", limitWait},
		"Gmail: the session has expired":          {"transient reset", 0},
		"Microsoft: IDLE hangs":                   {"transient timeout", 0},
		"Microsoft: throttled, NO":                {"rate_limited imap_no", 299910 * time.Millisecond},
		"Microsoft: throttled, BAD":               {"rate_limited imap_bad", 89117 * time.Millisecond},
		"Microsoft: not connected":                {"transient imap_bad", 0},
		"Microsoft: the access token has expired": {"transient reset", 0},
		"Dovecot: too many connections":           {"rate_limited unavailable", limitWait},
	}
	for _, odd := range imapd.Oddities() {
		t.Run(odd.Name, func(t *testing.T) {
			c, known := wants[odd.Name]
			if !known || odd.Source == "" {
				t.Fatal("nobody says what it means, or where it was seen")
			}
			h := hold(t)
			if odd.Fault.Login != nil || odd.Fault.Select != nil {
				h.checker.lent.take("a").close()
			}
			h.server.Fail("a", odd.Fault)
			ctx := t.Context()
			if odd.Fault.Hang != "" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
			}
			_, err := h.call(ctx, time.Hour)
			failed, ok := errors.AsType[*poller.CheckError](err)
			if !ok || string(failed.Kind)+" "+failed.Code != c.want || failed.RetryAfter != c.wait || failed.Scope != "" && failed.Scope != poller.ScopeAccount && failed.Kind == poller.RateLimited {
				t.Fatalf("got %v, again after %v", err, failed.RetryAfter)
			}
			h.server.Heal("a")
			h.server.Post("a", 1)
			if got := h.found(h.call(t.Context(), time.Hour)); got != "1:2" {
				t.Errorf("after it: got %s", got)
			}
		})
	}
}

// Exchange estimates the size of a mail (https://learn.microsoft.com/en-us/powershell/module/exchange/set-imapsettings,
// EnableExactRFC822Size), and its UIDs have gaps.
func TestSizesThatAreEstimates(t *testing.T) {
	for _, size := range []string{"5", "14", "1000", "9999999"} {
		result, err := scripted(t, greeting, map[string]string{
			"LOGIN": loggedIn, "EXAMINE": "* 2 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 90000] n\r\n{tag} OK [READ-ONLY] done\r\n",
			"SEARCH": "* SEARCH\r\n{tag} OK done\r\n{then}* SEARCH 10000\r\n{tag} OK done\r\n{then}* SEARCH\r\n{tag} OK done\r\n",
			"FETCH":  strings.Replace(mailAt(10000), "RFC822.SIZE 14", "RFC822.SIZE "+size, 1) + "{tag} OK done\r\n",
		})
		if err != nil || len(result.Messages) != 1 {
			t.Fatalf("got %v, %v", ids(result), err)
		}
		var got email.Data
		if err := json.Unmarshal(result.Messages[0].Data, &got); err != nil {
			t.Fatal(err)
		}
		if got.Truncated || got.Size != 14 {
			t.Errorf("%s: truncated %t, of %d bytes", size, got.Truncated, got.Size)
		}
	}
}

// The replies of Gmail and Microsoft to a submission, from
// https://support.google.com/a/answer/3726730 and https://github.com/simonrob/email-oauth2-proxy/issues/193.
func TestOddRepliesToSubmissions(t *testing.T) {
	const (
		tooMany  = "454 4.7.0 Too many login attempts, please try again later. - gsmtp"
		daily    = "550 5.4.5 Daily user sending limit exceeded. - gsmtp"
		disabled = "535 5.7.139 Authentication unsuccessful, SmtpClientAuthentication is disabled for the Tenant. Visit https://aka.ms/smtp_auth_disabled for more information."
		specific = "534 5.7.9 Application-specific password required. - gsmtp"
		throttle = "432 4.3.2 Concurrent connections limit exceeded. Visit https://aka.ms/concurrent_sending for more information."
	)
	for name, c := range map[string]struct {
		step, reply string
		want        string // code, whether it is final, unsent and the account's fault, and the wait
	}{
		"too many logins":         {smtpd.Login, tooMany, "smtp_454 false true false 5m0s"},
		"SMTP is switched off":    {smtpd.Login, disabled, "smtp_535 false true true 0s"},
		"application's password":  {smtpd.Login, specific, "smtp_534 false true true 0s"},
		"the day's limit, sender": {smtpd.Sender, daily, "smtp_550 false false false 1h0m0s"},
		"the day's limit, data":   {smtpd.End, daily, "smtp_550 false false false 1h0m0s"},
		"too many at once":        {smtpd.Login, throttle, "smtp_432 false true false 0s"},
	} {
		for _, logins := range []string{"PLAIN", "LOGIN"} {
			s := startSMTP(t, "none")
			s.Logins = logins
			s.Fail("me", smtpd.Fault{Step: c.step, Reply: c.reply, Times: 1})
			r := textTo(sendingConfig(s, "none", "me"), "a@b", `{"text":"x"}`)
			_, err := sender(t, s).Send(t.Context(), r)
			e, ok := errors.AsType[*poller.SendError](err)
			if !ok {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got := fmt.Sprint(e.Code, e.Final, e.Unsent, e.Account, e.After); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(c.want, " ", "") {
				t.Errorf("%s by %s: got %s, want %s: %v", name, logins, got, c.want, err)
			}
			if _, err := sender(t, s).Send(t.Context(), r); err != nil || len(s.Mails("me")) != 1 {
				t.Errorf("%s by %s, again: %v, %d mails", name, logins, err, len(s.Mails("me")))
			}
		}
	}
}
