package imap

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

const typeText = "text"

var _ poller.Sender = (*Checker)(nil)

// Sending is texts, if the config names an SMTP server.
func (c *Checker) Sending(raw json.RawMessage) poller.Sending {
	config, err := c.form.Read(raw)
	if err != nil || config.smtp == (server{}) {
		return poller.Sending{}
	}
	return poller.Sending{Types: []string{typeText}}
}

// PrepareSend takes {"text": "…"} to an address, with a subject if need be. An answer goes to whom the
// answered mail says, under its subject, and into its thread.
func (c *Checker) PrepareSend(_ json.RawMessage, s *poller.Outgoing, answers *poller.Message) error {
	if answers != nil {
		if err := email.Answer(s, answers); err != nil {
			return err
		}
	}
	err := message.Prepare(s, map[string]func(json.RawMessage) error{
		typeText: func(data json.RawMessage) error { _, err := email.ReadDraft(data); return err },
	})
	if _, wrong := email.BareAddress(s.Peer); wrong != nil {
		err = errors.Join(err, errors.New("to: "+wrong.Error()))
	}
	return err
}

// Send hands one mail to the SMTP server. The mail's Message-ID is the same for each attempt of a send.
// The end is unknown only if the end of the mail was written and no answer came.
func (c *Checker) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	config, err := c.form.Read(r.Config)
	switch {
	case err != nil:
		return poller.Sent{}, poller.Unsent(poller.ConfigError(err))
	case config.smtp == (server{}):
		return poller.Sent{}, poller.Refused("smtp", "the account cannot send any more: its config has no smtp")
	}
	o, err := mailOf(config, r)
	if err != nil {
		return poller.Sent{}, poller.Refused("data", err.Error())
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
	}
	s, err := c.submit(ctx, r.Account, config)
	if err != nil {
		return poller.Sent{}, err
	}
	defer s.close()
	if err := s.send(o, r.ID); err != nil {
		return poller.Sent{}, err
	}
	s.quit()
	return poller.Sent{VendorID: o.ID}, nil
}

// mailOf returns the mail of an attempt.
func mailOf(config config, r poller.SendRequest) (*email.Outgoing, error) {
	to, err := email.BareAddress(r.Peer)
	if err != nil {
		return nil, err
	}
	o := &email.Outgoing{ID: messageID(r.ID, config.from.Address), From: &config.from, To: to, At: time.Now().UTC()}
	o.Draft, err = email.ReadDraft(r.Data)
	return o, err
}

// idMark stands between a send's id and the domain in the Message-ID of its mail.
const idMark = ".rounds@"

// messageID returns the Message-ID of a send's mail, without angle brackets. It is the same for each
// attempt. Nobody can guess it, as nobody can guess the id of a send.
func messageID(send, from string) string {
	return send + idMark + from[strings.LastIndexByte(from, '@')+1:]
}

// send sends a mail.
func (s *submitter) send(o *email.Outgoing, id string) error {
	options := &smtp.MailOptions{UTF8: o.Extended(), Return: smtp.DSNReturnHeaders, EnvelopeID: id}
	if offers, _ := s.client.Extension("SMTPUTF8"); options.UTF8 && !offers {
		return poller.Refused("smtputf8", "the SMTP server takes no addresses with other characters than ASCII before the @")
	}
	if err := s.client.Mail(o.From.Address, options); err != nil {
		return s.failed(stepFrom, err)
	}
	if err := s.client.Rcpt(o.To, &smtp.RcptOptions{Notify: []smtp.DSNNotify{smtp.DSNNotifyFailure}}); err != nil {
		return s.failed(stepRecipient, err)
	}
	data, err := s.client.Data()
	if err != nil {
		return s.failed(stepMail, err)
	}
	if err := o.Write(data); err != nil {
		return s.failed(stepMail, err)
	}
	return s.ended(data.Close())
}

// ended returns what the answer to the end of a mail means. Without an answer nobody knows whether the
// server has the mail.
func (s *submitter) ended(err error) error {
	refused, answered := errors.AsType[*smtp.SMTPError](err)
	switch {
	case err == nil, answered && refused.Code/100 == 2:
		return nil
	case answered && (refused.Code/100 == 4 || refused.Code/100 == 5):
		return s.refused(stepMail, refused)
	case answered:
		return &poller.CheckError{Kind: poller.Protocol, Code: "protocol", Message: stepMail + ": the server's answer is not usable SMTP"}
	}
	return s.broken(stepMail, err)
}

// quitWait is how long a server may take to answer QUIT, which changes nothing.
const quitWait = time.Second

// quit ends the session as servers like it. Nothing depends on it.
func (s *submitter) quit() {
	s.client.CommandTimeout = quitWait
	_ = s.client.Quit()
}
