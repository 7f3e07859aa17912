package graph

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// FetchFile fetches the mail of a file, and finds the file in it while it comes. All its errors are
// *poller.CheckError.
func (c *Checker) FetchFile(ctx context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return nil, poller.ConfigError(err)
	}
	wanted, failed := email.SectionAt(r)
	if failed != nil {
		return nil, failed
	}
	var body *poller.FileBody
	failed = c.signedIn(ctx, r.Account, config, func(m *mailbox) (failed *poller.CheckError) {
		body, failed = m.file(ctx, r.Message.ID, wanted)
		return failed
	})
	if failed != nil {
		return nil, failed
	}
	return body, nil
}

// file opens a file of a message.
func (m *mailbox) file(ctx context.Context, id string, wanted email.Section) (*poller.FileBody, *poller.CheckError) {
	response, answer, err := m.client.Open(ctx, m.value(id))
	switch {
	case err != nil:
		return nil, fetch.SharedCheckError(err)
	case answer == nil:
		refused := refusalOf(response)
		if response.Status == http.StatusNotFound && refused.code == noItem {
			return nil, poller.NoFile("deleted", "the mail was deleted")
		}
		return nil, refused.CheckError
	}
	mail := fetch.FileOf(response, answer)
	if wanted.Part == nil {
		return &poller.FileBody{ReadCloser: mail.ReadCloser, Size: mail.Size}, nil
	}
	content, err := wanted.In(mail)
	if err != nil {
		_ = mail.Close()
		return nil, noSection(err)
	}
	return &poller.FileBody{ReadCloser: &part{content, mail}}, nil
}

// part is a file within a mail.
type part struct {
	io.Reader
	io.Closer
}

// noSection returns the error for a mail without the file.
func noSection(err error) *poller.CheckError {
	failed, ok := errors.AsType[*poller.CheckError](err)
	switch {
	case ok:
		return failed
	case errors.Is(err, email.ErrNoPart):
		return poller.NoFile("no_part", "the mail has no such part")
	}
	return fetch.ProtocolError(whose, "is not the mail")
}
