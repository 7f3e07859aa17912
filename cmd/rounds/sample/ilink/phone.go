package ilink

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Code is a code, as a person with a phone sees it.
type Code struct {
	QRCode string
	Status string
	User   string // who has scanned it
	Digits string // the digits that the phone shows
	Until  time.Time
}

// Open returns the codes that may still be used, the newest last.
func (w *Ilink) Open() []Code {
	w.mu.Lock()
	defer w.mu.Unlock()
	var open []Code
	for text, c := range w.codes {
		if c.status != StatusExpired && c.status != StatusDone && w.options.Now().Before(c.until) {
			open = append(open, Code{text, cmp.Or(c.status, StatusWait), c.user, c.digits, c.until})
		}
	}
	slices.SortFunc(open, func(a, b Code) int { return cmp.Compare(number(a.QRCode), number(b.QRCode)) })
	return open
}

// Codes returns the ids of the open codes, the newest last.
func (w *Ilink) Codes() (ids []string) {
	for _, c := range w.Open() {
		ids = append(ids, c.QRCode)
	}
	return ids
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

// Scan makes a person scan a code. With digits, the phone shows them, and they must be typed in
// where the code is shown. If the client already has the person's bot, there is nothing to confirm.
// Scan reports whether there is such a code.
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

// Redirect makes the client ask for the code's status at another host from now on.
func (w *Ilink) Redirect(qrcode, host string) bool {
	return w.change(qrcode, func(c *code) { c.host = host })
}

// Confirm makes the person who scanned a code agree on the phone. If digits were asked for, they
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
