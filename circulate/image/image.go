package image

import (
	"fmt"
	"hash/maphash"
	"time"
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

	// Of a stream:
	last    string // the last id that it made
	first   string // the oldest entry; empty: there is none
	length  int
	groups  []group
	history *history
	anew    bool // all entries are in the replies, and not only the newest
	chunks  []chunk
	tail    []tailed
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

// contents are the commands that return everything in a key, but for a stream's groups; nil: a
// key of this type cannot be saved.
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

// Bytes returns about how many bytes the server had to tell, and Write has to encode.
func (i *Image) Bytes() int {
	n := len(i.replies)
	for k := range i.keys {
		if i.keys[k].history != nil {
			n += i.keys[k].history.bytes
		}
	}
	return n
}

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
	if k.kind == kindStream {
		_, _ = h.WriteString(fmt.Sprint(k.first, k.last, k.length))
	} else {
		_, _ = h.Write(i.replies[k.from:k.to]) // a hash takes everything
	}
	for _, g := range k.groups {
		_, _ = h.WriteString(fmt.Sprintf("%q%s%q", g.Name, g.After, g.Consumers))
		for _, p := range g.Pending {
			_, _ = h.WriteString(fmt.Sprintf("%s%q%d", p.ID, p.Consumer, p.Times))
		}
	}
	return h.Sum64()
}
