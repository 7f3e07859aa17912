package imap

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/oauth"
)

const (
	portSubmissions = 465 // RFC 8314
	portSubmission  = 587 // RFC 6409
)

// submissionEntries are the fields of an account that sends. They are read after the user.
func submissionEntries(client *fetch.Client) []strict.Entry[config] {
	return []strict.Entry[config]{
		{
			Field: strict.Field{
				Name: "smtp", Type: strict.ObjectType, Example: map[string]any{"host": "smtp.example.com"},
				Label: strict.Words{EN: "Outgoing mail", ZH: "发信服务器"},
				Help: strict.Words{
					EN: "The server that takes answers, with the same user and password: host, and if need be tls (implicit, starttls or none) and port (465 with TLS from the start, otherwise 587). Left out: the account cannot send.",
					ZH: "接收回复的服务器，用户名和密码相同：host，必要时加 tls（implicit、starttls 或 none）和 port（一开始就用 TLS 为 465，否则为 587）。不填时该账号不能发送。",
				},
			},
			Read: func(v strict.Value, c *config) { c.smtp = readSubmission(v, client) },
		},
		{
			Field: strict.Field{
				Name: "from", Type: strict.TextType, Example: "Support <support@example.com>",
				Label: strict.Words{EN: "From", ZH: "发件人"},
				Help:  strict.Words{EN: "The address that answers come from, if it is not the user, with or without a name.", ZH: "回复的发件地址，可带名称；不填时用用户名。"},
			},
			Read: readFrom,
		},
	}
}

func readSubmission(v strict.Value, client *fetch.Client) (s server) {
	raw := v.Raw()
	if raw == nil {
		return s
	}
	members, ok := strict.Members(raw)
	if !ok {
		v.Fault(`must be an object such as {"host": "smtp.example.com"}`)
		return s
	}
	r := v.Reader().In("smtp", members)
	s.tls = tlsImplicit
	given := r.Text("host")
	dialled, err := strict.Hostname(given)
	if s.host = strings.TrimSuffix(dialled, "."); err != nil {
		r.Refuse("host", errHost)
	}
	r.Optional("tls", "implicit, starttls or none", &s.tls)
	if s.port = portSubmission; s.tls == tlsImplicit {
		s.port = portSubmissions
	} else if s.tls != tlsStart && s.tls != tlsNone {
		r.Fault("tls", "must be implicit, starttls or none")
	}
	if raw := r.Take("port"); raw != nil && (json.Unmarshal(raw, &s.port) != nil || s.port < 1 || s.port > 65535) {
		r.Fault("port", "must be a number from 1 to 65535")
		s.port = 0
	}
	if s.host != "" {
		if err := client.ValidateHostPort(s.host, uint16(s.port)); errors.Is(err, fetch.ErrPrivate) {
			r.Refuse("host", err)
		} else if err != nil {
			r.Refuse("host", errHost)
		}
	}
	r.Known("host", "port", "tls")
	r.Unknown()
	return s
}

// readFrom reads from. The user is the default of an account that sends.
func readFrom(v strict.Value, c *config) {
	given := v.Text()
	if given == "" {
		if c.from.Address, _ = email.BareAddress(c.user); c.from.Address == "" && c.smtp != (server{}) && c.user != "" {
			v.Fault("missing: the user is no address, so say which one answers come from")
		}
		return
	}
	var ok bool
	if c.from, ok = email.ReadFrom(oneLine(v, given)); !ok {
		v.Fault("must be an address such as support@example.com or Support <support@example.com>")
	}
}

// submitter is one connection to a submission server.
type submitter struct {
	ctx    context.Context
	conn   *metered
	client *smtp.Client
	secret string // the password or access token; no error may have it
}

