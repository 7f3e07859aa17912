package telegram

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// DefaultBaseURL is where Telegram's Bot API is.
const DefaultBaseURL = "https://api.telegram.org"

// config is a record's parsed config.
type config struct {
	token   secrets.Ref
	base    string   // without a slash at its end
	host    string   // of base, with its port
	allowed []string // nil: as Telegram remembers it
}

// maxAllowed is how many kinds of updates may be named; there are about two dozen.
const maxAllowed = 64

var updatePattern = regexp.MustCompile(`^[a-z_]{1,64}$`)

func (c *Checker) parse(raw json.RawMessage) (config, error) {
	r := strict.ReadConfig(raw)
	read := config{base: DefaultBaseURL}
	ref, err := secrets.ParseRequired(r.Take("token"))
	if err != nil {
		r.Fault("token", err.Error())
	}
	read.token = ref
	if raw := r.Take("base_url"); raw != nil {
		if read.base, err = c.client.BaseURL(raw); err != nil {
			r.Refuse("base_url", err)
		}
	}
	if u, err := url.Parse(read.base); err == nil {
		read.host = u.Host
	}
	if raw := r.Take("allowed_updates"); raw != nil {
		read.allowed = readAllowed(r, raw)
	}
	return read, r.Err()
}

func readAllowed(r *strict.Reader, raw json.RawMessage) []string {
	names := []string{}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		for name := range strings.SplitSeq(text, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	} else if json.Unmarshal(raw, &names) != nil {
		r.Fault("allowed_updates", "must be an array of names, or a text with commas between them")
		return nil
	}
	for _, name := range names {
		if len(names) > maxAllowed || !updatePattern.MatchString(name) {
			r.Fault("allowed_updates", "must name at most 64 kinds of updates, such as message or callback_query")
			return nil
		}
	}
	return names
}
