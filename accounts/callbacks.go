package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/wecomcrypt"
	"github.com/rounds-dev/rounds/circulate"
)

// CallbackResult is what became of a callback.
type CallbackResult string

// The results of callbacks. All but the last four are a success to whoever calls.
const (
	CallbackVerified       CallbackResult = "verified"        // the address is ours: the echo is given
	CallbackNudged         CallbackResult = "nudged"          // its account is checked now
	CallbackRepeated       CallbackResult = "repeated"        // it came before, and was obeyed then
	CallbackIgnored        CallbackResult = "ignored"         // an event that is not about messages
	CallbackUnknownAccount CallbackResult = "unknown_account" // nobody registered the account that it is about
	CallbackParked         CallbackResult = "parked"          // its account is out of circulation

	CallbackRefused     CallbackResult = "refused"     // not signed by who should have, or unreadable
	CallbackStale       CallbackResult = "stale"       // signed, but too long ago
	CallbackNoSuch      CallbackResult = "no_such"     // no callback has this name
	CallbackUnavailable CallbackResult = "unavailable" // Redis is away: it should come again
)

// CallbackWindow is how far a callback's time may be from ours, by Redis' clock.
const CallbackWindow = 10 * time.Minute

// ErrCallback reports a callback that is refused. It says no more: whoever may be
// guessing learns nothing.
var ErrCallback = errors.New("accounts: the callback is refused")

// Callbacks obeys callbacks of WeCom: an event of an account has that account
// checked at once. It is safe for concurrent use. Keep one for a process.
type Callbacks struct {
	ring   *circulate.Ring
	known  map[string]*Callback
	decoy  *Callback // for names that are none: they cost as much as one that is
	log    *slog.Logger
	recent *recently
}

// Callback is one address that WeCom calls.
type Callback struct {
	CallbackConfig
	crypt *wecomcrypt.Crypt
}

// NewCallback makes a callback of its config and its secrets. It gives Faults,
// which name the field and never its value.
func NewCallback(config CallbackConfig, token, aesKey string) (*Callback, error) {
	var faults Faults
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
	return &Callback{config, crypt}, nil
}

// NewCallbacks obeys these callbacks, whose names differ. A nil log is silent.
func NewCallbacks(ring *circulate.Ring, all []*Callback, log *slog.Logger) (*Callbacks, error) {
	decoy, err := NewCallback(CallbackConfig{}, "decoy", strings.Repeat("a", 43))
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Callbacks{ring: ring, known: make(map[string]*Callback, len(all)), decoy: decoy, log: log, recent: newRecently(recentCallbacks)}
	for _, callback := range all {
		c.known[callback.Name] = callback
	}
	return c, nil
}

// Echo gives the text with which WeCom verifies an address. The error is
// ErrCallback, or the ring's.
func (c *Callbacks) Echo(ctx context.Context, name string, query url.Values) ([]byte, CallbackResult, error) {
	callback, open := c.open(name, query, only(query, "echostr"))
	echo, err := open()
	if err != nil || len(echo) == 0 || echo[0] == '<' {
		// An event is not for whoever can only repeat it in another's place.
		return nil, refusal(callback), ErrCallback
	}
	if _, result, err := c.fresh(ctx, 0, query); err != nil {
		return nil, result, err
	}
	return echo, CallbackVerified, nil
}

// Receive obeys a callback with a body, and says what became of it. The error is
// ErrCallback, or the ring's, which leaves it open whether the account was nudged:
// to call again is safe.
func (c *Callbacks) Receive(ctx context.Context, name string, query url.Values, body []byte) (CallbackResult, error) {
	encrypted, err := wecomcrypt.ParseBody(body)
	if err != nil {
		encrypted = "" // refused below, like all else
	}
	callback, open := c.open(name, query, encrypted)
	message, err := open()
	if err != nil {
		return refusal(callback), ErrCallback
	}
	event, err := wecomcrypt.ParseEvent(message)
	if err != nil {
		return CallbackRefused, ErrCallback
	}
	id := callback.account(event.OpenKfID)
	now, result, err := c.fresh(ctx, c.ring.ShardOf(id), query)
	if err != nil {
		return result, err
	}
	if event.Event != wecomcrypt.EventMessages || event.OpenKfID == "" {
		return CallbackIgnored, nil
	}
	signature := name + " " + only(query, "msg_signature")
	if c.recent.has(signature, now) {
		return CallbackRepeated, nil
	}
	result, err = c.nudge(ctx, callback, id, &event, now)
	if result == CallbackNudged {
		c.recent.add(signature, now)
	}
	return result, err
}

// open finds the callback and how to open what it sent. Nothing of an encrypted
// text is looked at before its signature.
func (c *Callbacks) open(name string, query url.Values, encrypted string) (*Callback, func() ([]byte, error)) {
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
			return nil, ErrCallback
		}
		return message, nil
	}
}

func refusal(callback *Callback) CallbackResult {
	if callback == nil {
		return CallbackNoSuch
	}
	return CallbackRefused
}

// fresh tells the time by Redis' clock, and refuses what was signed too long ago
// or ahead of that.
func (c *Callbacks) fresh(ctx context.Context, shard int, query url.Values) (time.Time, CallbackResult, error) {
	now, err := c.ring.Now(ctx, shard)
	if err != nil {
		return time.Time{}, CallbackUnavailable, err
	}
	seconds, _ := strconv.ParseInt(only(query, "timestamp"), 10, 64) // isTimestamp saw it
	if now.Sub(time.Unix(seconds, 0)).Abs() > CallbackWindow {
		return now, CallbackStale, ErrCallback
	}
	return now, "", nil
}

// nudge has the account checked at once. What the event's token is good for ends
// with the token.
func (c *Callbacks) nudge(ctx context.Context, callback *Callback, id string, event *wecomcrypt.Event, now time.Time) (CallbackResult, error) {
	if circulate.ValidateID(id) != nil {
		c.tell(callback, id, "a callback is about an account that can have no id", now)
		return CallbackUnknownAccount, nil
	}
	n := circulate.Nudge{ID: id}
	at := event.At()
	if at.IsZero() {
		at = now
	}
	n.Lives = min(wecomcrypt.TokenLife, wecomcrypt.TokenLife-now.Sub(at))
	if event.Token != "" && len(event.Token) <= maxEventToken && n.Lives > 0 {
		hint, err := json.Marshal(map[string]string{"token": event.Token})
		if err != nil {
			return CallbackRefused, ErrCallback
		}
		n.Hint = hint
	}
	err := c.ring.Nudge(ctx, n)
	switch {
	case err == nil:
		return CallbackNudged, nil
	case errors.Is(err, circulate.ErrNotRegistered):
		c.tell(callback, id, "a callback is about an account that is not registered", now)
		return CallbackUnknownAccount, nil
	case errors.Is(err, circulate.ErrParked):
		c.tell(callback, id, "a callback is about an account that is parked: its messages wait until it is resumed", now)
		return CallbackParked, nil
	}
	return CallbackUnavailable, err
}

// tell logs something of an account, and not again with the next callback.
func (c *Callbacks) tell(callback *Callback, id, what string, now time.Time) {
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