// submit connects to the account's submission server and logs in. If the server refuses an access
// token, it tries once more, with another one. Its errors are *poller.SendError, and say that no byte
// of a mail left.
func (c *Checker) submit(ctx context.Context, account string, config config) (*submitter, error) {
	var refused *oauth.Access
	for {
		with, err := c.credential(ctx, account, config, config.smtp, refused)
		if err != nil {
			return nil, poller.Unsent(err)
		}
		s, err := c.reach(ctx, config, with)
		if err == nil {
			return s, nil
		}
		failed, ok := errors.AsType[*poller.SendError](err)
		if refused != nil || with.access == nil || !ok || !failed.Account || !c.options.OAuth.Drop(ctx, with.access) {
			return nil, err
		}
		refused = with.access
	}
}

// reach connects to the account's submission server and logs in.
func (c *Checker) reach(ctx context.Context, config config, with credential) (*submitter, error) {
	to := config.smtp
	conn, err := c.client.Dial(ctx, net.JoinHostPort(to.host, strconv.Itoa(to.port)))
	if err != nil {
		return nil, poller.Unsent(fetch.SharedCheckError(err))
	}
	if to.tls == tlsNone && !private(conn.RemoteAddr()) {
		_ = conn.Close()
		return nil, poller.Unsent(&poller.CheckError{Kind: poller.ConfigInvalid, Code: "config", Message: "config.smtp.tls: must not be none towards the public internet"})
	}
	s := &submitter{ctx: ctx, conn: meter(ctx, conn, overhead), secret: with.secret()}
	if err := s.greet(to, c.options); err != nil {
		s.close()
		return nil, err
	}
	if err := s.login(config, with); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// greet begins TLS and the session.
func (s *submitter) greet(to server, o Options) error {
	settings := &tls.Config{ServerName: to.host, RootCAs: o.Roots, MinVersion: tls.VersionTLS12}
	switch to.tls {
	case tlsImplicit:
		settings.NextProtos = []string{"smtp"}
		encrypted := tls.Client(s.conn, settings)
		if err := encrypted.HandshakeContext(s.ctx); err != nil {
			return s.failed("TLS", err)
		}
		s.client = smtp.NewClient(encrypted)
	case tlsStart:
		// The client drops what the server sent behind its answer in plain text, and only a TLS
		// connection gets further commands.
		var err error
		if s.client, err = smtp.NewClientStartTLS(s.conn, settings); err != nil {
			return s.failed(stepStart, err)
		}
	default:
		s.client = smtp.NewClient(s.conn)
	}
	if err := s.client.Hello("localhost"); err != nil {
		return s.failed("greeting", err)
	}
	return nil
}

// login logs in, unless the server knows no logins: one in a private network may take mail without.
func (s *submitter) login(config config, with credential) error {
	offers, _ := s.client.Extension("AUTH")
	var how sasl.Client
	switch {
	case !offers:
		return nil
	case with.access != nil:
		bearer, ok := newBearer(config.user, with.access.Token, config.smtp, s.client.SupportsAuth)
		if !ok {
			return poller.Unsent(errNoBearer())
		}
		how = bearer
	case s.client.SupportsAuth(sasl.Plain):
		how = sasl.NewPlainClient("", config.user, with.password)
	case s.client.SupportsAuth(sasl.Login):
		how = &prompted{answers: []string{config.user, with.password}}
	default:
		return poller.Unsent(&poller.CheckError{Kind: poller.ConfigInvalid, Code: "login", Message: "login: the SMTP server offers neither PLAIN nor LOGIN"})
	}
	if err := s.client.Auth(how); err != nil {
		return s.failed(stepLogin, err)
	}
	return nil
}

// prompted is a SASL client of LOGIN (draft-murchison-sasl-login). The server asks for the user first
// and for the password then, in words that differ. The client of package sasl knows one of these, and
// sends the user unasked.
type prompted struct{ answers []string }

// Start implements sasl.Client.
func (*prompted) Start() (mechanism string, first []byte, err error) { return sasl.Login, nil, nil }

// Next implements sasl.Client.
func (p *prompted) Next([]byte) (answer []byte, err error) {
	if len(p.answers) == 0 {
		return nil, sasl.ErrUnexpectedServerChallenge
	}
	answer, p.answers = []byte(p.answers[0]), p.answers[1:]
	return answer, nil
}

const (
	// codeBusyLogin is the answer to a login that may succeed later (RFC 4954, section 4). Gmail's is "Too
	// many login attempts", and further ones prolong it.
	codeBusyLogin = 454
	congestedWait = time.Hour // for a limit that is counted over a day
)

// codeLogin is the answer of servers that take no mail without a login (RFC 4954, section 6).
const codeLogin = 530

// The steps of a submission that decide what a refusal means.
const (
	stepLogin     = "login"
	stepFrom      = "sender"
	stepRecipient = "recipient"
	stepMail      = "mail"
)

// failed returns the error of a step before the end of the mail. The server then has no mail for
// certain: it must not deliver one without its end (RFC 5321, section 4.1.1.4).
func (s *submitter) failed(step string, err error) error {
	if refused, ok := errors.AsType[*smtp.SMTPError](err); ok {
		return s.refused(step, refused)
	}
	return poller.Unsent(s.broken(step, err))
}

// refused returns the error for an answer that is a refusal. What the server refuses before it was
// told of a mail is not the mail's fault.
func (s *submitter) refused(step string, err *smtp.SMTPError) *poller.SendError {
	e := &poller.SendError{Code: fmt.Sprintf("smtp_%d", err.Code), Message: fmt.Sprintf("%s: the SMTP server refused: %d", step, err.Code)}
	if code := err.EnhancedCode; code[0] > 0 {
		e.Message += fmt.Sprintf(" %d.%d.%d", code[0], code[1], code[2])
	}
	if said := words(err.Message, s.secret); said != "" {
		e.Message += " " + said
	}
	final := err.Code/100 == 5
	switch {
	case err.EnhancedCode[0] == 5 && err.EnhancedCode[1] == 4 && err.EnhancedCode[2] == 5:
		// Gmail's daily limit, of which the code itself says that it passes (RFC 3463, section 3.5).
		final, e.After = false, congestedWait
	case err.Code == codeBusyLogin:
		e.After = limitWait
	}
	switch {
	case step == stepLogin, err.Code == codeLogin:
		e.Account, e.Unsent = final, true
	case step == stepFrom, step == stepRecipient, step == stepMail:
		e.Final = final
	default:
		e.Unsent = true
	}
	return e
}

// broken returns the error for a connection that ended, or an answer that cannot be read.
func (s *submitter) broken(step string, err error) *poller.CheckError {
	if s.ctx.Err() == nil && s.conn.tooLarge.Load() {
		return &poller.CheckError{Kind: poller.Protocol, Code: string(fetch.CodeTooLarge), Message: step + ": " + fetch.ErrTooLarge.Error(), Err: fetch.ErrTooLarge}
	}
	failed := fetch.CheckError(fetch.Broken(s.ctx, err))
	switch fetch.Code(failed.Code) {
	case fetch.CodeTimeout:
		if !s.conn.heard.Load() {
			failed.Message = "the SMTP server sent no greeting in time: this may be the port of another service, or one that needs another config.smtp.tls"
		}
	case fetch.CodeHTTP:
		if failed.Kind, failed.Code, failed.Message = poller.Protocol, "protocol", step+": the server's answer is not usable SMTP"; step == stepStart && !unreadable(err) {
			failed.Kind, failed.Code, failed.Message = poller.Transient, "starttls", stepStart+": the SMTP server does not offer it"
		}
	case fetch.CodeTLS:
		if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
			failed.Message = "the server does not speak TLS on this port; set config.smtp.tls to starttls (mostly port 587) or none"
		}
	}
	return failed
}

// close ends the connection. Nothing may be said on it that ends a mail.
func (s *submitter) close() { _ = s.conn.Close() }

// unreadable reports whether an answer was no SMTP, and not a connection that broke.
func unreadable(err error) bool {
	_, ok := errors.AsType[textproto.ProtocolError](err)
	return ok || errors.Is(err, smtp.ErrTooLongLine)
}
