package key

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// fresh is how long an answer of Redis about a key is used. A revoked key is valid no
	// longer than that, in any process.
	fresh = 3 * time.Second
	// askTime is the time-out of one request to Redis. Other callers may wait for it too.
	askTime = 5 * time.Second
	// noteAgain is the wait before another try to note a use that could not be noted.
	noteAgain = time.Minute
)

// Keyring holds the keys of a namespace. It is safe for concurrent use. Errors that are
// not this package's are the ring's: Redis is unreachable, or refused a command.
type Keyring struct {
	store  document.Keys
	log    *slog.Logger
	asking singleflight.Group

	mu      sync.Mutex
	known   map[string]known     // by digest; only keys that exist
	noted   map[string]time.Time // when a use was noted, or could not be
	secret  []byte               // that the processes of the namespace share; nil: not used yet
	revoked int                  // counts revocations: an answer from before the last one is dropped
}

// known is what Redis said about a key.
type known struct {
	key   Key
	asked time.Time // here
	now   time.Time // by Redis' clock, at that time or a little later
}

// NewKeyring returns the keyring of a ring's namespace. If the log is nil, nothing is
// logged.
func NewKeyring(ring *circulate.Ring, log *slog.Logger) *Keyring {
	return over(document.Of(ring).Keys(), log)
}

// NewKeyringAt returns the keyring of a namespace in a Redis, for callers without a ring.
func NewKeyringAt(server circulate.Server, namespace string) *Keyring {
	return over(document.At(server, namespace).Keys(), nil)
}

func over(store document.Keys, log *slog.Logger) *Keyring {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Keyring{store: store, log: log, known: make(map[string]known), noted: make(map[string]time.Time)}
}

// Create creates a key and returns its text, which cannot be read again. The error is
// strict.Faults, ErrTaken or ErrFull. After an unknown outcome a key with the name may
// exist whose text is lost: revoke it.
func (r *Keyring) Create(ctx context.Context, n New) (text string, k Key, err error) {
	if err := n.Validate(); err != nil {
		return "", Key{}, err
	}
	now, err := r.store.Now(ctx)
	if err != nil {
		return "", Key{}, err
	}
	text = newText()
	k = Key{Digest: digestOf(text), Name: n.Name, Role: n.Role, Labels: n.Labels, Created: time.UnixMilli(now.UnixMilli()), By: n.By}
	if n.Life > 0 {
		k.Expires = k.Created.Add(n.Life)
	}
	stored, err := json.Marshal(record{
		Version: recordVersion, Name: n.Name, Role: n.Role.String(), Labels: n.Labels, Created: k.Created.UnixMilli(), By: n.By,
	})
	if err != nil {
		return "", Key{}, err
	}
	if err := r.store.Add(ctx, n.Name, k.Digest, stored, k.Expires); err != nil {
		return "", Key{}, err
	}
	return text, k, nil
}

// List returns all keys, expired ones included, in the order of their names, and the time
// by Redis' clock.
func (r *Keyring) List(ctx context.Context) ([]Key, time.Time, error) {
	entries, now, err := r.store.List(ctx)
	if err != nil {
		return nil, now, err
	}
	keys := make([]Key, len(entries))
	for i, e := range entries {
		keys[i] = keyOf(e)
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return keys, now, nil
}

// Revoke deletes the key of a name and returns it, or ErrNotFound. This process refuses the key at
// once, others within fresh.
func (r *Keyring) Revoke(ctx context.Context, name string) (Key, error) {
	// This is done even after an unknown outcome: the key is then asked for again.
	defer r.forget(name)
	e, found, err := r.store.Remove(ctx, name)
	if err != nil {
		return Key{}, err
	}
	if !found {
		return Key{}, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	return keyOf(e), nil
}

func (r *Keyring) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revoked++
	for digest, k := range r.known {
		if k.key.Name == name {
			delete(r.known, digest)
			r.asking.Forget(digest)
		}
	}
}

// Sealer returns a cipher for data that callers carry but must not read, such as the
// position where a page ended. All processes of the namespace can open it.
func (r *Keyring) Sealer(ctx context.Context) (cipher.AEAD, error) {
	secret, err := r.shared(ctx)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Sign returns a signature of a text, for links that need no key. All processes of the namespace
// make the same one. What is signed for one use is not signed for another.
func (r *Keyring) Sign(ctx context.Context, use, text string) ([]byte, error) {
	secret, err := r.shared(ctx)
	if err != nil {
		return nil, err
	}
	return mac(mac(secret, "rounds signs: "+use), text), nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text)) // a hash takes everything
	return h.Sum(nil)
}

