package feed

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/mmcdole/gofeed"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

const maxID = 256 // bytes

// item is one entry of a feed with its id.
type item struct {
	id     string
	source *gofeed.Item
	base   *url.URL // resolves relative addresses; nil: there is none
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

// hashed returns an id made of parts. Each part is hashed with its length, so that
// different lists never have the same input.
func hashed(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write([]byte(part))
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// message returns the message for the item.
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

// A message's data stays under 256 KiB together with its surroundings.
const (
	maxData       = 252 << 10
	maxContent    = 192 << 10
	maxSummary    = 32 << 10
	maxLine       = 4 << 10 // title, author, an address
	maxCategories = 64
	maxEnclosures = 32
)

// data is the data of an item's message. Fields that the feed lacks are left out.
type data struct {
	Title      string      `json:"title,omitempty"`
	Link       string      `json:"link,omitempty"`
	Author     string      `json:"author,omitempty"`
	Summary    string      `json:"summary,omitempty"`
	Content    string      `json:"content,omitempty"`
	Published  *time.Time  `json:"published,omitempty"`
	Updated    *time.Time  `json:"updated,omitempty"`
	Categories []string    `json:"categories,omitempty"`
	Enclosures []enclosure `json:"enclosures,omitempty"`
	// Truncated says that this item was too long and was cut.
	Truncated bool `json:"truncated,omitempty"`

	base *url.URL // see item
}

type enclosure struct {
	URL    string `json:"url"`
	Type   string `json:"type,omitempty"`
	Length string `json:"length,omitempty"` // as the feed has it
}

// dataOf returns an item's data, cut to the limits. Escaping makes text up to six times
// longer, so data that is still too long is cut again, the longest part first.
func dataOf(source *gofeed.Item, base *url.URL) json.RawMessage {
	d := &data{base: base}
	d.Title = d.cut(source.Title, maxLine)
	d.Link = d.whole(source.Link, maxLine)
	d.Author = d.cut(author(source), maxLine)
	d.Summary = d.cut(source.Description, maxSummary)
	d.Content = d.cut(source.Content, maxContent)
	d.Published, d.Updated = known(source.PublishedParsed), known(source.UpdatedParsed)
	for _, category := range source.Categories {
		if len(d.Categories) == maxCategories {
			d.Truncated = true
			break
		}
		d.Categories = append(d.Categories, d.cut(category, maxLine/16))
	}
	d.enclose(source.Enclosures)
	d.enclose(mediaOf(source))

	raw := d.encode()
	for len(raw) > maxData {
		d.Truncated = true
		switch {
		case d.Content != "":
			d.Content = message.Cut(d.Content, len(d.Content)/2)
		case d.Summary != "":
			d.Summary = message.Cut(d.Summary, len(d.Summary)/2)
		case d.Enclosures != nil:
			d.Enclosures = nil
		default:
			d.Categories = nil // title, link and author remain: at most 72 KiB
		}
		raw = d.encode()
	}
	return raw
}

func (d *data) enclose(sources []*gofeed.Enclosure) {
	for _, source := range sources {
		if source == nil || source.URL == "" {
			continue
		}
		if len(d.Enclosures) == maxEnclosures {
			d.Truncated = true
			return
		}
		if url := d.whole(source.URL, maxLine); url != "" {
			d.Enclosures = append(d.Enclosures, enclosure{url, d.cut(source.Type, 128), d.cut(source.Length, 32)})
		}
	}
}

// mediaOf returns the files that an item names by Media RSS, alone or in groups, and not as enclosures
// too.
func mediaOf(source *gofeed.Item) (all []*gofeed.Enclosure) {
	known := make(map[string]bool)
	for _, e := range source.Enclosures {
		if e != nil {
			known[e.URL] = true
		}
	}
	media := source.Extensions["media"]
	contents := slices.Clone(media["content"])
	for _, group := range media["group"] {
		contents = append(contents, group.Children["content"]...)
	}
	for _, content := range contents {
		if url := content.Attrs["url"]; !known[url] {
			known[url] = true
			all = append(all, &gofeed.Enclosure{URL: url, Type: content.Attrs["type"], Length: content.Attrs["fileSize"]})
		}
	}
	return all
}

// cut shortens text. Addresses go through whole instead, which drops the ones that are
// too long, because half an address leads elsewhere.
func (d *data) cut(text string, most int) string {
	d.Truncated = d.Truncated || len(text) > most
	return message.Cut(text, most)
}

func (d *data) whole(text string, most int) string {
	if text = absolute(d.base, text); len(text) > most {
		d.Truncated = true
		return ""
	}
	return text
}

// absolute resolves a relative address. A text that is not an address stays as it is.
func absolute(base *url.URL, text string) string {
	address, err := url.Parse(strings.TrimSpace(text))
	if base == nil || text == "" || err != nil || address.IsAbs() {
		return text
	}
	return base.ResolveReference(address).String()
}

// encode returns the JSON. It does not escape HTML, which would then be three times as long.
func (d *data) encode() json.RawMessage {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(d) != nil {
		return json.RawMessage(`{}`) // strings and usable times cannot fail
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

func author(source *gofeed.Item) string {
	for _, person := range source.Authors {
		if person != nil {
			if name := cmp.Or(person.Name, person.Email); name != "" {
				return name
			}
		}
	}
	return ""
}

func known(at *time.Time) *time.Time {
	if t := usable(at); !t.IsZero() {
		return &t
	}
	return nil
}
