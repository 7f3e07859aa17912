package image

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// Image is everything that an embedded server holds, at one moment.
type Image struct {
	Time  time.Time     // the moment, by the server's clock
	Stood time.Duration // how long the server stood still for it

	keys    []key
	replies []byte
}

// key is one key of a server.
type key struct {
	name    string
	kind    string
	expires int64 // unix ms; 0: never
	from    int   // where its content is in the replies
	to      int
	last    string // of a stream: the last id that it made
	groups  []group
}

// group is a consumer group of a stream.
type group struct {
	Name      string    `json:"name"`
	After     string    `json:"after"`
	Consumers []string  `json:"consumers,omitempty"`
	Pending   []pending `json:"pending,omitempty"`
}

// pending is an entry that a consumer has not acknowledged.
type pending struct {
	ID        string `json:"id"`
	Consumer  string `json:"consumer"`
	Delivered int64  `json:"delivered"` // unix ms
	Times     int    `json:"times"`
}

// The types of keys.
const (
	kindString = "string"
	kindHash   = "hash"
	kindList   = "list"
	kindSet    = "set"
	kindZSet   = "zset"
	kindStream = "stream"
)

// contents are the commands that return everything in a key, but for a stream's groups.
func contents(kind, name string) []string {
	switch kind {
	case kindString:
		return []string{"GET", name}
	case kindHash:
		return []string{"HGETALL", name}
	case kindList:
		return []string{"LRANGE", name, "0", "-1"}
	case kindSet:
		return []string{"SMEMBERS", name}
	case kindZSet:
		return []string{"ZRANGE", name, "0", "-1", "WITHSCORES"}
	case kindStream:
		return []string{"XRANGE", name, "-", "+"}
	}
	return nil
}

// taker takes one image.
type taker struct {
	image *Image
	buf   *bytes.Buffer
	do    func(...string)
}

// Take takes an image of a server. Room is about how many bytes it will have; a previous
// image's Bytes is a good guess.
func Take(server *connect.Embedded, room int) (*Image, error) {
	t := &taker{image: &Image{}, buf: bytes.NewBuffer(make([]byte, 0, room+room/4+64<<10))}
	var err error
	t.image.Stood, err = server.Look(t.buf, func(do func(...string)) error {
		t.do = do
		return t.take()
	})
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	t.image.replies = t.buf.Bytes()
	return t.image, nil
}

// ask does a command and returns its reply, which is valid until the next.
func (t *taker) ask(command ...string) *replies {
	from := t.buf.Len()
	t.do(command...)
	return &replies{rest: t.buf.Bytes()[from:]}
}

func (t *taker) take() error {
	now := t.ask("TIME")
	if now.length() != 2 {
		return errReply
	}
	seconds, _ := strconv.ParseInt(now.text(), 10, 64)
	micros, _ := strconv.ParseInt(now.text(), 10, 64)
	if now.err != nil {
		return now.err
	}
	t.image.Time = time.Unix(seconds, micros*1000).UTC()
	found := t.ask("KEYS", "*")
	names := make([]string, found.length())
	for i := range names {
		names[i] = found.text()
	}
	if found.err != nil {
		return found.err
	}
	t.image.keys = make([]key, 0, len(names))
	for _, name := range names {
		if err := t.key(name); err != nil {
			return fmt.Errorf("key %q: %w", name, err)
		}
	}
	return nil
}

func (t *taker) key(name string) error {
	k := key{name: name}
	kind := t.ask("TYPE", name)
	k.kind = kind.status()
	left := t.ask("PTTL", name)
	ms := left.number()
	if err := first(kind.err, left.err); err != nil {
		return err
	}
	if ms >= 0 {
		k.expires = t.image.Time.UnixMilli() + int64(ms)
	}
	command := contents(k.kind, name)
	if command == nil {
		return fmt.Errorf("a %s cannot be saved", k.kind)
	}
	k.from = t.buf.Len()
	t.do(command...)
	k.to = t.buf.Len()
	if k.kind == kindStream {
		if err := t.stream(&k); err != nil {
			return err
		}
	}
	t.image.keys = append(t.image.keys, k)
	return nil
}

