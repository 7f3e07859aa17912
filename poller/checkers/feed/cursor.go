package feed

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/poller/websub"
)

const (
	digestSize = 8
	// The cursor still knows items that the feed no longer shows, because caches may serve
	// old versions. It knows twice as many as the feed shows, within these bounds.
	minDeparted, maxDeparted = 200, 1000
	maxValidator             = 512 // bytes of an ETag or a date
)

var errCursor = errors.New("feed: broken cursor")

// digest stands for an item's id. With 64 bits, a new item of a feed of 2,000 is
// mistaken for a known one once in 10^16.
type digest [digestSize]byte

func digestOf(text string) digest {
	sum := sha256.Sum256([]byte(text))
	return digest(sum[:digestSize])
}

// validators let a host answer that nothing has changed. They are valid for one
// URL only.
type validators struct {
	url      string // a digest: the URL may hold a token
	etag     string
	modified string
	flaw     flaw          // of the version that the validators stand for
	pause    time.Duration // that its document asks for
}

func newValidators(url string, header http.Header) validators {
	return validators{
		url:      urlDigest(url),
		etag:     validator(header.Get("ETag")),
		modified: validator(header.Get("Last-Modified")),
	}
}

// validator drops a value that is too long, or that no request could carry. If it were
// stored, every later check would fail.
func validator(value string) string {
	if len(value) > maxValidator {
		return ""
	}
	for _, char := range []byte(value) {
		if char < ' ' || char > '~' {
			return ""
		}
	}
	return value
}

func urlDigest(url string) string {
	sum := digestOf(url)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// cursor is how far a feed was read. It has the validators, the digests of all items that the feed
// shows and that were reported, and then the digests of items that it no longer shows, both newest
// first. It stays under 38 KiB: 3,000 digests of 8 bytes in base64, and a subscription.
//
// If the account's URL changes, the validators no longer count. The digests still do,
// because in most cases the same feed has moved.
type cursor struct {
	validators
	push   *websub.Subscription // nil: none
	unread []byte               // the digests, as the JSON has them
	seen   []digest
	index  map[digest]struct{} // nil: unread are not read yet
}

// wire is the cursor's JSON.
type wire struct {
	Version  int    `json:"v"`
	URL      string `json:"url,omitempty"`
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
	Seen     []byte `json:"seen,omitempty"`
	// BrokenLine is where the feed's XML was broken. Checks warn of it while the feed
	// is unmodified. Versions that do not know the field drop it.
	BrokenLine int `json:"broken_line,omitempty"`
	// Pause is how long the document asks not to be fetched again, in seconds.
	Pause int `json:"pause,omitempty"`
	// Push is the subscription at the feed's hub. A version that does not know it drops it: the hub is
	// then told that nobody subscribes.
	Push *websub.Subscription `json:"push,omitempty"`
}

// decodeCursor reads a cursor. An empty cursor means that the feed was never seen.
func decodeCursor(raw []byte) (cursor, error) {
	if len(raw) == 0 {
		return cursor{}, nil
	}
	var w wire
	if json.Unmarshal(raw, &w) != nil || w.Version != 1 || len(w.Seen)%digestSize != 0 {
		return cursor{}, errCursor
	}
	if w.Push != nil && !w.Push.Valid() {
		w.Push = nil
	}
	return cursor{
		push: w.Push,
		validators: validators{
			url: w.URL, etag: validator(w.ETag), modified: validator(w.Modified), flaw: flaw{line: max(0, w.BrokenLine)},
			pause: time.Duration(min(max(0, w.Pause), int(mostPause/time.Second))) * time.Second,
		},
		unread: w.Seen,
	}, nil
}

// read reads the digests, once, because most checks need only the validators.
func (c *cursor) read() {
	if c.index != nil {
		return
	}
	n := len(c.unread) / digestSize
	c.seen, c.index = make([]digest, 0, n), make(map[digest]struct{}, n)
	for rest := c.unread; len(rest) > 0; rest = rest[digestSize:] {
		c.add(digest(rest))
	}
}

func (c *cursor) encode() ([]byte, error) {
	c.read()
	w := wire{
		Version: 1, URL: c.url, ETag: c.etag, Modified: c.modified, BrokenLine: c.flaw.kept(), Pause: int(c.pause / time.Second),
		Seen: make([]byte, 0, len(c.seen)*digestSize), Push: c.push,
	}
	for _, key := range c.seen {
		w.Seen = append(w.Seen, key[:]...)
	}
	return json.Marshal(w)
}

func (c *cursor) has(key digest) bool {
	c.read()
	_, ok := c.index[key]
	return ok
}

func (c *cursor) add(key digest) {
	if !c.has(key) {
		c.seen = append(c.seen, key)
		c.index[key] = struct{}{}
	}
}

// condition adds the validators of the url to a request's header and reports
// whether there are any.
func (c *cursor) condition(url string, header http.Header) bool {
	if c.url != urlDigest(url) {
		return false
	}
	if c.etag != "" {
		header.Set("If-None-Match", c.etag)
	}
	if c.modified != "" {
		header.Set("If-Modified-Since", c.modified)
	}
	return c.etag != "" || c.modified != ""
}

// next returns the cursor after a check. items are all items that the feed shows, and
// present are the ones that are reported by now.
func (c *cursor) next(present []digest, items []item, found validators) *cursor {
	c.read()
	n := &cursor{validators: found, push: c.push, index: make(map[digest]struct{}, len(present))}
	// Known items that this page did not get to are present too. The newest go
	// first, because the last ones are forgotten first.
	for _, item := range slices.Backward(items[len(present):]) {
		if key := digestOf(item.id); c.has(key) {
			n.add(key)
		}
	}
	for _, key := range slices.Backward(present) {
		n.add(key)
	}
	departed := min(max(2*len(items), minDeparted), maxDeparted)
	for most := len(n.seen) + departed; len(c.seen) > 0 && len(n.seen) < most; c.seen = c.seen[1:] {
		n.add(c.seen[0])
	}
	return n
}
