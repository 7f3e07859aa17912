package feed

import (
	"net/url"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const maxShown = 120 // bytes of an address in a warning

// moves adds a warning about a feed that has moved permanently, once its new address has
// answered with a feed. The config's login and headers are for the old address alone. If
// there are any, a person has to decide that the new address may get them.
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

// shown returns an address without the parts that may be secret.
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
