package connector

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// config is a record's parsed config.
type config struct {
	url     string
	signing secrets.Ref
	headers fetch.Headers
	hold    time.Duration // how long the connector holds a call; 0: it does not
}

// maxHold is the longest that a connector may hold a call.
const maxHold = 2 * time.Minute

func (c *Checker) parse(raw json.RawMessage) (config, error) {
	r := strict.ReadConfig(raw)
	var read config
	read.url = r.Text("url")
	if read.url != "" {
		if err := c.client.Validate(read.url); err != nil {
			r.Refuse("url", err)
		}
	}
	ref, err := secrets.ParseRef(r.Take("signing_secret"))
	if err != nil {
		r.Fault("signing_secret", err.Error())
	}
	read.signing = ref
	read.headers = fetch.ParseHeaders(r)
	if raw := r.Take("hold"); raw != nil {
		var seconds int
		if json.Unmarshal(raw, &seconds) != nil || seconds < 1 || seconds > int(maxHold.Seconds()) {
			r.Fault("hold", fmt.Sprintf("must be a whole number of seconds from 1 to %.0f", maxHold.Seconds()))
		}
		read.hold = time.Duration(seconds) * time.Second
	}
	if settings := r.Take("settings"); settings != nil && settings[0] != '{' {
		r.Fault("settings", "must be an object")
	}
	r.Elsewhere("what the connector itself needs goes into settings, such as settings.project, and what is secret into headers")
	return read, r.Err()
}
