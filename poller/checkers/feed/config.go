package feed

import (
	"encoding/json"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// config is a record's parsed config.
type config struct {
	url     string
	headers fetch.Headers
}

func (c *Checker) parse(raw json.RawMessage) (config, error) {
	r := strict.ReadConfig(raw)
	read := config{url: r.Text("url")}
	if read.url != "" {
		if err := c.client.Validate(read.url); err != nil {
			r.Refuse("url", err)
		}
	}
	read.headers = fetch.ParseHeaders(r, "If-None-Match", "If-Modified-Since")
	read.headers.ParseLogin(r)
	return read, r.Err()
}