func (t *taker) stream(k *key) error {
	about := t.ask("XINFO", "STREAM", k.name)
	about.fields(func(name string) {
		if name == "last-generated-id" {
			k.last = about.text()
		} else {
			about.skip()
		}
	})
	infos := t.ask("XINFO", "GROUPS", k.name)
	for range infos.length() {
		var g group
		infos.fields(func(name string) {
			switch name {
			case "name":
				g.Name = infos.text()
			case "last-delivered-id":
				g.After = infos.text()
			default:
				infos.skip()
			}
		})
		if infos.err != nil {
			break
		}
		k.groups = append(k.groups, g)
	}
	if err := first(about.err, infos.err); err != nil {
		return err
	}
	slices.SortFunc(k.groups, func(a, b group) int { return strings.Compare(a.Name, b.Name) })
	for i := range k.groups {
		if err := t.group(k.name, &k.groups[i]); err != nil {
			return fmt.Errorf("group %q: %w", k.groups[i].Name, err)
		}
	}
	return nil
}

func (t *taker) group(stream string, g *group) error {
	consumers := t.ask("XINFO", "CONSUMERS", stream, g.Name)
	for range consumers.length() {
		consumers.fields(func(name string) {
			if name == "name" {
				g.Consumers = append(g.Consumers, consumers.text())
			} else {
				consumers.skip()
			}
		})
	}
	left := t.ask("XPENDING", stream, g.Name, "-", "+", strconv.Itoa(math.MaxInt32))
	for range left.length() {
		if left.length() != 4 {
			return errReply
		}
		p := pending{ID: left.text(), Consumer: left.text()}
		p.Delivered = t.image.Time.UnixMilli() - int64(left.number())
		p.Times = left.number()
		if left.err != nil {
			break
		}
		g.Pending = append(g.Pending, p)
	}
	return first(consumers.err, left.err)
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Bytes returns about how many bytes the image has.
func (i *Image) Bytes() int { return len(i.replies) }

// Keys returns how many keys the image has.
func (i *Image) Keys() int { return len(i.keys) }

// Marks are what keys held in an image, for Changed. The zero Marks hold nothing.
type Marks struct {
	seed maphash.Seed
	keys map[string]mark
}

type mark struct {
	sum     uint64
	expires int64
}

// expiryMoved is by how many ms a key's end must differ to count as another: a time to live is
// in whole ms.
const expiryMoved = 1000

// Changed reports whether the image differs from that of the marks, and returns its own. Keys
// that passing selects change with time alone. It reports apart whether one of these does.
func (i *Image) Changed(since Marks, passing func(name string) bool) (changed, passed bool, now Marks) {
	if since.keys == nil {
		since.seed = maphash.MakeSeed()
		changed = true
	}
	now = Marks{seed: since.seed, keys: make(map[string]mark, len(i.keys))}
	differs := func(name string) {
		if passing != nil && passing(name) {
			passed = true
		} else {
			changed = true
		}
	}
	for n := range i.keys {
		k := &i.keys[n]
		m := mark{sum: i.sum(k, now.seed), expires: k.expires}
		now.keys[k.name] = m
		was, there := since.keys[k.name]
		if !there || was.sum != m.sum || max(was.expires-m.expires, m.expires-was.expires) > expiryMoved {
			differs(k.name)
		}
	}
	for name := range since.keys {
		if _, there := now.keys[name]; !there {
			differs(name)
		}
	}
	return changed, passed, now
}

func (i *Image) sum(k *key, seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.Write(i.replies[k.from:k.to]) // a hash takes everything
	for _, g := range k.groups {
		_, _ = h.WriteString(fmt.Sprintf("%q%s%q", g.Name, g.After, g.Consumers))
		for _, p := range g.Pending {
			_, _ = h.WriteString(fmt.Sprintf("%s%q%d", p.ID, p.Consumer, p.Times))
		}
	}
	return h.Sum64()
}
