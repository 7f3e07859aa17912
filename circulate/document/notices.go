package document

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// MaxNotice is the most bytes of a notice.
const MaxNotice = 256 << 10

var noticeName = regexp.MustCompile(`^[a-z][a-z_]{0,31}$`)

// Notices has the latest documents of a namespace that one process writes for all others to
// read, such as what the monitor on duty has found. Each has a name. The names are few, because
// callers do not make them up at run time. Notices are for people to read, except the price of a
// budget: see package budget.
type Notices struct{ place } // a HASH: name -> when it was posted, unix ms|text

// Notices returns the notices.
func (d Documents) Notices() Notices { return Notices{d.single("bulletins", "hash")} }

// Notice is a document as it was posted.
type Notice struct {
	Posted time.Time // by Redis' clock
	Text   []byte
}

// Post replaces the notice of a name, and returns when it did by Redis' clock. The latest
// caller wins. It returns an error for a name that is not 1 to 32 small letters or
// underscores, and for a text of no bytes or of more than MaxNotice. It is safe to repeat.
func (n Notices) Post(ctx context.Context, name string, text []byte) (time.Time, error) {
	var wrongName error
	if !noticeName.MatchString(name) {
		wrongName = errors.New("name: must be 1 to 32 small letters or underscores")
	}
	if err := refused(fmt.Sprintf("post %q", name), wrongName, wrongSize("text", len(text), 1, MaxNotice)); err != nil {
		return time.Time{}, err
	}
	now, err := n.Now(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("post %s: %w", name, err)
	}
	value := append(strconv.AppendInt(nil, now.UnixMilli(), 10), '|')
	if _, err := n.do(ctx, "post "+name, wire.Command{"HSET", n.key(0), name, append(value, text...)}); err != nil {
		return time.Time{}, err
	}
	return now, nil
}

// Read returns the notices of some names, and the time now by the same clock as theirs. A
// name without a notice, or with a value that Post has not written, is left out.
func (n Notices) Read(ctx context.Context, names ...string) (map[string]Notice, time.Time, error) {
	ask := wire.Command{"HMGET", n.key(0)}
	for _, name := range names {
		ask = append(ask, name)
	}
	now, replies, err := n.timed(ctx, "read notices", ask)
	if err != nil {
		return nil, time.Time{}, err
	}
	values, err := redis.Values(replies[0], nil)
	if err != nil || len(values) != len(names) {
		return nil, time.Time{}, fmt.Errorf("read notices: %w", wire.ErrReply)
	}
	found := make(map[string]Notice, len(names))
	for i, value := range values {
		text, _ := value.([]byte)
		if posted, rest, ok := cutTime(string(text), "|"); ok {
			found[names[i]] = Notice{Posted: posted, Text: []byte(rest)}
		}
	}
	return found, now, nil
}
