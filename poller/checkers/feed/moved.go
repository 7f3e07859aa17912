package feed

import (
	"net/url"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const maxShown = 120 // bytes of an address in a warning

// moves tells of a feed that has another address for good, once that has answered as a
// feed does. What the config adds to requests is for the old address alone: then
// somebody has to say that the new one may have it.
func (c config) moves(to string, result *poller.Result) {
	if to == "" || to == c.url {
		return
	}
	text := "for good, to " + shown(to)
	if c.headers.Any() && !fetch.SameOrigin(c.url, to) {
		text += "; its login or headers are not sent there"
	} else {
		result.MovedTo = to
	}
	result.Warnings = append(result.Warnings, poller.Warning{Code: "moved", Message: text})
}

// shown is an address without what may be secret in it.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	text := u.Scheme + "://" + u.Host + u.EscapedPath()
	if u.RawQuery != "" {
		text += "?…"
	}
	if len(text) > maxShown {
		text = cut(text, maxShown) + "…"
	}
	return text
}
