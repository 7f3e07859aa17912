package imap

import (
	"regexp"
	"strings"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
)

// sendPattern is the form of a send's id.
var sendPattern = regexp.MustCompile(`^[0-9A-Z]{8,64}$`)

// failedSend returns the send that a mail says could not be delivered; nil: the mail is no bounce of a
// send. A stranger can write such a bounce only if they know the send's id, which the mail to them has.
func failedSend(raw []byte) *poller.FailedSend {
	bounce, ok := email.ReadBounce(raw)
	if !ok {
		return nil
	}
	id, _, ours := strings.Cut(bounce.MessageID, email.IDMark)
	if !ours {
		id = bounce.EnvelopeID
	}
	if !sendPattern.MatchString(id) {
		return nil
	}
	return &poller.FailedSend{ID: id, Code: bounce.Status, Text: bounce.Text}
}
