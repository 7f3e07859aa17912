package wecomkf

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/rounds-dev/rounds/poller"
)

const (
	maxID   = 256          // bytes
	maxType = 256          // bytes
	lastSec = 253402300799 // of the year 9999: RFC 3339 has no later one
)

// element holds the fields that are read of an element of msg_list. The rest is for
// the messages' readers.
type element struct {
	MsgID    string `json:"msgid"`
	SendTime int64  `json:"send_time"` // unix seconds
	MsgType  string `json:"msgtype"`
	Event    struct {
		EventType string `json:"event_type"`
	} `json:"event"`
}

// message reads an element. It accepts any type, so that WeCom may add some.
func message(raw json.RawMessage) (poller.Message, error) {
	var e element
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &e) != nil {
		return poller.Message{}, errors.New("is not a message")
	}
	m := poller.Message{ID: e.MsgID, Type: e.MsgType, Data: raw}
	if m.Type == "event" && e.Event.EventType != "" {
		m.Type += "." + e.Event.EventType
	}
	if len(m.Type) > maxType || !printable(m.Type) {
		return poller.Message{}, errors.New("msgtype: must be one line of at most 256 bytes")
	}
	if m.ID == "" || len(m.ID) > maxID || !printable(m.ID) {
		sum := sha256.Sum256(raw)
		m.ID = "sha256:" + hex.EncodeToString(sum[:])
	}
	if 0 < e.SendTime && e.SendTime <= lastSec {
		m.Time = time.Unix(e.SendTime, 0).UTC()
	}
	return m, nil
}

func printable(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }
