package ilink

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// maxWrong is the number of wrong digits that block a code.
const maxWrong = 3

// code is a code to be scanned.
type code struct {
	text   string // qrcode
	until  time.Time
	local  []string // the tokens that the client says it has
	status string   // the status that a call gets at once; empty: wait
	digits string   // the digits to type in; empty: none
	wrong  int
	host   string // the host at which to go on; empty: any
	told   bool   // the client knows that it was scanned: its next call is held
	user   string // who has scanned
	news   chan struct{}
}

// The statuses of a code.
const (
	StatusWait     = "wait"
	StatusScanned  = "scaned" // as the server spells it
	StatusDigits   = "need_verifycode"
	StatusBlocked  = "verify_code_blocked"
	StatusExpired  = "expired"
	StatusRedirect = "scaned_but_redirect"
	StatusBound    = "binded_redirect"
	StatusDone     = "confirmed"
)

// getCode makes a code.
func (w *Ilink) getCode(rw http.ResponseWriter, r *http.Request) {
	q, _, fault := read(r)
	switch {
	case fault == "" && r.URL.Query().Get("bot_type") != "3":
		fault = "bot_type"
	case len(q.LocalTokens) > 10:
		fault = "local_token_list"
	}
	if fault != "" {
		http.Error(rw, fault, http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.issued++
	c := &code{text: fmt.Sprintf("qr-%d", w.issued), until: w.options.Now().Add(w.options.CodeLife), local: q.LocalTokens, news: make(chan struct{})}
	w.codes[c.text] = c
	w.answer(rw, r, map[string]any{"ret": 0, "qrcode": c.text, "qrcode_img_content": w.options.Link(r, c.text)})
}

// getStatus holds a call until the code's status changes.
func (w *Ilink) getStatus(rw http.ResponseWriter, r *http.Request) {
	ends := time.NewTimer(max(w.options.Hold, 0))
	defer ends.Stop()
	digits := r.URL.Query().Get("verify_code")
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.codes[r.URL.Query().Get("qrcode")]
	if c == nil {
		w.answer(rw, r, map[string]any{"status": StatusExpired}) // a guess
		return
	}
	over := w.options.Hold < 0
	for {
		switch {
		case c.status != StatusDone && w.options.Now().After(c.until):
			c.status = StatusExpired
		case c.host != "" && r.Host != c.host:
			w.answer(rw, r, map[string]any{"status": StatusRedirect, "redirect_host": c.host})
			return
		case c.status == StatusDigits && digits != "":
			c.typed(digits)
			digits = ""
		}
		switch status := cmp.Or(c.status, StatusWait); {
		case status == StatusDone:
			w.confirm(rw, r, c)
			return
		case over || status != StatusWait && (status != StatusScanned || !c.told):
			c.told = status == StatusScanned
			w.answer(rw, r, map[string]any{"status": status})
			return
		}
		ended, gone := w.await(r, c.news, ends.C)
		if gone {
			return
		}
		over = over || ended
	}
}

// typed judges the digits that a person has typed in.
func (c *code) typed(digits string) {
	switch {
	case digits == c.digits:
		c.status, c.digits = StatusScanned, ""
	case c.wrong+1 >= maxWrong:
		c.status = StatusBlocked
	default:
		c.wrong++
	}
}

// confirm binds the person's bot and answers with its token, once: the code is then used up. A bot
// that was bound before gets another token.
func (w *Ilink) confirm(rw http.ResponseWriter, r *http.Request, c *code) {
	w.issued++
	b := w.bind(c.user, fmt.Sprintf("token-%d", w.issued))
	c.status = StatusExpired // a guess
	base := w.options.Host
	if base == "" {
		base = "http://" + r.Host
	}
	w.answer(rw, r, map[string]any{"status": StatusDone, "bot_token": b.token, "ilink_bot_id": b.id, "baseurl": base, "ilink_user_id": b.user})
}

// bound reports whether the client already has a person's bot.
func (w *Ilink) bound(c *code, user string) bool {
	b := w.owners[user]
	return b != nil && w.bots[b.token] == b && slices.Contains(c.local, b.token)
}
