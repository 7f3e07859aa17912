package connector

import (
	"encoding/json"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/header"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// config is a record's parsed config.
type config struct {
	url     string
	signing secrets.Ref
	headers header.Headers
}

func (c *Checker) parse(raw json.RawMessage) (config, error) {
	r := strict.ReadConfig(raw)
	var read config
	read.url = r.Text("url")
	if read.url != "" {
		if err := c.client.Validate(read.url); err != nil {
			r.Fault("url", err.Error())
		}
	}
	ref, err := secrets.ParseRef(r.Take("signing_secret"))
	if err != nil {
		r.Fault("signing_secret", err.Error())
	}
	read.signing = ref
	read.headers = header.Parse(r)
	if settings := r.Take("settings"); settings != nil && settings[0] != '{' {
		r.Fault("settings", "must be an object")
	}
	return read, r.Err()
}
