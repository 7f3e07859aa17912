package imap

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
)

// keepTime is the time for the append of a mail that was accepted.
const keepTime = 10 * time.Second

// sentNames are the usual names of the folder of sent mail, in lower case, the likeliest first. A server
// that does not say which one it is may have several.
func sentNames() []string {
	return []string{"sent", "sent items", "sent messages", "sent mail", "已发送", "已发送邮件"}
}

// folders are where own mails may be; empty: there is none.
type folders struct {
	sent string
	all  string // has all mail, as at Gmail
}

// folders finds the folders: by their special use (RFC 6154), or that of sent mail by its name.
func (s *session) folders() (f folders, err error) {
	uses, err := s.specialUses()
	if f.sent, f.all = uses[imap.MailboxAttrSent], uses[imap.MailboxAttrAll]; err != nil || f.sent != "" {
		return f, err
	}
	s.conn.allow(maxList)
	listed, err := s.client.List("", "*", nil).Collect()
	if err != nil {
		return f, s.failed(err, "LIST", readRefused)
	}
	rank := len(sentNames())
	for _, box := range listed {
		if slices.Contains(box.Attrs, imap.MailboxAttrNoSelect) || slices.Contains(box.Attrs, imap.MailboxAttrNonExistent) {
			continue
		}
		name := box.Mailbox
		if box.Delim != 0 {
			name = name[strings.LastIndexByte(name, byte(box.Delim))+1:]
		}
		if usual := slices.Index(sentNames(), strings.ToLower(name)); usual >= 0 && usual < rank {
			f.sent, rank = box.Mailbox, usual
		}
	}
	return f, nil
}

// has reports whether a folder has a mail with a Message-ID.
func (s *session) has(folder, id string) (bool, error) {
	if folder == "" {
		return false, nil
	}
	if _, err := s.examine(folder); err != nil {
		return false, err
	}
	s.conn.allow(searchSlack)
	found, err := s.client.UIDSearch(&imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{{Key: "Message-ID", Value: id}}}, nil).Wait()
	if err != nil {
		return false, s.failed(err, "search", readRefused)
	}
	return found.All != nil && len(found.AllUIDs()) > 0, nil
}

// unkept returns the warning about an accepted mail that the folder of sent mail does not have.
func unkept(err error) poller.Warning {
	failed := poller.Classify(err)
	return poller.Warning{Code: "not_in_sent", Message: "the mail was accepted, but is not in the folder of sent mail: " + failed.Message}
}

// appendRefused returns the error for a NO to APPEND.
func appendRefused(status *imap.Error) *poller.CheckError {
	return &poller.CheckError{Kind: poller.Transient, Code: codeOf(status), Message: "append: the server refused: " + said(status)}
}

// keep appends an accepted mail to the folder of sent mail, unless it is there.
func (c *Checker) keep(ctx context.Context, config config, o *email.Outgoing, r poller.SendRequest) error {
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	s, err := c.ownMail(ctx, r.Account, config)
	if err != nil {
		return err
	}
	defer s.close()
	f, err := s.folders()
	if err != nil || f.sent == "" {
		return err
	}
	if is, err := s.has(f.sent, o.ID); is || err != nil {
		return err
	}
	size, err := o.Size()
	if err != nil {
		return err
	}
	var file io.Reader
	if r.File != nil {
		from, err := r.File.Whole(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }() // it was only read
		file = from
	}
	command := s.client.Append(f.sent, size, &imap.AppendOptions{Flags: []imap.Flag{imap.FlagSeen}, Time: o.At})
	err = o.Write(command, file)
	if err != nil {
		s.close() // an append that is not whole is none
	}
	if closed := command.Close(); err == nil && closed != nil {
		err = s.failed(closed, "append", appendRefused)
	}
	if err != nil {
		return err
	}
	if _, err = command.Wait(); err != nil {
		return s.failed(err, "append", appendRefused)
	}
	return nil
}

// ownMail logs in to look at own mails.
func (c *Checker) ownMail(ctx context.Context, account string, config config) (*session, error) {
	with, err := c.credential(ctx, account, config, config.imap(), nil)
	if err != nil {
		return nil, err
	}
	return c.enter(ctx, account, config, with)
}

// Trace looks for the mail of a send among sent mail, and among all mail where the server has a folder of
// it. All its errors are *poller.CheckError.
func (c *Checker) Trace(ctx context.Context, r poller.SendRequest) (sent poller.Sent, found bool, err error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return poller.Sent{}, false, poller.ConfigError(err)
	}
	if config.smtp == (server{}) {
		return poller.Sent{}, false, nil
	}
	s, err := c.ownMail(ctx, r.Account, config)
	if err != nil {
		return poller.Sent{}, false, err
	}
	defer s.close()
	f, err := s.folders()
	if err != nil {
		return poller.Sent{}, false, err
	}
	id := email.MessageID(r.ID, config.from.Address)
	for _, folder := range []string{f.sent, f.all} {
		if found, err := s.has(folder, id); found || err != nil {
			return poller.Sent{VendorID: id}, found, err
		}
	}
	return poller.Sent{}, false, nil
}
