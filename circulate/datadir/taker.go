package datadir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// Taker takes images of one server. It remembers the entries of streams, which never
// change, so that the server stands still only for the new ones. Only one goroutine at a
// time may use it.
type Taker struct {
	server  *connect.Embedded
	streams map[string]*history
	room    int // the size of the last replies
}

// NewTaker returns a taker of a server.
func NewTaker(server *connect.Embedded) *Taker {
	return &Taker{server: server, streams: make(map[string]*history)}
}

// Take takes an image.
func (t *Taker) Take() (*Image, error) { return t.takeAnd(func() {}) }

// takeAnd takes an image and calls a function at the same moment: nothing changes in
// between.
func (t *Taker) takeAnd(then func()) (*Image, error) {
	l := &look{taker: t, image: &Image{}, buf: bytes.NewBuffer(make([]byte, 0, t.room+t.room/4+64<<10))}
	var err error
	l.image.Stood, err = t.server.Look(l.buf, func(do func(...string)) error {
		l.do = do
		if err := l.everything(); err != nil {
			return err
		}
		then()
		return nil
	})
	if err != nil {
		t.streams = make(map[string]*history) // it is unknown which streams were read to their end
		return nil, fmt.Errorf("image: %w", err)
	}
	l.image.replies, t.room = l.buf.Bytes(), l.buf.Len()
	seen := make(map[string]*history, len(t.streams))
	for n := range l.image.keys {
		if k := &l.image.keys[n]; k.kind == kindStream {
			seen[k.name] = k.history
			if err := k.history.take(l.image.replies[k.from:k.to], k.anew); err != nil {
				t.streams = make(map[string]*history)
				return nil, fmt.Errorf("image: key %q: %w", k.name, err)
			}
			k.history.drop(k.first)
			k.chunks, k.tail = k.history.from(k.first)
		}
	}
	t.streams = seen
	return l.image, nil
}

// look reads the server while it stands still.
type look struct {
	taker *Taker
	image *Image
	buf   *bytes.Buffer
	do    func(...string)
}

// ask does a command and returns its reply, which is valid until the next one.
func (l *look) ask(command ...string) *replies {
	from := l.buf.Len()
	l.do(command...)
	return &replies{rest: l.buf.Bytes()[from:]}
}

// everything reads all keys.
func (l *look) everything() error {
	now := l.ask("TIME")
	if now.length() != 2 {
		return errReply
	}
	seconds, _ := strconv.ParseInt(now.text(), 10, 64)
	micros, _ := strconv.ParseInt(now.text(), 10, 64)
	if now.err != nil {
		return now.err
	}
	l.image.Time = time.Unix(seconds, micros*1000).UTC()
	found := l.ask("KEYS", "*")
	names := make([]string, found.length())
	for i := range names {
		names[i] = found.text()
	}
	if found.err != nil {
		return found.err
	}
	l.image.keys = make([]key, 0, len(names))
	for _, name := range names {
		if err := l.key(name); err != nil {
			return fmt.Errorf("key %q: %w", name, err)
		}
	}
	return nil
}

// key reads a key. Its values stay in the buffer, in the server's own form.
func (l *look) key(name string) error {
	k := key{name: name}
	kind := l.ask("TYPE", name)
	k.kind = kind.status()
	left := l.ask("PTTL", name)
	ms := left.number()
	if err := cmp.Or(kind.err, left.err); err != nil {
		return err
	}
	if ms >= 0 {
		k.expires = l.image.Time.UnixMilli() + int64(ms)
	}
	command := contents(k.kind, name)
	switch {
	case command == nil:
		return fmt.Errorf("a %s cannot be saved", k.kind)
	case k.kind == kindStream:
		if err := l.stream(&k); err != nil {
			return err
		}
	default:
		k.from = l.buf.Len()
		l.do(command...)
		k.to = l.buf.Len()
	}
	l.image.keys = append(l.image.keys, k)
	return nil
}

// stream reads a stream: the entries since the last image if that suffices, otherwise all.
func (l *look) stream(k *key) error {
	about := l.ask("XINFO", "STREAM", k.name)
	about.fields(func(name string) {
		switch name {
		case "length":
			k.length = about.number()
		case "last-generated-id":
			k.last = about.text()
		default:
			about.skip()
		}
	})
	oldest := l.ask("XRANGE", k.name, "-", "+", "COUNT", "1")
	if oldest.length() == 1 {
		oldest.length()
		k.first = oldest.text()
	}
	if err := cmp.Or(about.err, oldest.err); err != nil {
		return err
	}
	k.history = l.taker.streams[k.name]
	if k.history == nil || !l.newer(k) {
		k.history, k.anew = &history{}, true
		k.from = l.buf.Len()
		l.do("XRANGE", k.name, "-", "+")
		k.to = l.buf.Len()
	}
	return l.groups(k)
}

