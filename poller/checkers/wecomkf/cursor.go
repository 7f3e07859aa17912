package wecomkf

import (
	"encoding/json"
	"errors"
)

// cursorVersion is that of the cursor's form.
const cursorVersion = 1

// cursor is what is kept between checks.
type cursor struct {
	Version int    `json:"v"`
	KfID    string `json:"kf"`     // whose it is
	Next    string `json:"cursor"` // WeCom's own
}

// decodeCursor returns WeCom's cursor for an account; empty where there is none or
// it is another account's.
func decodeCursor(raw []byte, openKfID string) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	var c cursor
	if err := json.Unmarshal(raw, &c); err != nil {
		return "", err
	}
	if c.Version != cursorVersion || c.Next == "" {
		return "", errors.New("not a cursor of this version")
	}
	if c.KfID != openKfID {
		return "", nil
	}
	return c.Next, nil
}

func encodeCursor(next, openKfID string) ([]byte, error) {
	return json.Marshal(cursor{Version: cursorVersion, KfID: openKfID, Next: next})
}
