// Package apikey keeps the API's keys for all processes of a namespace. Each key has a
// record, found by the digest of its text, and a name that no other key has.
//
// The package knows neither the keys' texts nor the meaning of records. Nobody can
// authenticate with what it keeps, because a key cannot be computed from its digest.
package apikey

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed add.lua
var addLua string

//go:embed remove.lua
var removeLua string

//go:embed note.lua
var noteLua string

var (
	addScript    = wire.NewScript("add key", addLua)
	removeScript = wire.NewScript("remove key", removeLua)
	noteScript   = wire.NewScript("note key", noteLua)
)

const (
	// Most is how many keys a namespace may have. Those that have expired make room for
	// new ones.
	Most = 1000
	// MaxName is the most bytes of a key's name.
	MaxName = 128
	// MaxRecord is the most bytes of a key's record.
	MaxRecord = 64 << 10
)

var (
	// ErrTaken reports a name that another key has.
	ErrTaken = wire.Finding("apikey: another key has the name")
	// ErrFull reports that there are Most keys, none of which has expired.
	ErrFull = wire.Finding("apikey: there are as many keys as there may be")
)

// Entry is a stored key.
type Entry struct {
	Digest  string // lower-case hexadecimal
	Expires time.Time
	Record  []byte
	Used    time.Time // the last call of Note; zero: never
}

// Store has the keys of a namespace.
type Store struct{ wire *wire.Wire }

// Of returns the keys of a ring's namespace.
func Of(ring *circulate.Ring) Store { return Store{ring.Wire()} }

// At returns the keys of a namespace in a Redis, for callers without a ring.
func At(server circulate.Server, namespace string) Store {
	return Store{wire.New(server, namespace, wire.Options{})}
}

// keys returns the Redis keys of the records, the names, and the times of last use. Each is
// a HASH.
func (s Store) keys() (records, names, used string) {
	tag := "{" + s.wire.Namespace() + ":keys}:"
	return tag + "records", tag + "names", tag + "used"
}

// secretBytes is the length of the secret that the processes of a namespace share.
const secretBytes = 32

// Secret returns a secret that all processes of the namespace share. If there is none, or it
// was lost, Secret creates a new one. It encrypts data that API callers carry but must not
// read. It protects nothing from those who can read Redis.
func (s Store) Secret(ctx context.Context) ([]byte, error) {
	fresh := make([]byte, secretBytes)
	_, _ = rand.Read(fresh) // never fails: it ends the program instead
	secret := s.secret()
	replies, err := s.pipeline(ctx, "secret of keys", wire.Command{"SET", secret, fresh, "NX"}, wire.Command{"GET", secret})
	if err != nil {
		return nil, err
	}
	kept, err := redis.Bytes(replies[1], nil)
	if err != nil || len(kept) != secretBytes {
		return nil, fmt.Errorf("secret of keys: %w", errors.Join(wire.ErrReply, err))
	}
	return kept, nil
}

func (s Store) secret() string { return "{" + s.wire.Namespace() + ":keys}:secret" }

// Now returns the time by Redis' clock.
func (s Store) Now(ctx context.Context) (time.Time, error) {
	records, _, _ := s.keys()
	replies, err := s.wire.Pipeline(ctx, records, wire.Command{"TIME"})
	if err != nil {
		return time.Time{}, fmt.Errorf("time of keys: %w", err)
	}
	return wire.Time(replies[0])
}

// Add adds a key under a name that no other key has, or returns ErrTaken or ErrFull. The key
// expires at a time by Redis' clock, or never if the time is zero. Add is safe to repeat.
func (s Store) Add(ctx context.Context, name, digest string, record []byte, expires time.Time) error {
	err := validateDigest(digest)
	if name == "" || len(name) > MaxName {
		err = errors.Join(err, fmt.Errorf("name: must have 1 to %d bytes, has %d", MaxName, len(name)))
	}
	if len(record) == 0 || len(record) > MaxRecord {
		err = errors.Join(err, fmt.Errorf("record: must have 1 to %d bytes, has %d", MaxRecord, len(record)))
	}
	if err != nil {
		return fmt.Errorf("%w: add key: %w", wire.ErrInput, err)
	}
	at := int64(0)
	if !expires.IsZero() {
		at = max(1, expires.UnixMilli())
	}
	records, names, used := s.keys()
	came, err := redis.Int(s.run(ctx, addScript, []string{records, names, used}, digest, name, at, record, Most))
	switch {
	case err != nil:
		return err
	case came == 0:
		return ErrTaken
	case came < 0:
		return ErrFull
	}
	return nil
}

// Get returns the key with a digest, or false if there is none, and the time by Redis'
// clock. The caller must check whether the key has expired.
func (s Store) Get(ctx context.Context, digest string) (e Entry, found bool, now time.Time, err error) {
	if err := validateDigest(digest); err != nil {
		return Entry{}, false, now, fmt.Errorf("%w: get key: %w", wire.ErrInput, err)
	}
	records, _, used := s.keys()
	replies, err := s.pipeline(ctx, "get key", wire.Command{"TIME"}, wire.Command{"HGET", records, digest}, wire.Command{"HGET", used, digest})
	if err != nil {
		return Entry{}, false, now, err
	}
	if now, err = wire.Time(replies[0]); err != nil {
		return Entry{}, false, now, err
	}
	kept, err := redis.Bytes(replies[1], nil)
	if errors.Is(err, redis.ErrNil) {
		return Entry{}, false, now, nil
	}
	if err != nil {
		return Entry{}, false, now, fmt.Errorf("get key: %w", err)
	}
	last, err := redis.String(replies[2], nil)
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return Entry{}, false, now, fmt.Errorf("get key: %w", err)
	}
	e, err = entryOf(digest, string(kept), last)
	return e, err == nil, now, err
}

