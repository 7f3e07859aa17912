package wecomkf

import (
	"encoding/json"
	"errors"
)

// cursorVersion is the version of the cursor's format.
const cursorVersion = 1

// cursor is what is kept between checks.
type cursor struct {
	Version int    `json:"v"`
	KfID    string `json:"kf"`     // the account that it belongs to
	Next    string `json:"cursor"` // WeCom's own
}

// decodeCursor returns WeCom's cursor for an account. It is empty if there is none or
// it belongs to another account.
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
