package message

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
)

var (
	errText   = errors.New(`data: must be {"text": "…"} with a text that is not empty`)
	errUTF8   = errors.New("data.text: must be UTF-8 without NUL")
	errMember = errors.New("data: has other members than text")
)

// Text returns the text of a send of type text, whose data is {"text": "…"}.
func Text(data json.RawMessage) (string, error) {
	fields, ok := strict.Members(data)
	text, isText := strict.TextIn(fields, "text")
	switch {
	case !ok || !isText || strings.TrimSpace(text) == "":
		return "", errText
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "", errUTF8
	case len(fields) != 1:
		return "", errMember
	}
	return text, nil
}

// PrepareText judges a send of a kind that sends nothing but texts.
func PrepareText(s *poller.Outgoing) error {
	var faults []error
	if s.Type != "text" {
		faults = append(faults, errors.New(`type: must be "text"`))
	}
	if !Peer(s.Peer) {
		faults = append(faults, errors.New("to: must be 1 to 512 bytes of UTF-8 without control characters"))
	}
	if _, err := Text(s.Data); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Peer reports whether the outbox takes a peer.
func Peer(peer string) bool {
	return peer != "" && len(peer) <= poller.MaxPeer && utf8.ValidString(peer) && !strings.ContainsFunc(peer, unicode.IsControl)
}