// shared returns the secret that all processes of the namespace share.
func (r *Keyring) shared(ctx context.Context) ([]byte, error) {
	r.mu.Lock()
	secret := r.secret
	r.mu.Unlock()
	if secret != nil {
		return secret, nil
	}
	secret, err := r.store.Secret(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret = secret
	return secret, nil
}

// Authenticate returns the key with a text. The error is ErrMistyped, for which Redis is not
// asked, ErrUnknown or ErrExpired. Any other error means that Redis could not be asked. It
// says nothing about the key.
func (r *Keyring) Authenticate(ctx context.Context, text string) (Key, error) {
	if !wellFormed(text) {
		return Key{}, ErrMistyped
	}
	return r.Find(ctx, digestOf(text))
}

// Find is Authenticate by the digest, for a key that was authenticated before.
func (r *Keyring) Find(ctx context.Context, digest string) (Key, error) {
	r.mu.Lock()
	k, ok := r.known[digest]
	r.mu.Unlock()
	if !ok || time.Since(k.asked) >= fresh {
		// The caller's context is not used, because other callers may wait for this answer.
		asked := r.asking.DoChan(digest, func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
			defer cancel()
			return r.ask(ctx, digest)
		})
		select {
		case <-ctx.Done():
			return Key{}, context.Cause(ctx)
		case answer := <-asked:
			if answer.Err != nil {
				return Key{}, answer.Err
			}
			k = answer.Val.(known)
		}
	}
	if k.key.Expired(k.now.Add(time.Since(k.asked))) {
		return Key{}, fmt.Errorf("%w: %q at %s", ErrExpired, k.key.Name, k.key.Expires.UTC().Format(time.RFC3339))
	}
	return k.key, nil
}

// ask asks Redis for a key, and caches the answer.
func (r *Keyring) ask(ctx context.Context, digest string) (known, error) {
	r.mu.Lock()
	revoked := r.revoked
	r.mu.Unlock()
	k := known{asked: time.Now()}
	e, found, now, err := r.store.Get(ctx, digest)
	if err != nil {
		return known{}, err
	}
	if !found {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.known, digest)
		delete(r.noted, digest)
		return known{}, ErrUnknown
	}
	k.key, k.now = keyOf(e), now
	r.note(ctx, &k)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked == revoked {
		r.known[digest] = k
	}
	if len(r.known) > Most {
		for other, its := range r.known {
			if time.Since(its.asked) >= fresh {
				delete(r.known, other)
				delete(r.noted, other)
			}
		}
	}
	return k, nil
}

// note stores that a key was used, unless a use was stored within UsedEvery. If that fails,
// the key can still be used.
func (r *Keyring) note(ctx context.Context, k *known) {
	if k.now.Sub(k.key.Used) < UsedEvery || k.key.Expired(k.now) {
		return
	}
	r.mu.Lock()
	tried, again := r.noted[k.key.Digest]
	again = again && time.Since(tried) < noteAgain
	if !again {
		r.noted[k.key.Digest] = time.Now()
	}
	r.mu.Unlock()
	if again {
		return
	}
	if err := r.store.Note(ctx, k.key.Digest); err != nil && !errors.Is(err, context.Canceled) {
		r.log.DebugContext(ctx, "the use of a key could not be noted", "key", k.key.Name, "error", err)
	}
}
