package callback

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/callback/wecomcrypt"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// Result is what became of a callback.
type Result string

// The results of callbacks. All but the last four are a success to whoever calls.
const (
	Verified       Result = "verified"        // the address is ours: the echo is given
	Nudged         Result = "nudged"          // its account is checked now
	Repeated       Result = "repeated"        // it came before, and was obeyed then
	Ignored        Result = "ignored"         // an event that is not about messages
	UnknownAccount Result = "unknown_account" // nobody registered the account that it is about
	Parked         Result = "parked"          // its account is out of circulation

	Refused     Result = "refused"     // not signed by who should have, or unreadable
	Stale       Result = "stale"       // signed, but too long ago
	NoSuch      Result = "no_such"     // no callback has this name
	Unavailable Result = "unavailable" // Redis is away: it should come again
)

// Window is how far a callback's time may be from ours, by Redis' clock.
const Window = 10 * time.Minute

// ErrRefused reports a callback that is refused. It says no more: whoever may be
// guessing learns nothing.
var ErrRefused = errors.New("callback: the callback is refused")

// Receiver obeys callbacks of WeCom: an event of an account has that account
// checked at once. It is safe for concurrent use. Keep one for a process.
type Receiver struct {
	ring   *circulate.Ring
	known  map[string]*Address
	decoy  *Address // for names that are none: they cost as much as one that is
	log    *slog.Logger
	recent *recently
}

// Address is one address that WeCom calls.
type Address struct {
	Config
	crypt *wecomcrypt.Crypt
}

// NewAddress makes a callback of its config and its secrets. It returns Faults,
// which name the field and never its value.
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

// New obeys these callbacks, whose names differ. A nil log is silent.
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

// Echo returns the text with which WeCom verifies an address. The error is
// ErrRefused, or the ring's.
func (c *Receiver) Echo(ctx context.Context, name string, query url.Values) ([]byte, Result, error) {
	callback, open := c.open(name, query, only(query, "echostr"))
	echo, err := open()
	if err != nil || len(echo) == 0 || echo[0] == '<' {
		// An event is not for whoever can only repeat it in another's place.
		return nil, refusal(callback), ErrRefused
	}
	if _, result, err := c.fresh(ctx, 0, query); err != nil {
		return nil, result, err
	}
	return echo, Verified, nil
}

// Receive obeys a callback with a body, and says what became of it. The error is
// ErrRefused, or the ring's, which leaves it open whether the account was nudged:
// to call again is safe.
func (c *Receiver) Receive(ctx context.Context, name string, query url.Values, body []byte) (Result, error) {
	encrypted, err := wecomcrypt.ParseBody(body)
	if err != nil {
		encrypted = "" // refused below, like all else
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

// open finds the callback and how to open what it sent. Nothing of an encrypted
// text is looked at before its signature.
func (c *Receiver) open(name string, query url.Values, encrypted string) (*Address, func() ([]byte, error)) {
	callback := c.known[name]
	opener := callback
	if opener == nil {
		opener = c.decoy
	}
	return callback, func() ([]byte, error) {
		timestamp, nonce := only(query, "timestamp"), only(query, "nonce")
		message, err := opener.crypt.Open(only(query, "msg_signature"), timestamp, nonce, encrypted)
		// The signature is over fields that are joined without a mark between them.
		// Their form keeps one from being cut out of another.
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

// fresh tells the time by Redis' clock, and refuses what was signed too long ago
// or ahead of that.
func (c *Receiver) fresh(ctx context.Context, shard int, query url.Values) (time.Time, Result, error) {
	now, err := c.ring.Now(ctx, shard)
	if err != nil {
		return time.Time{}, Unavailable, err
	}
	seconds, _ := strconv.ParseInt(only(query, "timestamp"), 10, 64) // isTimestamp saw it
	if now.Sub(time.Unix(seconds, 0)).Abs() > Window {
		return now, Stale, ErrRefused
	}
	return now, "", nil
}

// nudge has the account checked at once. What the event's token is good for ends
// with the token.
func (c *Receiver) nudge(ctx context.Context, callback *Address, id string, event *wecomcrypt.Event, now time.Time) (Result, error) {
	if circulate.ValidateID(id) != nil {
		c.tell(callback, id, "a callback is about an account that can have no id", now)
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
		c.tell(callback, id, "a callback is about an account that is not registered", now)
		return UnknownAccount, nil
	case errors.Is(err, circulate.ErrParked):
		c.tell(callback, id, "a callback is about an account that is parked: its messages wait until it is resumed", now)
		return Parked, nil
	}
	return Unavailable, err
}

// tell logs something of an account, and not again with the next callback.
func (c *Receiver) tell(callback *Address, id, what string, now time.Time) {
	key := callback.Name + "?" + id + "?" + what
	if !c.recent.has(key, now) {
		c.recent.add(key, now)
		c.log.Warn(what, "callback", callback.Name, "account", id)
	}
}

// maxEventToken is the most bytes of an event's token that are believed to be
// one.
const maxEventToken = 1024

// only is the value of a parameter that is there once, otherwise empty.
func only(query url.Values, name string) string {
	if values := query[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// isTimestamp reports whether a text is unix seconds as WeCom writes them.
func isTimestamp(text string) bool {
	if len(text) != 10 {
		return false
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
