package wecom

import (
	"crypto/rand"
	"math"
	"net/http"
	"time"
)

// corp is a corporation.
type corp struct {
	id, secret string
	token      token
	expired    map[string]bool // tokens that expired, unlike those revoked
	inside     int
	calls      []time.Time // of sync_msg, within a minute
	most       int         // the most of these, if it has a limit of its own; 0: the limit of the options
	faults     map[string]*fault
	stats      Stats
}

type token struct {
	value   string
	expires time.Time
}

// getToken returns the corporation's token, and the same one again while it lives.
func (w *WeCom) getToken(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	now, healed := w.options.Now(), w.healed
	c := w.corps[r.URL.Query().Get("corpid")]
	if c != nil {
		c.stats.GetToken++
		if f := c.faults[GetToken].next(); f != nil {
			w.mu.Unlock()
			f.answer(rw, r, healed)
			return
		}
	}
	defer w.mu.Unlock()
	if now.Before(w.bannedUntil) {
		refuse(rw, r, 60020)
		return
	}
	if c == nil {
		w.wrongSecret(now)
		refuse(rw, r, 40013)
		return
	}
	if r.URL.Query().Get("corpsecret") != c.secret {
		c.stats.WrongSecrets++
		w.wrongSecret(now)
		refuse(rw, r, 40001)
		return
	}
	c.age(now)
	if c.token.value == "" {
		c.stats.Tokens++
		c.token = token{rand.Text() + rand.Text(), now.Add(w.options.TokenLife)}
	}
	reply(rw, map[string]any{
		"errcode": 0, "errmsg": "ok", "access_token": c.token.value,
		"expires_in": int(math.Ceil(c.token.expires.Sub(now).Seconds())),
	})
}

// wrongSecret counts, and bans a caller that tries too often.
func (w *WeCom) wrongSecret(now time.Time) {
	if w.wrong++; w.options.BanAfter > 0 && w.wrong >= w.options.BanAfter {
		w.wrong, w.bannedUntil = 0, now.Add(time.Hour)
	}
}

// age ends a token that has expired.
func (c *corp) age(now time.Time) {
	if c.token.value != "" && !now.Before(c.token.expires) {
		if c.expired == nil {
			c.expired = make(map[string]bool)
		}
		c.expired[c.token.value] = true
		c.token = token{}
	}
}

// Revoke ends a corporation's token early. Calls with it return 40014 from then on.
func (w *WeCom) Revoke(corp string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corps[corp].token = token{}
}

// Token returns the current access token of a corporation, or "" if it has none.
func (w *WeCom) Token(corp string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corps[corp].age(w.options.Now())
	return w.corps[corp].token.value
}

// holder returns the corporation that a token belongs to, or what is wrong with it.
func (w *WeCom) holder(value string, now time.Time) (*corp, int) {
	if value == "" {
		return nil, 40014
	}
	for _, c := range w.corps {
		c.age(now)
		if c.token.value == value {
			return c, 0
		}
		if c.expired[value] {
			return nil, 42001
		}
	}
	return nil, 40014
}
