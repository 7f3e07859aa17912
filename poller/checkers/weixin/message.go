package weixin

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

const (
	maxID    = 256       // bytes
	maxData  = 256 << 10 // bytes of a message that the pool stores
	maxKept  = 1 << 10   // bytes of each field that remains of a message that is too large
	typeBot  = 2         // message_type of what a bot has sent
	typeNone = "none"
)

// head bounds the fields of a message, and inside everything in them.
var (
	head   = strict.Limits{Depth: limits.Depth, Values: 1000, Within: 1}
	inside = strict.Limits{Depth: 64, Values: 20_000, Within: 64}
)

// itemTypes are the types of items by their number.
var itemTypes = map[int64]string{1: "text", 2: "image", 3: "voice", 4: "file", 5: "video"}

// readMessage reads an element of msgs, and says what is wrong with it. It reads anything, because
// the server does not give the element again.
func readMessage(raw json.RawMessage) (m poller.Message, fault string) {
	m = poller.Message{ID: message.ID(raw), Type: "malformed", Data: raw, NoID: true}
	if _, err := head.Check(raw); err != nil {
		m.Data = reduced(nil, len(raw))
		return m, "a message has " + err.Error() + " fields, and nothing of it is kept"
	}
	fields, ok := strict.Members(raw)
	if !ok {
		if len(raw) > maxData {
			m.Data = reduced(nil, len(raw))
		}
		return m, "an element of msgs is not an object"
	}
	if id := idOf(fields["message_id"]); id != "" {
		m.ID, m.NoID = id, false
	}
	if ms, ok := number(fields["create_time_ms"]); ok {
		m.Time = message.Time(ms)
	}
	m.Answerable = answerable(fields, m.Time, time.Now())
	if _, err := inside.Check(raw); err != nil {
		delete(fields, "item_list")
		m.Data, fault = reduced(fields, len(raw)), "a message has "+err.Error()+", and only its head is kept"
	} else if len(raw) > maxData {
		m.Data, fault = reduced(fields, len(raw)), fmt.Sprintf("a message has more than %d KiB, and only its head is kept", maxData>>10)
	}
	m.Type = typeOf(fields)
	m.Content = contentOf(fields)
	return m, fault
}

// contentOf returns what stays the same when the server gives a message again: who sent it, when,
// and its items, without their media's addresses and keys. It returns "" if the message lacks any of
// these, as one that is too large does.
func contentOf(fields map[string]json.RawMessage) string {
	kept := make(map[string]json.RawMessage)
	for _, name := range []string{"from_user_id", "create_time_ms", "item_list"} {
		if raw := fields[name]; len(raw) > 0 && !strict.IsNull(raw) {
			kept[name] = raw
		}
	}
	if ms, ok := number(kept["create_time_ms"]); !ok || ms <= 0 || len(kept) < 3 {
		return ""
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return ""
	}
	return message.Content(raw, changes)
}

// changes reports whether a field within an item may change from fetch to fetch: the address of a
// medium, what its address is made of, and the message's id.
func changes(field string) bool {
	return field == "msg_id" || field == "url" || strings.HasSuffix(field, "_url") || field == "media" || strings.HasSuffix(field, "_media") ||
		strings.HasPrefix(field, "encrypt") || field == "aeskey" || field == "aes_key"
}

// idOf returns a message_id as it is written, or "" if it is not an id. It never reads the id as a
// number, because it has 64 bits.
func idOf(raw json.RawMessage) string {
	id := strings.TrimSpace(string(raw))
	if text, ok := textOf(raw); ok {
		id = text
	} else if id == "" || strings.Trim(id, "0123456789") != "" {
		return ""
	}
	if id == "0" || len(id) > maxID || strings.ContainsFunc(id, unicode.IsControl) {
		return ""
	}
	return id
}

// typeOf returns the type of the first item.
func typeOf(fields map[string]json.RawMessage) string {
	found := typeNone
	var items []json.RawMessage
	if json.Unmarshal(fields["item_list"], &items) == nil && len(items) > 0 {
		found = "item"
		if item, ok := strict.Members(items[0]); ok {
			if n, ok := number(item["type"]); ok {
				if found, ok = itemTypes[n]; !ok {
					found = "item." + strconv.FormatInt(n, 10)
				}
			}
		}
	}
	if n, ok := number(fields["message_type"]); ok && n == typeBot {
		return "bot." + found
	}
	return found
}

// reduced returns the head of a message that is too large to be stored.
func reduced(fields map[string]json.RawMessage, size int) json.RawMessage {
	kept := map[string]json.RawMessage{"rounds_omitted_bytes": json.RawMessage(strconv.Itoa(size))}
	for _, name := range []string{"seq", "message_id", "from_user_id", "to_user_id", "create_time_ms", "session_id", "group_id", "message_type", "message_state", "context_token"} {
		raw := fields[name]
		if len(raw) > 0 && len(raw) <= maxKept && raw[0] != '{' && raw[0] != '[' {
			kept[name] = raw
		}
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return json.RawMessage(`{}`) // its parts are valid
	}
	return text
}