// newer reads the entries since the last image, newest first, down to the last known one.
// It reports whether these and the known entries are all that the stream has.
func (l *look) newer(k *key) bool {
	known, last := k.history.known(k.first)
	if known == 0 {
		return false
	}
	k.from = l.buf.Len()
	l.do("XREVRANGE", k.name, "+", k.history.last())
	k.to = l.buf.Len()
	got := &replies{rest: l.buf.Bytes()[k.from:k.to]}
	n := got.length()
	for range n - 1 {
		got.skip()
	}
	return got.err == nil && n > 0 && bytes.Equal(got.rest, last) && known+n-1 == k.length
}

// groups reads the consumer groups of a stream.
func (l *look) groups(k *key) error {
	infos := l.ask("XINFO", "GROUPS", k.name)
	for range infos.length() {
		var g groupImage
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
			return infos.err
		}
		k.groups = append(k.groups, g)
	}
	if infos.err != nil {
		return infos.err
	}
	slices.SortFunc(k.groups, func(a, b groupImage) int { return strings.Compare(a.Name, b.Name) })
	for i := range k.groups {
		if err := l.group(k.name, &k.groups[i]); err != nil {
			return fmt.Errorf("group %q: %w", k.groups[i].Name, err)
		}
	}
	return nil
}

// group reads a group's consumers and pending entries.
func (l *look) group(stream string, g *groupImage) error {
	consumers := l.ask("XINFO", "CONSUMERS", stream, g.Name)
	for range consumers.length() {
		consumers.fields(func(name string) {
			if name == "name" {
				g.Consumers = append(g.Consumers, consumers.text())
			} else {
				consumers.skip()
			}
		})
	}
	left := l.ask("XPENDING", stream, g.Name, "-", "+", strconv.Itoa(math.MaxInt32))
	for range left.length() {
		if left.length() != 4 {
			return errReply
		}
		p := pending{ID: left.text(), Consumer: left.text()}
		p.Delivered = l.image.Time.UnixMilli() - int64(left.number())
		p.Times = left.number()
		if left.err != nil {
			break
		}
		g.Pending = append(g.Pending, p)
	}
	return cmp.Or(consumers.err, left.err)
}

var errReply = errors.New("a reply of the embedded server cannot be read")

// replies reads the server's replies, in the order of the commands. After an error it
// returns only zero values.
type replies struct {
	rest []byte
	err  error
}

// head returns the first byte of the next reply and the number in its line.
func (r *replies) head() (kind byte, n int) {
	if r.err != nil {
		return 0, 0
	}
	end := bytes.IndexByte(r.rest, '\n')
	if end < 2 {
		r.err = errReply
		return 0, 0
	}
	line := r.rest[:end-1]
	r.rest = r.rest[end+1:]
	kind = line[0]
	if kind == '-' || kind == '+' {
		if kind == '-' {
			r.err = fmt.Errorf("the embedded server says: %s", line[1:])
		}
		return kind, len(line) - 1
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		r.err = errReply
	}
	return kind, n
}

// number returns a number.
func (r *replies) number() int {
	kind, n := r.head()
	if kind != ':' && r.err == nil {
		r.err = errReply
	}
	return n
}

// length returns how many replies an array has.
func (r *replies) length() int {
	kind, n := r.head()
	if kind != '*' && r.err == nil {
		r.err = errReply
	}
	return max(n, 0)
}

// bulk returns a string, as a part of the reply.
func (r *replies) bulk() []byte {
	kind, n := r.head()
	if r.err != nil || kind != '$' || n < 0 || len(r.rest) < n+2 {
		if r.err == nil {
			r.err = errReply
		}
		return nil
	}
	text := r.rest[:n]
	r.rest = r.rest[n+2:]
	return text
}

// text returns a copy of a string.
func (r *replies) text() string { return string(r.bulk()) }

// status returns the text of a simple string.
func (r *replies) status() string {
	before := r.rest
	kind, n := r.head()
	if r.err == nil && kind != '+' {
		r.err = errReply
	}
	if r.err != nil {
		return ""
	}
	return string(before[1 : 1+n])
}

// skip skips one reply of any type.
func (r *replies) skip() {
	kind, n := r.head()
	switch {
	case r.err != nil:
	case kind == '$' && n >= 0:
		if len(r.rest) < n+2 {
			r.err = errReply
			return
		}
		r.rest = r.rest[n+2:]
	case kind == '*':
		for range max(n, 0) {
			r.skip()
		}
	}
}

// fields returns an array of names and values.
func (r *replies) fields(each func(name string)) {
	for range r.length() / 2 {
		if r.err != nil {
			return
		}
		each(r.text())
	}
}
