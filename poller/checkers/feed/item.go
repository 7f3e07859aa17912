package feed

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
	"unicode"

	"github.com/mmcdole/gofeed"

	"github.com/rounds-dev/rounds/poller"
)

const maxID = 256 // bytes

// item is one entry of a feed under the id that it is known by.
type item struct {
	id     string
	source *gofeed.Item
}

// identify returns an item's id: never empty, never over maxID bytes, one line.
func identify(source *gofeed.Item) string {
	for _, id := range []string{source.GUID, source.Link} {
		id = strings.TrimSpace(id)
		if id == "" {
			continue
		}
		if len(id) > maxID || strings.ContainsFunc(id, unicode.IsControl) {
			return hashed(id)
		}
		return id
	}
	return hashed(source.Title, source.Published, source.Content, source.Description)
}

// hashed is an id made of parts, each preceded by its length so that no two
// lists of parts are alike.
func hashed(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write([]byte(part))
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// message is the item as it is reported.
func (i item) message() poller.Message {
	at := usable(i.source.PublishedParsed)
	if at.IsZero() {
		at = usable(i.source.UpdatedParsed)
	}
	return poller.Message{ID: i.id, Type: "item", Time: at, Data: dataOf(i.source)}
}

// usable drops times that RFC 3339 has no form for; zero is unknown.
func usable(at *time.Time) time.Time {
	if at == nil || at.Year() < 1 || at.Year() > 9998 {
		return time.Time{}
	}
	return at.UTC()
}
