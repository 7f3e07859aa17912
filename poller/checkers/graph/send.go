package graph

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const (
	// maxMIME is how many bytes of MIME Graph takes: a request has at most 4 MB, and is the base64 of it.
	maxMIME = 3_000_000
	// maxFile is how many bytes a file may have, so that there is room for its base64 and for a text.
	maxFile = 2 << 20
)

var _ poller.Tracer = (*Checker)(nil)

// rule is what a send of a file may have.
func rule() message.FileRule {
	of := email.FileRule()
	of.Who, of.Most = who, maxFile
	return of
}

// Sending is texts and files, if the config says from which address.
func (c *Checker) Sending(raw json.RawMessage) poller.Sending {
	config, err := c.form.Read(raw)
	if err != nil || config.from == nil {
		return poller.Sending{}
	}
	sending := email.Sending()
	sending.Doubt = poller.DoubtTraces
	return sending
}

// PrepareSend takes a text or a file to an address, see email.Prepare.
func (c *Checker) PrepareSend(raw json.RawMessage, s *poller.Outgoing, answers *poller.Message) error {
	from := ""
	if config, err := c.form.Read(raw); err == nil && config.from != nil {
		from = config.from.Address
	}
	return email.Prepare(s, answers, from, rule())
}

// Send hands one mail to Graph. Its Message-ID is the same for each attempt of a send. Graph takes it
// with 202. An answer of Graph that is an error of the request is a refusal; after any other, and
// without an answer, nobody knows whether Graph has it.
func (c *Checker) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	config, err := c.form.Read(r.Config)
	switch {
	case err != nil:
		return poller.Sent{}, poller.Unsent(poller.ConfigError(err))
	case config.from == nil:
		return poller.Sent{}, poller.Refused("from", "the account cannot send any more: its config has no from")
	}
	o, err := email.NewOutgoing(r, config.from, rule())
	if err != nil {
		return poller.Sent{}, err
	}
	size, err := o.Size()
	switch {
	case err != nil:
		return poller.Sent{}, poller.Refused("data", "cannot be written as a mail")
	case size > maxMIME:
		return poller.Sent{}, poller.Refused("size", fmt.Sprintf("the mail has %d bytes, and Microsoft Graph takes at most %d", size, maxMIME))
	}
	release, err := c.client.Reserve(ctx, 3*size)
	if err != nil {
		return poller.Sent{}, poller.Unsent(fetch.SharedCheckError(err))
	}
	defer release()
	body, err := encode(ctx, o, r.File)
	if err != nil {
		return poller.Sent{}, err
	}
	var end error
	failed := c.signedIn(ctx, r.Account, config, func(m *mailbox) *poller.CheckError {
		var failed *poller.CheckError
		failed, end = m.send(ctx, body)
		return failed
	})
	if failed != nil {
		e := poller.Unsent(failed)
		e.Unsent = failed.Code != codeToken
		return poller.Sent{}, e
	}
	if end != nil {
		return poller.Sent{}, end
	}
	return poller.Sent{VendorID: o.ID}, nil
}

// encode returns the request's body: the base64 of a mail.
func encode(ctx context.Context, o *email.Outgoing, f *poller.SendFile) ([]byte, error) {
	var file io.Reader = strings.NewReader("")
	if o.File != nil {
		from, err := f.Whole(ctx)
		if err != nil {
			return nil, poller.Beforehand(err)
		}
		defer func() { _ = from.Close() }() // it was only read
		file = from
	}
	var body bytes.Buffer
	encoder := base64.NewEncoder(base64.StdEncoding, &body)
	if err := o.Write(encoder, file); err != nil {
		return nil, poller.Beforehand(err)
	}
	_ = encoder.Close() // a buffer takes everything
	return body.Bytes(), nil
}

// send makes the call. The first error says that Graph refuses the access token, and so does not have the
// mail. The second one says how it ended.
func (m *mailbox) send(ctx context.Context, body []byte) (*poller.CheckError, error) {
	call := m.call("/sendMail")
	call.Method, call.Body = http.MethodPost, body
	call.Header.Set("Content-Type", "text/plain")
	response, err := m.client.Do(ctx, call)
	if err != nil {
		return nil, fetch.SendError(err)
	}
	if response.Status == http.StatusAccepted {
		return nil, nil
	}
	refused := refusalOf(response)
	switch {
	case refused.code == "":
	case response.Status == http.StatusUnauthorized:
		return refused.CheckError, nil
	case response.Status == http.StatusForbidden:
		return nil, poller.Refused("graph_403", "Microsoft Graph does not let this sign-in send as the address in from: sign in again, and allow that there")
	case response.Status == http.StatusRequestEntityTooLarge:
		return nil, poller.Refused("size", "Microsoft Graph does not take such a long mail")
	}
	return nil, fetch.SendStatusError(who, response)
}

// Trace looks into Sent Items for the mail of a send, by its Message-ID.
func (c *Checker) Trace(ctx context.Context, r poller.SendRequest) (sent poller.Sent, found bool, err error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return sent, false, poller.ConfigError(err)
	}
	if config.from == nil {
		return sent, false, nil
	}
	id := email.MessageID(r.ID, config.from.Address)
	query := "?$select=internetMessageId&$top=1&$filter=" + strings.ReplaceAll(url.QueryEscape("internetMessageId eq '<"+strings.ReplaceAll(id, "'", "''")+">'"), "+", "%20")
	failed := c.signedIn(ctx, r.Account, config, func(m *mailbox) *poller.CheckError {
		var page changes
		_, failed := m.get(ctx, m.call("/mailFolders/sentitems/messages"+query), pageLimits(), &page)
		found = failed == nil && len(page.Value) > 0 && page.Value[0].MessageID == "<"+id+">"
		return failed
	})
	if failed != nil {
		return sent, false, failed
	}
	if found {
		sent.VendorID = id
	}
	return sent, found, nil
}
