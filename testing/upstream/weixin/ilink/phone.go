package ilink

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Codes returns the codes that may still be scanned, the newest last.
func (w *Ilink) Codes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var open []string
	for text, c := range w.codes {
		if c.status != StatusExpired && c.status != StatusDone && w.options.Now().Before(c.until) {
			open = append(open, text)
		}
	}
	slices.SortFunc(open, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return open
}

func number(code string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(code, "qr-"))
	if err != nil {
		return 0
	}
	return n
}

// change changes a code as a person's phone does, and wakes its calls.
func (w *Ilink) change(qrcode string, by func(*code)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.codes[qrcode]
	if c == nil {
		return false
	}
	by(c)
	close(c.news)
	c.news = make(chan struct{})
	return true
}

// Scan has a person scan a code. With digits the phone shows them, and they must be typed in
// where the code is shown. If the person's bot is one that the client has, there is nothing
// to confirm. It reports whether there is such a code.
func (w *Ilink) Scan(qrcode, user, digits string) bool {
	return w.change(qrcode, func(c *code) {
		c.user, c.status = user, StatusScanned
		switch {
		case w.bound(c, user):
			c.status = StatusBound
		case digits != "":
			c.status, c.digits = StatusDigits, digits
		}
	})
}

// Redirect has the code's status be asked for at another host from now on.
func (w *Ilink) Redirect(qrcode, host string) bool {
	return w.change(qrcode, func(c *code) { c.host = host })
}

// Confirm has the person who scanned a code agree on the phone. Digits that were asked for
// must have been typed in.
func (w *Ilink) Confirm(qrcode string) bool {
	agreed := false
	w.change(qrcode, func(c *code) {
		if agreed = c.status == StatusScanned; agreed {
			c.status = StatusDone
		}
	})
	return agreed
}

// Expire ends a code's life.
func (w *Ilink) Expire(qrcode string) bool {
	return w.change(qrcode, func(c *code) { c.status = StatusExpired })
}

// Status returns a code's status.
func (w *Ilink) Status(qrcode string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.codes[qrcode]
	if c == nil {
		return StatusExpired
	}
	return cmp.Or(c.status, StatusWait)
}
