// Package bulletin keeps the latest documents that one process writes for all others to read,
// such as what the monitor on duty has found. It does not look into documents. They are only
// for people to read, so a lost or late document has no effect on accounts.
package bulletin

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// MaxText is the most bytes of a document.
const MaxText = 256 << 10

var namePattern = regexp.MustCompile(`^[a-z][a-z_]{0,31}$`)

// Board has the documents of a namespace, each under a name. The names are few, because
// callers do not make them up at run time. It is safe for concurrent use.
type Board struct{ wire *wire.Wire }

// Of returns the board of a ring's namespace.
func Of(ring *circulate.Ring) Board { return Board{ring.Wire()} }

// Notice is a document as it was posted.
type Notice struct {
	Posted time.Time // by Redis' clock
	Text   []byte
}

// key returns the Redis key of the HASH: name -> when it was posted in unix ms|text. It needs
// no hash tag, because no command uses it together with another key.
func (b Board) key() string { return b.wire.Namespace() + ":bulletins" }

// Post replaces the document of a name, and returns when it did by Redis' clock. The latest
// caller wins. It returns an error for a name that is not 1 to 32 small letters or
// underscores, and for a text of no bytes or of more than MaxText. It is safe to repeat.
func (b Board) Post(ctx context.Context, name string, text []byte) (time.Time, error) {
	switch {
	case !namePattern.MatchString(name):
		return time.Time{}, fmt.Errorf("%w: post %q: name: must be 1 to 32 small letters or underscores", wire.ErrInput, name)
	case len(text) == 0 || len(text) > MaxText:
		return time.Time{}, fmt.Errorf("%w: post %q: must have 1 to %d bytes, has %d", wire.ErrInput, name, MaxText, len(text))
	}
	now, err := b.Now(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("post %s: %w", name, err)
	}
	value := append(strconv.AppendInt(nil, now.UnixMilli(), 10), '|')
	if _, err := b.do(ctx, wire.Command{"HSET", b.key(), name, append(value, text...)}); err != nil {
		return time.Time{}, fmt.Errorf("post %s: %w", name, err)
	}
	return now, nil
}

// Now returns the time by the clock that documents are posted by.
func (b Board) Now(ctx context.Context) (time.Time, error) {
	replies, err := b.do(ctx, wire.Command{"TIME"})
	if err != nil {
		return time.Time{}, err
	}
	return wire.Time(replies[0])
}

// Read returns the documents of some names, and the time now by the same clock as theirs. A
// name without a document, or with a value that Post has not written, is left out.
func (b Board) Read(ctx context.Context, names ...string) (map[string]Notice, time.Time, error) {
	ask := wire.Command{"HMGET", b.key()}
	for _, name := range names {
		ask = append(ask, name)
	}
	replies, err := b.do(ctx, wire.Command{"TIME"}, ask)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read notices: %w", err)
	}
	now, err := wire.Time(replies[0])
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read notices: %w", err)
	}
	values, err := redis.Values(replies[1], nil)
	if err != nil || len(values) != len(names) {
		return nil, time.Time{}, fmt.Errorf("read notices: %w", wire.ErrReply)
	}
	found := make(map[string]Notice, len(names))
	for i, value := range values {
		text, ok := value.([]byte)
		if !ok {
			continue
		}
		posted, rest, ok := strings.Cut(string(text), "|")
		ms, err := strconv.ParseInt(posted, 10, 64)
		if ok && err == nil {
			found[names[i]] = Notice{Posted: time.UnixMilli(ms), Text: []byte(rest)}
		}
	}
	return found, now, nil
}

// do sends commands. If the Redis key has a wrong type, it sets the key aside and tries again.
func (b Board) do(ctx context.Context, commands ...wire.Command) ([]any, error) {
	return wire.Mending(ctx, b.wire, []wire.Key{{b.key(), "hash"}}, func() ([]any, error) { return b.wire.Pipeline(ctx, b.key(), commands...) })
}
