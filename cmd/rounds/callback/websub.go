package callback

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/websub"
)

// WebSubName stands for the calls of all hubs where a callback's name does. No name of a callback has
// a capital letter.
const WebSubName = "WebSub"

const (
	// maxChallenge is the most bytes of a hub's challenge.
	maxChallenge = 1024
	// hubAnswerSoon is within which time an account takes a hub's lease or refusal into account.
	hubAnswerSoon = 2 * time.Second
	// hubHintLives is how long the hint of a push or a lease lives.
	hubHintLives = time.Hour
)

// Hubs receive the calls of WebSub hubs (W3C Recommendation of 23 January 2018). Each call is for the
// subscription in the cursor of one feed, which the path names by the account's id and by a token that
// only the hub knows. What a hub pushes is compared with its signature and dropped: a push only asks for a
// check. It is safe for concurrent use.
type Hubs struct {
	ring *circulate.Ring
	in   func(kind string, cursor []byte) *websub.Subscription
}

// NewHubs returns the receiver of the calls for the accounts of a ring. in returns the subscription in the
// cursor of a kind, or nil.
func NewHubs(ring *circulate.Ring, in func(kind string, cursor []byte) *websub.Subscription) *Hubs {
	return &Hubs{ring, in}
}

// Verify answers what a hub asks about a subscription (sections 5.2 and 5.3): it returns the challenge if
// the account subscribes, as the hub says, and notes the lease. The end of a subscription is confirmed if
// the account has none any more. The error is ErrRefused, or the ring's.
func (h *Hubs) Verify(ctx context.Context, account, token string, query url.Values) ([]byte, Result, error) {
	id, s, _, err := h.subscription(ctx, account, token)
	if err != nil {
		return nil, Unavailable, err
	}
	mode, topic, challenge := only(query, "hub.mode"), only(query, "hub.topic"), only(query, "hub.challenge")
	if mode != "denied" && (challenge == "" || len(challenge) > maxChallenge) {
		return nil, Refused, ErrRefused
	}
	heard := websub.Heard{Token: token}
	switch {
	case mode == "unsubscribe" && s == nil:
		return []byte(challenge), Verified, nil // nobody wants its pushes
	case s == nil:
		return nil, NoSuch, ErrRefused
	case topic != s.Topic:
		return nil, Refused, ErrRefused
	case mode == "denied":
		heard.What = websub.HeardDenied
	case mode == "subscribe":
		heard.What, heard.Lease = websub.HeardLease, websub.LeaseOf(only(query, "hub.lease_seconds"))
	default:
		return nil, Refused, ErrRefused
	}
	result, err := h.nudge(ctx, id, heard, hubAnswerSoon)
	switch {
	case err != nil:
		return nil, result, err
	case result != Nudged:
		return nil, result, ErrRefused // the lease would not be noted
	}
	return []byte(challenge), Verified, nil
}

// ErrGone reports a push to a subscription that there is not, which the hub should end.
var ErrGone = errors.New("callback: nobody subscribes here")

// Push carries out a push, and returns the result. A push whose signature is wrong is refused without an
// error: the hub must not learn that (section 7.1). Pushes that come fast after each other lead to one
// check. The error is ErrGone, or the ring's.
func (h *Hubs) Push(ctx context.Context, account, token, signature string, body io.Reader) (Result, error) {
	id, s, now, err := h.subscription(ctx, account, token)
	switch {
	case err != nil:
		return Unavailable, err
	case s == nil:
		return NoSuch, ErrGone
	case s.Verify(signature, body) != nil:
		return Refused, nil
	}
	within := max(0, s.Pushed.Add(websub.PushPause).Sub(now))
	result, err := h.nudge(ctx, id, websub.Heard{What: websub.HeardPush, Token: token}, min(within, websub.PushPause))
	if result == UnknownAccount {
		return NoSuch, ErrGone
	}
	return result, err
}

// subscription returns the account's subscription with the token, or nil if there is none.
func (h *Hubs) subscription(ctx context.Context, account, token string) (id string, s *websub.Subscription, now time.Time, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(account)
	if id = string(raw); err != nil || circulate.ValidateID(id) != nil {
		return id, nil, now, nil
	}
	if s, now, err = h.Of(ctx, id); err != nil || s == nil || !s.Is(token) {
		return id, nil, now, err
	}
	return id, s, now, nil
}

// Of returns an account's subscription, or nil, and the time by Redis' clock.
func (h *Hubs) Of(ctx context.Context, id string) (s *websub.Subscription, now time.Time, err error) {
	shard := h.ring.ShardOf(id)
	found, err := h.ring.Snapshots(ctx, shard, []string{id})
	if err != nil || len(found) == 0 {
		return nil, now, err
	}
	var record struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(found[0].Record, &record) != nil {
		return nil, now, nil
	}
	if s = h.in(record.Kind, found[0].Cursor); s != nil {
		now, err = h.ring.Now(ctx, shard)
	}
	return s, now, err
}

func (h *Hubs) nudge(ctx context.Context, id string, heard websub.Heard, within time.Duration) (Result, error) {
	err := h.ring.Account(id).Nudge(ctx, circulate.Nudge{Within: within, Hint: heard.Hint(), Lives: hubHintLives})
	switch {
	case err == nil:
		return Nudged, nil
	case errors.Is(err, circulate.ErrNotRegistered):
		return UnknownAccount, nil
	case errors.Is(err, circulate.ErrParked):
		return Parked, nil
	}
	return Unavailable, err
}
