package websub

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // hubs sign with it, and an HMAC of it is sound
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	leaseLeast  = 5 * time.Minute
	leaseMost   = 90 * 24 * time.Hour
	leaseUntold = 24 * time.Hour // of a hub that does not say, or says 0

	backstop  = 6 * time.Hour // between two checks while pushes come
	announced = time.Minute   // how long after a push its items may be found
	askFirst  = time.Hour     // from one request without a verified intent to the next, doubled each time
	askMost   = 24 * time.Hour

	maxAddress = 1024 // bytes of a hub and of a topic
	tokenBytes = 16
	maxPush    = 8 << 20 // bytes of a push that are read: as many as a feed may have

	// PushPause is the least time between two checks that pushes ask for.
	PushPause = 10 * time.Second
)

// Subscription is what an account remembers of a hub, in its cursor.
type Subscription struct {
	Hub     string    `json:"hub"`
	Topic   string    `json:"topic"`
	Token   string    `json:"token"`
	Secret  string    `json:"secret"`
	Asked   time.Time `json:"asked,omitzero"`   // when the hub was last asked; zero: not yet
	Asks    int       `json:"asks,omitempty"`   // how often, since it last verified the intent
	Until   time.Time `json:"until,omitzero"`   // the end of the lease; zero: none was granted
	Lease   int       `json:"lease,omitempty"`  // as granted, in seconds
	Trusted bool      `json:"trust,omitempty"`  // pushes come, and announce what is found
	Pushed  time.Time `json:"pushed,omitzero"`  // the last check that a push asked for
	Denied  bool      `json:"denied,omitempty"` // by the hub, since it was last asked
}

// Live reports whether the hub has granted a lease that has not ended.
func (s *Subscription) Live(now time.Time) bool { return s != nil && now.Before(s.Until) }

// State returns how the subscription stands: asked, denied, live or trusted. See the package.
func (s *Subscription) State(now time.Time) string {
	switch {
	case s.Live(now) && s.Trusted:
		return "trusted"
	case s.Live(now):
		return "live"
	case s.Denied:
		return "denied"
	}
	return "asked"
}

// Host returns the hub without what may be secret in its address.
func (s *Subscription) Host() string { return hostname(s.Hub) }

// Valid reports whether a subscription can be used.
func (s *Subscription) Valid() bool {
	return s.Hub != "" && len(s.Hub) <= maxAddress && s.Topic != "" && len(s.Topic) <= maxAddress && len(s.Token) >= tokenBytes && len(s.Secret) >= tokenBytes
}

// Is reports, in constant time, whether a token is the subscription's.
func (s *Subscription) Is(token string) bool {
	return subtle.ConstantTimeCompare([]byte(s.Token), []byte(token)) == 1
}

var errUnsigned = errors.New("websub: a push is not signed by the hub")

// Verify reads a push and compares it with its X-Hub-Signature (section 7.1). It reads at most 8 MiB.
// The error is of the reader, or says that the signature is wrong.
func (s *Subscription) Verify(signature string, body io.Reader) error {
	method, sum, _ := strings.Cut(signature, "=")
	made, ok := map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}[strings.ToLower(method)]
	want, err := hex.DecodeString(sum)
	if !ok || err != nil {
		return errUnsigned
	}
	mac := hmac.New(made, []byte(s.Secret))
	if _, err := io.Copy(mac, io.LimitReader(body, maxPush)); err != nil {
		return err
	}
	if n, err := io.ReadFull(body, make([]byte, 1)); n > 0 || err != nil && !errors.Is(err, io.EOF) {
		return errUnsigned // the rest would have to be read
	}
	if !hmac.Equal(mac.Sum(nil), want) {
		return errUnsigned
	}
	return nil
}

// Heard is what a hub said about a subscription. A nudge's hint takes it to the account's next check.
type Heard struct {
	What  string `json:"websub"`
	Lease int    `json:"lease,omitempty"` // with HeardLease: seconds
	Token string `json:"token"`
}

// What hubs say.
const (
	HeardPush   = "push"
	HeardLease  = "lease"
	HeardDenied = "denied"
)

// Hint returns the hint of a nudge. Only the digest of the token is in it.
func (h Heard) Hint() json.RawMessage {
	h.Token = digest(h.Token)
	text, _ := json.Marshal(h) // texts and a number
	return text
}

// LeaseOf reads hub.lease_seconds. It returns 0 for what is no lease.
func LeaseOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		return 0
	}
	return min(n, int(leaseMost/time.Second))
}

// heed takes what the hub said into account. A hint may be anything: whoever may nudge can give one.
func (s *Subscription) heed(hint json.RawMessage, now time.Time) (pushed bool) {
	var h Heard
	if s == nil || len(hint) == 0 || json.Unmarshal(hint, &h) != nil || h.Token != digest(s.Token) {
		return false
	}
	switch h.What {
	case HeardPush:
		s.Pushed = now.Truncate(time.Second)
		return true
	case HeardLease:
		lease := leaseUntold
		if h.Lease > 0 {
			lease = max(time.Duration(min(h.Lease, int(leaseMost/time.Second)))*time.Second, leaseLeast)
		}
		s.Until, s.Lease, s.Asks, s.Denied = now.Add(lease).Truncate(time.Second), int(lease/time.Second), 0, false
	case HeardDenied: // at any time (section 5.2)
		s.Until, s.Lease, s.Trusted, s.Denied = time.Time{}, 0, false, true
	}
	return false
}

// learn notes whether pushes announce what is found. Pushes that come before the feed shows what is
// new, and items that no push announced, mean that the feed is checked at its cadence.
func (s *Subscription) learn(pushed, recent, found bool) {
	if s == nil {
		return
	}
	switch {
	case found:
		s.Trusted = pushed || recent
	case pushed && !recent:
		s.Trusted = false
	}
}

// recent reports whether a push came just before.
func (s *Subscription) recent(now time.Time) bool {
	return s != nil && now.Sub(s.Pushed) < announced
}

// rests returns the least time until the next check: long while pushes come, zero otherwise.
func (s *Subscription) rests(now time.Time) time.Duration {
	if !s.Live(now) || !s.Trusted {
		return 0
	}
	return max(0, min(backstop, s.renewal().Sub(now)))
}

// renewal returns when the lease is to be renewed.
func (s *Subscription) renewal() time.Time {
	return s.Until.Add(-time.Duration(s.Lease) * time.Second / 3)
}

// due reports whether the hub is to be asked now.
func (s *Subscription) due(now time.Time) bool {
	switch {
	case s == nil:
		return false
	case s.Asked.IsZero():
		return true
	case s.Live(now) && now.Before(s.renewal()):
		return false
	case s.Asks <= 0:
		return true
	}
	pause := askMost
	if s.Asks < 5 {
		pause = askFirst << (s.Asks - 1)
	}
	if s.Live(now) { // several tries in the last third of a short lease
		pause = min(pause, max(leaseLeast, time.Duration(s.Lease)*time.Second/12))
	}
	return !now.Before(s.Asked.Add(pause))
}

// digest stands for a token where others may see it.
func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawStdEncoding.EncodeToString(sum[:8])
}
