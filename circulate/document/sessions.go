package document

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	sessionStoreScript   = wire.NewScript("store session", lua("session_store"))
	sessionRecallScript  = wire.NewScript("recall session", lua("session_recall"))
	sessionReplaceScript = wire.NewScript("replace session", lua("session_replace"))
)

// SessionKind is a sort of session. Each kind has its own names and limits.
type SessionKind int

// The kinds.
const (
	SignedIn  SessionKind = iota // sessions of people who signed in: at most 100 of each owner, 10,000 of all
	SigningIn                    // sign-ins of accounts under way: at most 1,000 of each owner, 10,000 of all
)

const (
	// MaxSession is the most bytes of a session's value.
	MaxSession = 4 << 10
	// MaxSessionLife is the longest life of a session.
	MaxSessionLife = 30 * 24 * time.Hour

	mostSessions = 10_000 // of a kind
)

// Sessions has values of a namespace that live for a limited time, under names that nobody can
// guess. It stores only the digests of names, so nobody learns a name by reading Redis. Values
// must not be secret.
type Sessions struct {
	place     // ends ZSET, values HASH; as in store session
	owned     string
	mostOwned int
}

// Sessions returns the sessions of a kind.
func (d Documents) Sessions(kind SessionKind) Sessions {
	tag, each := "sessions", 100
	if kind == SigningIn {
		tag, each = "signins", 1_000
	}
	return Sessions{d.place(tag, "ends", "zset", "values", "hash"), "{" + d.wire.Namespace() + ":" + tag + "}:of:", each}
}

// Put stores a value under a name for the given life. If the owner has too many sessions,
// its oldest one is removed. If there are too many in all, the oldest of all is removed. Put
// is safe to repeat. After an unknown outcome the session may exist.
func (s Sessions) Put(ctx context.Context, name, owner string, value []byte, life time.Duration) error {
	var noName, wrongLife error
	if name == "" {
		noName = errors.New("name: missing")
	}
	if life < time.Millisecond || life > MaxSessionLife {
		wrongLife = fmt.Errorf("life: must be 1ms to %v, is %v", MaxSessionLife, life)
	}
	if err := refused("put session", noName, wrongSize("value", len(value), 0, MaxSession), wrongLife); err != nil {
		return err
	}
	ofOwner := place{s.wire, append(s.keys[:2:2], wire.Key{s.owned + digestOf(owner)[:32], "zset"})}
	_, err := ofOwner.run(ctx, sessionStoreScript, 3, digestOf(name), value, life.Milliseconds(), s.mostOwned, mostSessions)
	return err
}

// Replace puts a value in the place of the one that Get returned. The session ends when it
// would have. It returns ErrChanged if somebody has put another value there meanwhile, and
// ErrNone if the session has ended. It is safe to repeat. After an unknown outcome the value
// may be there.
func (s Sessions) Replace(ctx context.Context, name string, old, value []byte) error {
	if err := refused("replace session", wrongSize("value", len(value), 0, MaxSession)); err != nil {
		return err
	}
	done, err := redis.Int(s.run(ctx, sessionReplaceScript, 2, digestOf(name), old, value))
	switch {
	case err != nil:
		return err
	case done < 0:
		return ErrNone
	case done == 0:
		return ErrChanged
	}
	return nil
}

// Get returns the value of a name, and how long it still lasts by Redis' clock. It returns
// ErrNone if there is no such session.
func (s Sessions) Get(ctx context.Context, name string) ([]byte, time.Duration, error) {
	return s.get(ctx, name, 0)
}

// Take is Get, and ends the session. If several callers take the same session, only one gets
// it. After an unknown outcome the session may have ended.
func (s Sessions) Take(ctx context.Context, name string) ([]byte, time.Duration, error) {
	return s.get(ctx, name, 1)
}

// End ends a session, for all processes at once. It is safe to repeat.
func (s Sessions) End(ctx context.Context, name string) error {
	if _, _, err := s.Take(ctx, name); err != nil && !errors.Is(err, ErrNone) {
		return err
	}
	return nil
}

// Living is a session that has not ended.
type Living struct {
	ID    string // the digest of its name: nobody gets in with it
	Value []byte
	Life  time.Duration // from its begin to its end
	Ends  time.Time     // by Redis' clock
}

// MostLiving is the most sessions that All returns.
const MostLiving = 500

// All returns the sessions that have not ended, those that end last first, at most MostLiving, and how
// many there are.
func (s Sessions) All(ctx context.Context) ([]Living, int, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, 0, err
	}
	from := fmt.Sprintf("(%d", now.UnixMilli())
	replies, err := s.do(ctx, "list sessions", wire.Command{"ZCOUNT", s.key(0), from, "+inf"},
		wire.Command{"ZREVRANGEBYSCORE", s.key(0), "+inf", from, "WITHSCORES", "LIMIT", 0, MostLiving})
	if err != nil {
		return nil, 0, err
	}
	count, err := redis.Int(replies[0], nil)
	ends, more := redis.Strings(replies[1], nil)
	if err = errors.Join(err, more); err != nil || len(ends) == 0 || len(ends)%2 != 0 {
		return nil, count, err
	}
	ask := wire.Command{"HMGET", s.key(1)}
	for i := 0; i < len(ends); i += 2 {
		ask = append(ask, ends[i])
	}
	if replies, err = s.do(ctx, "list sessions", ask); err != nil {
		return nil, 0, err
	}
	values, err := redis.Strings(replies[0], nil)
	if err != nil || len(values) != len(ends)/2 {
		return nil, 0, fmt.Errorf("list sessions: %w", errors.Join(wire.ErrReply, err))
	}
	var all []Living
	for i, value := range values {
		life, text, ok := strings.Cut(value, "|")
		ms, wrongLife := strconv.ParseInt(life, 10, 64)
		at, wrongEnd := strconv.ParseFloat(ends[2*i+1], 64)
		if ok && wrongLife == nil && wrongEnd == nil {
			all = append(all, Living{ends[2*i], []byte(text), time.Duration(ms) * time.Millisecond, time.UnixMilli(int64(at))})
		}
	}
	return all, count, nil
}

// EndOf ends the session of an ID for all processes at once, and reports whether there was one.
func (s Sessions) EndOf(ctx context.Context, id string) (bool, error) {
	if err := refused("end session", wrongSize("id", len(id), 1, 2*sha256.Size)); err != nil {
		return false, err
	}
	_, _, err := s.recall(ctx, id, 1)
	if errors.Is(err, ErrNone) {
		return false, nil
	}
	return err == nil, err
}

func (s Sessions) get(ctx context.Context, name string, end int) ([]byte, time.Duration, error) {
	return s.recall(ctx, digestOf(name), end)
}

func (s Sessions) recall(ctx context.Context, digest string, end int) ([]byte, time.Duration, error) {
	reply, err := redis.Values(s.run(ctx, sessionRecallScript, 2, digest, end))
	if err != nil {
		return nil, 0, err
	}
	if len(reply) == 0 {
		return nil, 0, ErrNone
	}
	var value []byte
	var left int64
	if _, err := redis.Scan(reply, &value, &left); err != nil || len(reply) != 2 {
		return nil, 0, fmt.Errorf("get session: %w", errors.Join(wire.ErrReply, err))
	}
	return value, time.Duration(left) * time.Millisecond, nil
}

// digestOf returns the digest that is stored in place of a name. Names have more than a
// hundred random bits, so nobody finds one by trying.
func digestOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}
