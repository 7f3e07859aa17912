package imap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

const typeText = "text"

// fileTypes are the types of sends that are files. A mail has each as an attachment.
func fileTypes() []string { return []string{"file", "image", "video", "voice"} }

var _ poller.Tracer = (*Checker)(nil)

// Sending is texts and files, if the config names an SMTP server.
func (c *Checker) Sending(raw json.RawMessage) poller.Sending {
	config, err := c.form.Read(raw)
	if err != nil || config.smtp == (server{}) {
		return poller.Sending{}
	}
	return poller.Sending{Types: append([]string{typeText}, fileTypes()...), Files: fileTypes(), Doubt: poller.DoubtTraces}
}

// PrepareSend takes {"text": "…"} or {"file": "ID", "caption": "…"} to an address, with a subject if
// need be. An answer goes to whom the answered mail says, under its subject, and into its thread.
func (c *Checker) PrepareSend(raw json.RawMessage, s *poller.Outgoing, answers *poller.Message) error {
	if answers != nil {
		named := s.Peer != ""
		if err := email.Answer(s, answers); err != nil {
			return err
		}
		// A mailbox of sent mail may be read too.
		if config, err := c.form.Read(raw); err == nil && !named && strings.EqualFold(s.Peer, config.from.Address) {
			return errors.New("reply_to: the account has sent this mail itself: name whom the answer is for in to")
		}
	}
	types := make(map[string]func(json.RawMessage) error)
	for _, name := range append(fileTypes(), typeText) {
		types[name] = func(data json.RawMessage) error {
			_, err := draftOf(name, data, s.File)
			return err
		}
	}
	err := message.Prepare(s, types)
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
	_ = c.keep(ctx, config, o, r) // the mail is accepted in any case
	return poller.Sent{VendorID: o.ID}, nil
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

// draftOf reads the data of a send, and judges its file if it is known.
func draftOf(kind string, data json.RawMessage, f *poller.File) (email.Draft, error) {
	if kind == typeText {
		return email.ReadDraft(data)
	}
	return email.ReadFileDraft(data, f)
}

// mailOf returns the mail of an attempt. Its errors are *poller.SendError.
func mailOf(config config, r poller.SendRequest) (*email.Outgoing, error) {
	o := &email.Outgoing{ID: messageID(r.ID, config.from.Address), From: &config.from, At: time.Now().UTC()}
	var err error
	if o.To, err = email.BareAddress(r.Peer); err != nil {
		return nil, poller.Refused("to", err.Error())
	}
	if o.Draft, err = draftOf(r.Type, r.Data, nil); err != nil {
		return nil, poller.Refused("data", err.Error())
	}
	if slices.Contains(fileTypes(), r.Type) {
		if err := email.FileRule().Fits(r.File); err != nil {
			return nil, err
		}
		o.File = &r.File.File
	}
	return o, nil
}

// idMark stands between a send's id and the domain in the Message-ID of its mail.
const idMark = ".rounds@"

// messageID returns the Message-ID of a send's mail, without angle brackets. It is the same for each
// attempt. Nobody can guess it, as nobody can guess the id of a send.
func messageID(send, from string) string {
	return send + idMark + from[strings.LastIndexByte(from, '@')+1:]
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
