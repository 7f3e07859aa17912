package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
)

// Image is all data of an embedded server, at one moment.
type Image struct {
	Time  time.Time     // the moment, by the server's clock
	Stood time.Duration // how long the server stood still for it
	Log   int           // the number of the log's segment that follows; 0: there is no log

	keys    []key
	replies []byte
}

// key is one key of a server.
type key struct {
	name    string
	kind    string
	expires int64 // unix ms; 0: never
	from    int   // the place of its content in the replies
	to      int

	// Of a stream:
	last    string // the last id that it made
	first   string // the oldest entry; empty: there is none
	length  int
	groups  []groupImage
	history *history
	anew    bool // the replies have all entries, and not only the newest
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

// contents returns the commands that read a whole key, except for a stream's groups. Nil:
// a key of this type cannot be saved.
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

// Bytes returns about how many bytes the server replied with, and Write has to encode.
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

const (
	loadAtOnce = 512     // commands
	loadBytes  = 1 << 20 // of them
)

// load fills an embedded server, which must have no keys and no log yet, from an image
// that verify accepts. Meanwhile the server's clock stands at now, and keys that have
// expired by then are left out. After an error the server must not be used.
func load(ctx context.Context, server *connect.Embedded, in io.Reader, now time.Time) (Header, error) {
	defer server.HoldClock(now)()
	l := &loader{ctx: ctx, server: server, now: now}
	r, err := openImage(in, l.line)
	if err == nil {
		l.end()
		err = l.flush()
	}
	if err != nil {
		return r.header, fmt.Errorf("image: %w", err)
	}
	return r.header, nil
}

// loader does the commands that make the keys.
type loader struct {
	ctx      context.Context // of one call
	server   *connect.Embedded
	now      time.Time
	commands [][]string
	bytes    int
	err      error

	key   *keyLine // the key whose values come now; nil: it has expired
	least string   // of a stream: its last entry
	first circulate.StreamID
}

// line loads the values of a line: the first ones of a key, or more of the key before.
func (l *loader) line(given *line) error {
	values := given.More
	if given.Key != nil {
		l.end()
		l.key, l.least, values = given.Key, "", given.Key.Values
		l.first = parseID(given.Key.First)
		if l.key.Expires != 0 && l.key.Expires <= l.now.UnixMilli() {
			l.key = nil
		}
	}
	if l.key == nil {
		return l.err
	}
	switch l.key.Type {
	case kindString:
		l.send("SET", l.key.Name, values[0])
	case kindHash:
		l.many("HSET", values)
	case kindList:
		l.many("RPUSH", values)
	case kindSet:
		l.many("SADD", values)
	case kindZSet:
		for i := 0; i < len(values); i += 2 {
			values[i], values[i+1] = values[i+1], values[i] // the command has the score first
		}
		l.many("ZADD", values)
	case kindStream:
		for rest := values; len(rest) > 0; {
			var fields []string
			var id string
			id, fields, rest, l.err = entry(rest)
			if parseID(id).Before(l.first) {
				continue
			}
			l.least = id
			l.send(append([]string{"XADD", l.key.Name, id}, fields...)...)
		}
	}
	return l.err
}

// many sends a command that takes many values.
func (l *loader) many(command string, values []string) {
	if len(values) > 0 {
		l.send(append([]string{command, l.key.Name}, values...)...)
	}
}

// end completes the key before.
func (l *loader) end() {
	k := l.key
	if k == nil {
		return
	}
	if k.Type == kindStream {
		l.endStream(k)
	}
	if k.Expires != 0 {
		l.send("PEXPIREAT", k.Name, strconv.FormatInt(k.Expires, 10))
	}
	l.key = nil
}

func (l *loader) endStream(k *keyLine) {
	for _, g := range k.Groups {
		l.send("XGROUP", "CREATE", k.Name, g.Name, g.After, "MKSTREAM")
		for _, c := range g.Consumers {
			l.send("XGROUP", "CREATECONSUMER", k.Name, g.Name, c)
		}
		for _, p := range g.Pending {
			l.send("XCLAIM", k.Name, g.Name, p.Consumer, "0", p.ID,
				"TIME", strconv.FormatInt(p.Delivered, 10), "RETRYCOUNT", strconv.Itoa(p.Times), "FORCE", "JUSTID")
		}
	}
	// An entry that was removed since had the last id. The stream makes none before it.
	if last := k.Last; last != l.least && last != "" && last != "0-0" {
		l.send("XADD", k.Name, last, "", "")
		l.send("XDEL", k.Name, last)
	} else if l.least == "" && len(k.Groups) == 0 {
		l.send("XADD", k.Name, "0-1", "", "")
		l.send("XDEL", k.Name, "0-1")
	}
}

func (l *loader) send(command ...string) {
	if l.err != nil {
		return
	}
	l.commands = append(l.commands, command)
	for _, word := range command {
		l.bytes += len(word)
	}
	if len(l.commands) >= loadAtOnce || l.bytes >= loadBytes {
		l.err = l.flush()
	}
}

// flush does all sent commands.
func (l *loader) flush() error {
	if l.err != nil || len(l.commands) == 0 {
		return l.err
	}
	if err := l.ctx.Err(); err != nil {
		return err
	}
	if err := l.server.Redo(l.now, l.commands); err != nil {
		return fmt.Errorf("the embedded server refuses it: %w", err)
	}
	l.commands, l.bytes = l.commands[:0], 0
	return nil
}

// entry takes the first entry from the values of a stream.
func entry(values []string) (id string, fields, rest []string, err error) {
	if len(values) < 2 {
		return "", nil, nil, errors.New("an entry of a stream is cut off")
	}
	n, err := strconv.Atoi(values[1])
	if err != nil || n < 2 || n%2 != 0 || n > len(values)-2 {
		return "", nil, nil, fmt.Errorf("an entry of a stream has %q fields of %d", values[1], len(values)-2)
	}
	return values[0], values[2 : 2+n], values[2+n:], nil
}
