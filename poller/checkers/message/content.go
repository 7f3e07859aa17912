package message

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Content returns a message's Content, what identifies it besides its id: a digest of a JSON text.
// Neither the order of fields nor spaces matter. Fields for which drop returns true are left out,
// at every depth: a third party may write them anew each time that it gives the message. It returns
// "" if the text is not JSON.
func Content(raw []byte, drop func(field string) bool) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return ""
	}
	without(value, drop)
	canonical, err := json.Marshal(value) // it sorts the fields
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// without removes fields from all objects within a value.
func without(value any, drop func(field string) bool) {
	switch v := value.(type) {
	case map[string]any:
		for field, within := range v {
			if drop(field) {
				delete(v, field)
			} else {
				without(within, drop)
			}
		}
	case []any:
		for _, within := range v {
			without(within, drop)
		}
	}
}
