package email

import (
	"encoding/json"
	"errors"
	"net/mail"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

const typeText = "text"

// FileTypes are the types of sends that are files. A mail has each as an attachment.
func FileTypes() []string { return []string{"file", "image", "video", "voice"} }

// Sending is what an account can send that sends any mail.
func Sending() poller.Sending {
	return poller.Sending{Types: append([]string{typeText}, FileTypes()...), Files: FileTypes()}
}

// Prepare takes {"text": "…"} or {"file": "ID", "caption": "…"} to an address, with a subject if need be.
// An answer goes to whom the answered mail says, under its subject, and into its thread. from is the
// account's own address; empty: unknown.
func Prepare(s *poller.Outgoing, answers *poller.Message, from string, rule message.FileRule) error {
	if answers != nil {
		named := s.Peer != ""
		if err := Answer(s, answers); err != nil {
			return err
		}
		// A folder of sent mail may be read too.
		if !named && strings.EqualFold(s.Peer, from) {
			return errors.New("reply_to: the account has sent this mail itself: name whom the answer is for in to")
		}
	}
	types := make(map[string]func(json.RawMessage) error)
	for _, name := range append(FileTypes(), typeText) {
		types[name] = func(data json.RawMessage) error {
			_, err := draftOf(name, data, s.File, rule)
			return err
		}
	}
	err := message.Prepare(s, types)
	if _, wrong := BareAddress(s.Peer); wrong != nil {
		err = errors.Join(err, errors.New("to: "+wrong.Error()))
	}
	return err
}

// draftOf reads the data of a send, and judges its file if it is known.
func draftOf(kind string, data json.RawMessage, f *poller.File, rule message.FileRule) (Draft, error) {
	if kind == typeText {
		return ReadDraft(data)
	}
	return ReadFileDraft(data, f, rule)
}

// NewOutgoing returns the mail of an attempt. Its errors are *poller.SendError.
func NewOutgoing(r poller.SendRequest, from *mail.Address, rule message.FileRule) (*Outgoing, error) {
	o := &Outgoing{ID: MessageID(r.ID, from.Address), From: from, At: time.Now().UTC()}
	var err error
	if o.To, err = BareAddress(r.Peer); err != nil {
		return nil, poller.Refused("to", err.Error())
	}
	if o.Draft, err = draftOf(r.Type, r.Data, nil, rule); err != nil {
		return nil, poller.Refused("data", err.Error())
	}
	if slices.Contains(FileTypes(), r.Type) {
		if err := rule.Fits(r.File); err != nil {
			return nil, err
		}
		o.File = &r.File.File
	}
	return o, nil
}

// IDMark stands between a send's id and the domain in the Message-ID of its mail.
const IDMark = ".rounds@"

// MessageID returns the Message-ID of a send's mail, without angle brackets. It is the same for each
// attempt. Nobody can guess it, as nobody can guess the id of a send.
func MessageID(send, from string) string {
	return send + IDMark + from[strings.LastIndexByte(from, '@')+1:]
}
