package callback

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/callback/wecomcrypt"
)

// Result is the result of a callback.
type Result string

// The results of callbacks. All but the last four are a success for the caller.
const (
	Verified       Result = "verified"        // the address is verified: the echo is returned
	Nudged         Result = "nudged"          // its account is checked now
	Repeated       Result = "repeated"        // the same callback came before, and was carried out then
	Ignored        Result = "ignored"         // an event that is not about messages
	UnknownAccount Result = "unknown_account" // its account is not registered
	Parked         Result = "parked"          // its account is out of circulation

	Refused     Result = "refused"     // wrongly signed, or unreadable
	Stale       Result = "stale"       // signed, but too long ago
	NoSuch      Result = "no_such"     // no callback has this name
	Unavailable Result = "unavailable" // Redis is away: the caller should try again
)

// Results returns the results of callbacks that have a name.
func Results() []Result {
	return []Result{Verified, Nudged, Repeated, Ignored, UnknownAccount, Parked, Refused, Stale, Unavailable}
}

// window is how far a callback's time may be from Redis' clock.
const window = 10 * time.Minute

// ErrRefused reports a refused callback. It gives no reason, so that a caller that guesses
// learns nothing.
var ErrRefused = errors.New("callback: the callback is refused")

// Receiver receives the callbacks of WeCom: an event of an account leads to a check of that
// account at once. It is safe for concurrent use. A process should have one Receiver.
type Receiver struct {
	ring   *circulate.Ring
	known  map[string]*Address
	decoy  *Address // for unknown names, so that they cost as much time as known ones
	log    *slog.Logger
	recent *recently
}

// Address is one address that WeCom calls.
type Address struct {
	Config
	crypt *wecomcrypt.Crypt
}

// NewAddress returns an address from its config and its secrets. It returns Faults, which
// name the field and never its value.
func NewAddress(config Config, token, aesKey string) (*Address, error) {
	var faults strict.Faults
	if err := wecomcrypt.ValidateToken(token); err != nil {
		faults.Add("token", err.Error())
	}
	if err := wecomcrypt.ValidateKey(aesKey); err != nil {
		faults.Add("aes_key", err.Error())
	}
	if len(faults) > 0 {
		return nil, faults
	}
	crypt, err := wecomcrypt.New(token, aesKey, config.CorpID)
	if err != nil {
		return nil, err
	}
	return &Address{config, crypt}, nil
}

// New returns a receiver for these addresses, whose names must differ. A nil log is silent.
func New(ring *circulate.Ring, all []*Address, log *slog.Logger) (*Receiver, error) {
	decoy, err := NewAddress(Config{}, "decoy", strings.Repeat("a", 43))
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Receiver{ring: ring, known: make(map[string]*Address, len(all)), decoy: decoy, log: log, recent: newRecently(recentCount)}
	for _, callback := range all {
		c.known[callback.Name] = callback
	}
	return c, nil
}

// Names returns the names of the callbacks.
func (c *Receiver) Names() []string { return slices.Collect(maps.Keys(c.known)) }

// Echo returns the text with which WeCom verifies an address, and the result. The error is
// ErrRefused, or the ring's.
func (c *Receiver) Echo(ctx context.Context, name string, query url.Values) ([]byte, Result, error) {
	callback, open := c.open(name, query, only(query, "echostr"))
	echo, err := open()
	if err != nil || len(echo) == 0 || echo[0] == '<' {
		// Never return an event as an echo: a caller may only have overheard it.
		return nil, refusal(callback), ErrRefused
	}
	if _, result, err := c.fresh(ctx, 0, query); err != nil {
		return nil, result, err
	}
	return echo, Verified, nil
}

