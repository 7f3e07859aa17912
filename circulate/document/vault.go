package document

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	vaultPutScript    = wire.NewScript("put value", lua("vault_put"))
	vaultRemoveScript = wire.NewScript("remove value", lua("vault_remove"))
)

const (
	// MostEndpoints is how many endpoints of its own a namespace may have.
	MostEndpoints = 500
	// MostEndpointsBytes is how many bytes all of them may have together.
	MostEndpointsBytes = 4 << 20
	// MostSealed is how many sealed values a namespace may have.
	MostSealed = 20_000
	// MostSealedBytes is how many bytes all sealed values of a namespace may have together.
	MostSealedBytes = 64 << 20
	// MaxSealed is the most bytes of a sealed value.
	MaxSealed = 128 << 10
	// MaxPage is the most sealed values of a page.
	MaxPage = 100
)

// Vault has values of a namespace under names: secrets that the caller has sealed, or endpoints.
//
// The vault does not know seals. An attacker who can write to Redis can replace a value
// with an older one or with another one. The vault does not notice that. The code that
// opens seals must.
type Vault struct {
	place
	most, mostBytes int
	secrets         bool // replicas use the values as secrets, and are told of changes
}

// The keys of Vault.place.
const (
	vaultValues = iota // HASH  name -> revision|when it was set, unix ms|the value
	vaultNames         // ZSET  name -> 0, for pages in the order of names
	vaultState         // HASH  revision: the last one given; bytes: of all values, about
)

// Vault returns the sealed values.
func (d Documents) Vault() Vault {
	return Vault{d.place("secrets", "values", "hash", "names", "zset", "state", "hash"), MostSealed, MostSealedBytes, true}
}

// Destinations returns the endpoints that were added while the service runs, as package endpoint
// stores them.
func (d Documents) Destinations() Vault {
	return Vault{d.place("endpoints", "values", "hash", "names", "zset", "state", "hash"), MostEndpoints, MostEndpointsBytes, false}
}

// Sealed is a stored value.
type Sealed struct {
	Name     string
	Revision int64     // changes with each change of the value; no revision is used twice
	Set      time.Time // by Redis' clock; Replace preserves it
	Value    []byte
}

// Put stores a value under a name and replaces a former one, or returns ErrFull. Created
// reports whether there was none before. The returned entry has no value. Put is safe to
// repeat. Each call gives the value a new revision.
func (v Vault) Put(ctx context.Context, name string, value []byte) (e Sealed, created bool, err error) {
	e, before, _, err := v.put(ctx, name, value, "", "")
	return e, before == 0, err
}

// Replace is Put for a value that still has the given revision, and preserves the time
// when it was set. It returns false if the value has another revision or does not exist.
func (v Vault) Replace(ctx context.Context, name string, revision int64, value []byte) (bool, error) {
	_, _, done, err := v.put(ctx, name, value, strconv.FormatInt(revision, 10), "")
	return done, err
}

// Add is Put for a name that has no value. It returns false if it has one.
func (v Vault) Add(ctx context.Context, name string, value []byte) (e Sealed, done bool, err error) {
	e, _, done, err = v.put(ctx, name, value, "0", "")
	return e, done, err
}

// Restore is Put for an entry of a backup. It preserves the time when the value was set.
func (v Vault) Restore(ctx context.Context, e Sealed) error {
	_, _, _, err := v.put(ctx, e.Name, e.Value, "", strconv.FormatInt(max(0, e.Set.UnixMilli()), 10))
	return err
}

func (v Vault) put(ctx context.Context, name string, value []byte, must, at string) (e Sealed, before int64, done bool, err error) {
	if err := refused("put value", wrongSize("name", len(name), 1, MaxName), wrongSize("value", len(value), 1, MaxSealed)); err != nil {
		return Sealed{}, 0, false, err
	}
	reply, err := redis.Int64s(v.run(ctx, vaultPutScript, 3, name, value, must, v.most, v.mostBytes, at))
	switch {
	case err != nil:
		return Sealed{}, 0, false, err
	case len(reply) == 1 && reply[0] == 0:
		return Sealed{}, 0, false, nil
	case len(reply) == 1:
		return Sealed{}, 0, false, ErrFull
	case len(reply) != 4:
		return Sealed{}, 0, false, fmt.Errorf("put value: %w", wire.ErrReply)
	}
	v.tell(ctx, name)
	return Sealed{Name: name, Revision: reply[2], Set: time.UnixMilli(reply[3])}, reply[1], true, nil
}

