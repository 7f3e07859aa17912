package datadir

import "time"

// Image is everything that an embedded server holds, at one moment.
type Image struct {
	Time  time.Time     // the moment, by the server's clock
	Stood time.Duration // how long the server stood still for it
	Log   int           // what comes after it in a log has this number and later ones; 0: there is no log

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
	groups  []groupImage
	history *history
	anew    bool // all entries are in the replies, and not only the newest
	chunks  []chunk
	tail    []tailed
}

// groupImage is a consumer group of a stream.
type groupImage struct {
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