// Receive carries out a callback with a body, and returns the result. The error is ErrRefused, or
// the ring's. After an error of the ring it is unknown whether the account was nudged; repeating
// the call is safe.
func (c *Receiver) Receive(ctx context.Context, name string, query url.Values, body []byte) (Result, error) {
	encrypted, err := wecomcrypt.ParseBody(body)
	if err != nil {
		encrypted = "" // refused below, like a wrong signature
	}
	callback, open := c.open(name, query, encrypted)
	message, err := open()
	if err != nil {
		return refusal(callback), ErrRefused
	}
	event, err := wecomcrypt.ParseEvent(message)
	if err != nil {
		return Refused, ErrRefused
	}
	id := callback.account(event.OpenKfID)
	now, result, err := c.fresh(ctx, c.ring.ShardOf(id), query)
	if err != nil {
		return result, err
	}
	if event.Event != wecomcrypt.EventMessages || event.OpenKfID == "" {
		return Ignored, nil
	}
	signature := name + " " + only(query, "msg_signature")
	if c.recent.has(signature, now) {
		return Repeated, nil
	}
	result, err = c.nudge(ctx, callback, id, &event, now)
	if result == Nudged {
		c.recent.add(signature, now)
	}
	return result, err
}

// open returns the address and a function that opens the encrypted text. The function checks
// the signature before it decrypts.
func (c *Receiver) open(name string, query url.Values, encrypted string) (*Address, func() ([]byte, error)) {
	callback := c.known[name]
	opener := callback
	if opener == nil {
		opener = c.decoy
	}
	return callback, func() ([]byte, error) {
		timestamp, nonce := only(query, "timestamp"), only(query, "nonce")
		message, err := opener.crypt.Open(only(query, "msg_signature"), timestamp, nonce, encrypted)
		// The signed fields are joined without a separator. Their forms prevent a forger from
		// moving the boundary between two fields.
		if err != nil || callback == nil || !isTimestamp(timestamp) || nonce == "" {
			return nil, ErrRefused
		}
		return message, nil
	}
}

func refusal(callback *Address) Result {
	if callback == nil {
		return NoSuch
	}
	return Refused
}

// fresh returns the time by Redis' clock. It refuses a callback whose time differs from it by more
// than window.
func (c *Receiver) fresh(ctx context.Context, shard int, query url.Values) (time.Time, Result, error) {
	now, err := c.ring.Now(ctx, shard)
	if err != nil {
		return time.Time{}, Unavailable, err
	}
	seconds, _ := strconv.ParseInt(only(query, "timestamp"), 10, 64) // isTimestamp checked it
	if now.Sub(time.Unix(seconds, 0)).Abs() > window {
		return now, Stale, ErrRefused
	}
	return now, "", nil
}

// nudge asks for a check of the account at once. The hint lives as long as the event's token.
func (c *Receiver) nudge(ctx context.Context, callback *Address, id string, event *wecomcrypt.Event, now time.Time) (Result, error) {
	if circulate.ValidateID(id) != nil {
		c.tell(callback, id, "a callback names an account whose id is not valid", now)
		return UnknownAccount, nil
	}
	var n circulate.Nudge
	at := event.At()
	if at.IsZero() {
		at = now
	}
	n.Lives = min(wecomcrypt.TokenLife, wecomcrypt.TokenLife-now.Sub(at))
	if event.Token != "" && len(event.Token) <= maxEventToken && n.Lives > 0 {
		hint, err := json.Marshal(map[string]string{"token": event.Token})
		if err != nil {
			return Refused, ErrRefused
		}
		n.Hint = hint
	}
	err := c.ring.Account(id).Nudge(ctx, n)
	switch {
	case err == nil:
		return Nudged, nil
	case errors.Is(err, circulate.ErrNotRegistered):
		c.tell(callback, id, "a callback names an account that is not registered", now)
		return UnknownAccount, nil
	case errors.Is(err, circulate.ErrParked):
		c.tell(callback, id, "a callback names an account that is parked: its messages wait until it is resumed", now)
		return Parked, nil
	}
	return Unavailable, err
}

// tell logs something about an account once, and not again for later callbacks.
func (c *Receiver) tell(callback *Address, id, what string, now time.Time) {
	key := callback.Name + "?" + id + "?" + what
	if !c.recent.has(key, now) {
		c.recent.add(key, now)
		c.log.Warn(what, "callback", callback.Name, "account", id)
	}
}

// maxEventToken is the most bytes of an event's token. A longer one is ignored.
const maxEventToken = 1024

// only returns the value of a parameter that occurs exactly once, and otherwise an empty text.
func only(query url.Values, name string) string {
	if values := query[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// isTimestamp reports whether a text is Unix seconds in WeCom's form.
func isTimestamp(text string) bool {
	return len(text) == 10 && strings.Trim(text, "0123456789") == ""
}
