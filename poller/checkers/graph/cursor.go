package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
)

// maxToken is how many bytes a state token may have. A URL has to have room for it.
const maxToken = 8 << 10

// cursor is where an account's next check goes on. Its text is JSON. It has one of the two tokens.
type cursor struct {
	// Of names the folder to which the token belongs.
	Of    string `json:"of"`
	Skip  string `json:"skip,omitempty"`  // $skiptoken: within a round
	Delta string `json:"delta,omitempty"` // $deltatoken: after a round
	// Seen is the time of the newest message of all finished rounds, and Newest that of the round
	// under way; 0: there was none. In Unix seconds.
	Seen   int64 `json:"seen,omitempty"`
	Newest int64 `json:"newest,omitempty"`
}

// folderOf names a folder of an account.
func folderOf(c config) string {
	sum := sha256.Sum256([]byte(c.base + "|" + c.oauth.Name + "|" + c.folder))
	return hex.EncodeToString(sum[:8])
}

var errCursor = errors.New("graph: broken cursor")

// decodeCursor reads a cursor; it is zero at first.
func decodeCursor(raw []byte) (c cursor, err error) {
	if len(raw) == 0 {
		return c, nil
	}
	if json.Unmarshal(raw, &c) != nil || c.Of == "" || (c.Skip == "") == (c.Delta == "") || len(c.Skip)+len(c.Delta) > maxToken || c.Seen < 0 || c.Newest < 0 {
		return cursor{}, errCursor
	}
	return c, nil
}

// encode returns the cursor's text.
func (c cursor) encode() []byte {
	text, _ := json.Marshal(c) // it cannot fail
	return text
}

const (
	overlap       = time.Hour // before the newest message, when a check begins anew
	rememberedFor = 24 * time.Hour
)

// since returns from when a check that begins anew asks; zero: from whenever. The hour before the newest
// known message is asked for again, because messages do not come in the order of their time, but only
// as long as the account remembers what it has of that hour.
func (c cursor) since(now time.Time) time.Time {
	if c.Seen == 0 {
		return time.Time{}
	}
	seen := time.Unix(c.Seen, 0).UTC()
	if now.Sub(seen) < rememberedFor {
		return seen.Add(-overlap)
	}
	return seen.Add(time.Second)
}
