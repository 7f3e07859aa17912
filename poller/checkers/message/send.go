package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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

// Prepare judges a send. types has the types that the kind sends, each with what judges its data.
func Prepare(s *poller.Outgoing, types map[string]func(data json.RawMessage) error) error {
	var faults []error
	judge, known := types[s.Type]
	if !known {
		faults = append(faults, fmt.Errorf("type: must be %s", strings.Join(slices.Sorted(maps.Keys(types)), " or ")))
	}
	if !Peer(s.Peer) {
		faults = append(faults, errors.New("to: must be 1 to 512 bytes of UTF-8 without control characters"))
	}
	if known {
		faults = append(faults, judge(s.Data))
	}
	return errors.Join(faults...)
}

// PrepareText judges a send of a kind that sends nothing but texts.
func PrepareText(s *poller.Outgoing) error {
	return Prepare(s, map[string]func(json.RawMessage) error{"text": JudgeText})
}

// JudgeText judges the data of a send of type text.
func JudgeText(data json.RawMessage) error {
	_, err := Text(data)
	return err
}

// Peer reports whether the outbox takes a peer.
func Peer(peer string) bool {
	return peer != "" && len(peer) <= poller.MaxPeer && utf8.ValidString(peer) && !strings.ContainsFunc(peer, unicode.IsControl)
}