// List returns all keys, expired ones included, and the time by Redis' clock. It leaves out
// records that it cannot read.
func (s Store) List(ctx context.Context) ([]Entry, time.Time, error) {
	records, _, used := s.keys()
	replies, err := s.pipeline(ctx, "list keys", wire.Command{"TIME"}, wire.Command{"HGETALL", records}, wire.Command{"HGETALL", used})
	if err != nil {
		return nil, time.Time{}, err
	}
	now, err := wire.Time(replies[0])
	if err != nil {
		return nil, now, err
	}
	kept, err := redis.StringMap(replies[1], nil)
	if err != nil {
		return nil, now, fmt.Errorf("list keys: %w", err)
	}
	last, err := redis.StringMap(replies[2], nil)
	if err != nil {
		return nil, now, fmt.Errorf("list keys: %w", err)
	}
	all := make([]Entry, 0, len(kept))
	for digest, text := range kept {
		if e, err := entryOf(digest, text, last[digest]); err == nil {
			all = append(all, e)
		}
	}
	return all, now, nil
}

// Named returns all keys by their names, for backups. It leaves out records that it cannot
// read, and those that have expired.
func (s Store) Named(ctx context.Context) (map[string]Entry, error) {
	all, now, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	_, names, _ := s.keys()
	replies, err := s.pipeline(ctx, "names of keys", wire.Command{"HGETALL", names})
	if err != nil {
		return nil, err
	}
	digests, err := redis.StringMap(replies[0], nil)
	if err != nil {
		return nil, fmt.Errorf("names of keys: %w", err)
	}
	byDigest := make(map[string]Entry, len(all))
	for _, e := range all {
		if e.Expires.IsZero() || e.Expires.After(now) {
			byDigest[e.Digest] = e
		}
	}
	named := make(map[string]Entry, len(digests))
	for name, digest := range digests {
		if e, ok := byDigest[digest]; ok {
			named[name] = e
		}
	}
	return named, nil
}

// Remove removes the key with a name and returns it without its digest. It returns false if
// there is no such key.
func (s Store) Remove(ctx context.Context, name string) (Entry, bool, error) {
	if name == "" || len(name) > MaxName {
		return Entry{}, false, nil
	}
	records, names, used := s.keys()
	kept, err := redis.String(s.run(ctx, removeScript, []string{records, names, used}, name))
	if err != nil || kept == "" {
		return Entry{}, false, err
	}
	e, err := entryOf("", kept, "")
	return e, err == nil, err
}

// Note stores that a key was used now. It does nothing if there is no such key.
func (s Store) Note(ctx context.Context, digest string) error {
	if err := validateDigest(digest); err != nil {
		return fmt.Errorf("%w: note key: %w", wire.ErrInput, err)
	}
	records, _, used := s.keys()
	_, err := s.run(ctx, noteScript, []string{records, used}, digest)
	return err
}

// run runs a script. If a Redis key has a wrong type, it sets that key aside and tries again.
func (s Store) run(ctx context.Context, script *wire.Script, keys []string, args ...any) (any, error) {
	reply, err := wire.Mending(ctx, s.wire, s.all(), func() (any, error) { return s.wire.Eval(ctx, script, keys, args) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script.Name(), err)
	}
	return reply, nil
}

// pipeline sends commands. If a Redis key has a wrong type, it sets that key aside and tries
// again.
func (s Store) pipeline(ctx context.Context, doing string, commands ...wire.Command) ([]any, error) {
	records, _, _ := s.keys()
	replies, err := wire.Mending(ctx, s.wire, s.all(), func() ([]any, error) { return s.wire.Pipeline(ctx, records, commands...) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return replies, nil
}

// all returns every Redis key with the type that it must have.
func (s Store) all() []wire.Key {
	records, names, used := s.keys()
	return []wire.Key{{records, "hash"}, {names, "hash"}, {used, "hash"}, {s.secret(), "string"}}
}

func entryOf(digest, kept, used string) (Entry, error) {
	expires, record, ok := strings.Cut(kept, " ")
	at, err := strconv.ParseInt(expires, 10, 64)
	if !ok || err != nil {
		return Entry{}, fmt.Errorf("key %s: %w", digest, wire.ErrReply)
	}
	e := Entry{Digest: digest, Record: []byte(record)}
	if at > 0 {
		e.Expires = time.UnixMilli(at)
	}
	if ms, err := strconv.ParseInt(used, 10, 64); err == nil && ms > 0 {
		e.Used = time.UnixMilli(ms)
	}
	return e, nil
}

// validateDigest returns an error unless the digest is a SHA-256 in lower-case hexadecimal.
func validateDigest(digest string) error {
	if sum, err := hex.DecodeString(digest); err != nil || len(sum) != 32 || strings.ToLower(digest) != digest {
		return errors.New("digest: must be 64 hexadecimal digits")
	}
	return nil
}
