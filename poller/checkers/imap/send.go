package imap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
)

var _ poller.Tracer = (*Checker)(nil)

// Sending is texts and files, if the config names an SMTP server.
func (c *Checker) Sending(raw json.RawMessage) poller.Sending {
	config, err := c.form.Read(raw)
	if err != nil || config.smtp == (server{}) {
		return poller.Sending{}
	}
	sending := email.Sending()
	sending.Doubt = poller.DoubtTraces
	return sending
}

// PrepareSend takes a text or a file to an address, see email.Prepare.
func (c *Checker) PrepareSend(raw json.RawMessage, s *poller.Outgoing, answers *poller.Message) error {
	config, _ := c.form.Read(raw) // without a from, if it cannot be read
	return email.Prepare(s, answers, config.from.Address, email.FileRule())
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
	o, err := email.NewOutgoing(r, &config.from, email.FileRule())
	if err != nil {
		return poller.Sent{}, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
	}
	if err := c.handOver(ctx, config, o, r); err != nil {
		return poller.Sent{}, err
	}
	sent := poller.Sent{VendorID: o.ID}
	if err := c.keep(ctx, config, o, r); err != nil { // the mail is accepted in any case
		sent.Warning = unkept(err)
	}
	return sent, nil
}

// handOver gives a mail to the submission server.
func (c *Checker) handOver(ctx context.Context, config config, o *email.Outgoing, r poller.SendRequest) error {
	s, err := c.submit(ctx, r.Account, config)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.send(o, r); err != nil {
		return err
	}
	s.quit()
	return nil
}

// send sends a mail. While it comes from the store of files, it is sent.
func (s *submitter) send(o *email.Outgoing, r poller.SendRequest) error {
	size, err := o.Size()
	if err != nil {
		return poller.Refused("data", "cannot be written as a mail")
	}
	if most, ok := s.client.MaxMessageSize(); ok && most > 0 && size > int64(most) {
		return poller.Refused("size", fmt.Sprintf("the mail has %d bytes, and the SMTP server takes at most %d", size, most))
	}
	options := &smtp.MailOptions{Size: size, UTF8: o.Extended(), Return: smtp.DSNReturnHeaders, EnvelopeID: r.ID}
	if offers, _ := s.client.Extension("SMTPUTF8"); options.UTF8 && !offers {
		return poller.Refused("smtputf8", "the SMTP server takes no addresses with other characters than ASCII before the @")
	}
	var file whole
	if o.File != nil {
		from, err := r.File.Whole(s.ctx)
		if err != nil {
			return poller.Beforehand(err)
		}
		defer func() { _ = from.Close() }() // it was only read
		file.Reader = from
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
	if err := o.Write(data, &file); file.err != nil {
		return poller.Beforehand(file.err)
	} else if err != nil {
		return s.cut(err)
	}
	return s.ended(data.Close())
}

// whole is the file of a mail. It stores why it could not be read.
type whole struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (w *whole) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// cut returns the error of a mail that broke off before its end, after its first bytes.
func (s *submitter) cut(err error) error {
	e := poller.Unsent(s.broken(stepMail, err))
	e.Unsent = false
	return e
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
