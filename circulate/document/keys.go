package document

import (
	"context"
	"crypto/rand"
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
	keyAddScript    = wire.NewScript("add key", lua("key_add"))
	keyRemoveScript = wire.NewScript("remove key", lua("key_remove"))
	keyNoteScript   = wire.NewScript("note key", lua("key_note"))
)

const (
	// MostKeys is how many keys a namespace may have. Expired keys make room for new
	// ones.
	MostKeys = 1000
	// MaxKeyRecord is the most bytes of a key's record.
	MaxKeyRecord = 64 << 10

	keySecretBytes = 32
)

// Keys has the API's keys of a namespace. Each key has a record, found by the digest of its
// text, and a name that no other key has. Nobody can authenticate with what is stored, because a
// key cannot be computed from its digest.
type Keys struct{ place }

// The keys of Keys.place.
const (
	keyRecords = iota // HASH  digest -> when it expires, unix ms, 0: never; a space; the record
	keyNames          // HASH  name -> digest
	keyUsed           // HASH  digest -> about when it was last used, unix ms
	keySecret         // STRING
)

// Keys returns the API's keys.
func (d Documents) Keys() Keys {
	return Keys{d.place("keys", "records", "hash", "names", "hash", "used", "hash", "secret", "string")}
}

// Key is a stored key.
type Key struct {
	Digest  string // lower-case hexadecimal
	Expires time.Time
	Record  []byte
	Used    time.Time // the last call of Note; zero: never
}

// Secret returns a secret that all processes of the namespace share. If there is none, or it
// was lost, Secret creates a new one. It encrypts data that API callers carry but must not
// read. It protects nothing from those who can read Redis.
func (k Keys) Secret(ctx context.Context) ([]byte, error) {
	fresh := make([]byte, keySecretBytes)
	_, _ = rand.Read(fresh) // never fails: it ends the program instead
	secret := k.key(keySecret)
	replies, err := k.do(ctx, "secret of keys", wire.Command{"SET", secret, fresh, "NX"}, wire.Command{"GET", secret})
	if err != nil {
		return nil, err
	}
	stored, err := redis.Bytes(replies[1], nil)
	if err != nil || len(stored) != keySecretBytes {
		return nil, fmt.Errorf("secret of keys: %w", errors.Join(wire.ErrReply, err))
	}
	return stored, nil
}

// Add adds a key under a name that no other key has, or returns ErrTaken or ErrFull. The key
// expires at a time by Redis' clock, or never if the time is zero. Add is safe to repeat.
func (k Keys) Add(ctx context.Context, name, digest string, record []byte, expires time.Time) error {
	if err := refused("add key", wrongDigest(digest),
		wrongSize("name", len(name), 1, MaxName), wrongSize("record", len(record), 1, MaxKeyRecord)); err != nil {
		return err
	}
	at := int64(0)
	if !expires.IsZero() {
		at = max(1, expires.UnixMilli())
	}
	came, err := redis.Int(k.run(ctx, keyAddScript, 3, digest, name, at, record, MostKeys))
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
func (k Keys) Get(ctx context.Context, digest string) (e Key, found bool, now time.Time, err error) {
	if err := refused("get key", wrongDigest(digest)); err != nil {
		return Key{}, false, now, err
	}
	now, replies, err := k.timed(ctx, "get key",
		wire.Command{"HGET", k.key(keyRecords), digest}, wire.Command{"HGET", k.key(keyUsed), digest})
	if err != nil {
		return Key{}, false, now, err
	}
	stored, err := redis.String(replies[0], nil)
	if errors.Is(err, redis.ErrNil) {
		return Key{}, false, now, nil
	}
	if err != nil {
		return Key{}, false, now, fmt.Errorf("get key: %w", err)
	}
	last, err := redis.String(replies[1], nil)
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return Key{}, false, now, fmt.Errorf("get key: %w", err)
	}
	e, err = readKey(digest, stored, last)
	return e, err == nil, now, err
}

// List returns all keys, expired ones included, and the time by Redis' clock. It leaves out
// records that it cannot read.
func (k Keys) List(ctx context.Context) ([]Key, time.Time, error) {
	all, _, now, err := k.list(ctx)
	return all, now, err
}

// Named returns all keys by their names, for backups. It leaves out expired keys and
// unreadable records.
func (k Keys) Named(ctx context.Context) (map[string]Key, error) {
	all, digests, now, err := k.list(ctx)
	if err != nil {
		return nil, err
	}
	byDigest := make(map[string]Key, len(all))
	for _, e := range all {
		if e.Expires.IsZero() || e.Expires.After(now) {
			byDigest[e.Digest] = e
		}
	}
	named := make(map[string]Key, len(digests))
	for name, digest := range digests {
		if e, ok := byDigest[digest]; ok {
			named[name] = e
		}
	}
	return named, nil
}

// list returns all keys, and their digests by name.
func (k Keys) list(ctx context.Context) (all []Key, digests map[string]string, now time.Time, err error) {
	now, replies, err := k.timed(ctx, "list keys", wire.Command{"HGETALL", k.key(keyRecords)},
		wire.Command{"HGETALL", k.key(keyUsed)}, wire.Command{"HGETALL", k.key(keyNames)})
	if err != nil {
		return nil, nil, now, err
	}
	var maps [3]map[string]string
	for i := range maps {
		if maps[i], err = redis.StringMap(replies[i], nil); err != nil {
			return nil, nil, now, fmt.Errorf("list keys: %w", err)
		}
	}
	all = make([]Key, 0, len(maps[0]))
	for digest, text := range maps[0] {
		if e, err := readKey(digest, text, maps[1][digest]); err == nil {
			all = append(all, e)
		}
	}
	return all, maps[2], now, nil
}

// Remove removes the key with a name and returns it without its digest. It returns false if
// there is no such key.
func (k Keys) Remove(ctx context.Context, name string) (Key, bool, error) {
	if wrongSize("name", len(name), 1, MaxName) != nil {
		return Key{}, false, nil
	}
	stored, err := redis.String(k.run(ctx, keyRemoveScript, 3, name))
	if err != nil || stored == "" {
		return Key{}, false, err
	}
	e, err := readKey("", stored, "")
	return e, err == nil, err
}

// Note stores that a key was used now. It does nothing if there is no such key.
func (k Keys) Note(ctx context.Context, digest string) error {
	if err := refused("note key", wrongDigest(digest)); err != nil {
		return err
	}
	_, err := k.run(ctx, keyNoteScript, 3, digest)
	return err
}

func readKey(digest, stored, used string) (Key, error) {
	expires, record, ok := cutTime(stored, " ")
	if !ok {
		return Key{}, fmt.Errorf("key %s: %w", digest, wire.ErrReply)
	}
	e := Key{Digest: digest, Record: []byte(record)}
	if expires.UnixMilli() > 0 {
		e.Expires = expires
	}
	if ms, err := strconv.ParseInt(used, 10, 64); err == nil && ms > 0 {
		e.Used = time.UnixMilli(ms)
	}
	return e, nil
}

// wrongDigest returns an error unless the digest is a SHA-256 in lower-case hexadecimal.
func wrongDigest(digest string) error {
	if sum, err := hex.DecodeString(digest); err != nil || len(sum) != 32 || strings.ToLower(digest) != digest {
		return errors.New("digest: must be 64 hexadecimal digits")
	}
	return nil
}
