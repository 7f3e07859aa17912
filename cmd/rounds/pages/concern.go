package pages

import (
	"html/template"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// concern returns a concern as a sentence. Texts have the arguments 1 subject, 2 accounts,
// 3 messages, 4 duration, 5 share, 6 value, 7 how many a minute, 8 how many are alike, 9 accounts of which those are some.
func (l *language) concern(c *api.Concern) template.HTML {
	key := "concern." + string(c.Code)
	switch {
	case c.Code == "clock_stepped" && c.Seconds < 0, c.Code == "headroom_low" && c.Seconds <= 0:
		key += ".past"
	case c.Code == "webhook_refused" && c.Value == "":
		key += ".some"
	case c.Code == "group_lagging" && c.Value == "no_consumer":
		key += ".alone"
	case c.Code == "group_lagging" && c.Value != "":
		key += ".later"
	}
	if !l.has(key) {
		return template.HTML(template.HTMLEscapeString(c.Text)) // #nosec G203: escaped
	}
	subject := marked("b", c.Subject)
	if c.Count > 1 {
		subject = l.html("concern.more", subject, c.Count-1)
	}
	seconds := max(c.Seconds, -c.Seconds)
	return l.html(key, subject, l.text("noun.accounts", c.Accounts), l.text("noun.messages", c.Messages), l.duration(time.Duration(seconds)*time.Second),
		l.percent(c.Share), c.Value, c.PerMinute, max(1, c.Count), l.text("noun.accounts", c.Of))
}

// At returns where a visitor finds more about a concern on this site, or nothing.
func (v *visit) At(c *api.Concern) string {
	if c.Link == "/" {
		return "/#live-replicas"
	}
	if !v.offers(c.Link) {
		return ""
	}
	return c.Link
}

// PageName returns the name of the page at an address, for a link to it.
func (v *visit) PageName(at string) string {
	if at == "/#live-replicas" {
		return v.lang.text("overview.replicas")
	}
	return v.lang.text("menu." + strings.TrimPrefix(at, "/"))
}
