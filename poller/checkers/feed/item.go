package feed

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/mmcdole/gofeed"

	"github.com/rounds-dev/rounds/poller"
)

const maxID = 256 // bytes

// item is one entry of a feed with its id.
type item struct {
	id     string
	source *gofeed.Item
	base   *url.URL // that relative addresses are resolved against; nil: none
}

// identify returns an item's id: one line, never empty, at most maxID bytes.
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

// hashed returns an id made of parts. Each is hashed with its length, so that two
// different lists never have the same input.
func hashed(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write([]byte(part))
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// message returns the item as the message that is reported.
func (i item) message() poller.Message {
	at := usable(i.source.PublishedParsed)
	if at.IsZero() {
		at = usable(i.source.UpdatedParsed)
	}
	return poller.Message{ID: i.id, Type: "item", Time: at, Data: dataOf(i.source, i.base)}
}

// usable returns the zero time, for unknown, instead of one that RFC 3339 cannot
// express.
func usable(at *time.Time) time.Time {
	if at == nil || at.Year() < 1 || at.Year() > 9998 {
		return time.Time{}
	}
	return at.UTC()
}