// tell tells replicas that a value has changed, so that they end held calls that use the
// old value. If it fails, these calls end by themselves.
func (v Vault) tell(ctx context.Context, name string) {
	if !v.secrets {
		return
	}
	channel, text := circulate.WakeSecret(v.wire.Namespace(), name)
	_, _ = v.wire.Pipeline(ctx, channel, wire.Command{"PUBLISH", channel, text})
}

// Remove deletes a name and its value, and reports whether it existed.
func (v Vault) Remove(ctx context.Context, name string) (bool, error) {
	if err := refused("remove value", wrongSize("name", len(name), 1, MaxName)); err != nil {
		return false, err
	}
	removed, err := redis.Bool(v.run(ctx, vaultRemoveScript, 3, name))
	if removed {
		v.tell(ctx, name)
	}
	return removed, err
}

// Revision returns a number that changes with each change of any value; 0: nothing was ever stored.
// Only a Redis that has lost changes may return an earlier one again.
func (v Vault) Revision(ctx context.Context) (int64, error) {
	replies, err := v.do(ctx, "revision of values", wire.Command{"HGET", v.key(vaultState), "revision"})
	if err != nil {
		return 0, err
	}
	n, err := redis.Int64(replies[0], nil)
	if errors.Is(err, redis.ErrNil) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("revision of values: %w", err)
	}
	return n, nil
}

// Get returns the value of a name, or false if there is none.
func (v Vault) Get(ctx context.Context, name string) (Sealed, bool, error) {
	if err := refused("get value", wrongSize("name", len(name), 1, MaxName)); err != nil {
		return Sealed{}, false, err
	}
	replies, err := v.do(ctx, "get value", wire.Command{"HGET", v.key(vaultValues), name})
	if err != nil {
		return Sealed{}, false, err
	}
	text, err := redis.String(replies[0], nil)
	if errors.Is(err, redis.ErrNil) {
		return Sealed{}, false, nil
	}
	if err != nil {
		return Sealed{}, false, fmt.Errorf("get value: %w", err)
	}
	e, err := readSealed(name, text)
	return e, err == nil, err
}

// Page returns the values whose names come after the given one, in the order of names. Limit
// is 1 to MaxPage. A page with fewer than limit values is the last one. A value that cannot
// be read is returned as an entry with a name only.
func (v Vault) Page(ctx context.Context, after string, limit int) ([]Sealed, error) {
	if err := refused("page of values", wrongNumber("limit", limit, 1, MaxPage)); err != nil {
		return nil, err
	}
	from := "-"
	if after != "" {
		from = "(" + after
	}
	replies, err := v.do(ctx, "page of values", wire.Command{"ZRANGEBYLEX", v.key(vaultNames), from, "+", "LIMIT", 0, limit})
	if err != nil {
		return nil, err
	}
	names, err := redis.Strings(replies[0], nil)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	ask := wire.Command{"HMGET", v.key(vaultValues)}
	for _, name := range names {
		ask = append(ask, name)
	}
	if replies, err = v.do(ctx, "page of values", ask); err != nil {
		return nil, err
	}
	texts, err := redis.Values(replies[0], nil)
	if err != nil || len(texts) != len(names) {
		return nil, fmt.Errorf("page of values: %w", errors.Join(wire.ErrReply, err))
	}
	page := make([]Sealed, len(names))
	for i, name := range names {
		page[i].Name = name
		if text, ok := texts[i].([]byte); ok {
			if e, err := readSealed(name, string(text)); err == nil {
				page[i] = e
			}
		}
	}
	return page, nil
}

func readSealed(name, text string) (Sealed, error) {
	digits, rest, _ := strings.Cut(text, "|")
	revision, err := strconv.ParseInt(digits, 10, 64)
	set, value, ok := cutTime(rest, "|")
	if err != nil || !ok {
		return Sealed{}, fmt.Errorf("value %q: %w", name, wire.ErrReply)
	}
	return Sealed{Name: name, Revision: revision, Set: set, Value: []byte(value)}, nil
}
