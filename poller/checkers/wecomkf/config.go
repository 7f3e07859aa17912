package wecomkf

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// DefaultBaseURL is where WeCom's API is.
const DefaultBaseURL = "https://qyapi.weixin.qq.com"

// config is a record's parsed config.
type config struct {
	corp        string
	openKfID    string
	secret      secrets.Ref
	baseURL     string // without a slash at its end
	voiceFormat int
}

// idPattern allows what WeCom's ids consist of, and some more.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

func (c *Checker) parse(raw json.RawMessage) (config, error) {
	r := strict.ReadConfig(raw)
	read := config{corp: readID(r, "corp_id"), openKfID: readID(r, "open_kfid"), baseURL: DefaultBaseURL}
	ref, err := secrets.ParseRef(r.Take("secret"))
	switch {
	case err != nil:
		r.Fault("secret", err.Error())
	case ref.IsZero():
		r.Fault("secret", "missing")
	}
	read.secret = ref
	if raw := r.Take("base_url"); raw != nil {
		read.baseURL = c.readBaseURL(r, raw)
	}
	if raw := r.Take("voice_format"); raw != nil {
		if json.Unmarshal(raw, &read.voiceFormat) != nil || read.voiceFormat != 0 && read.voiceFormat != 1 {
			r.Fault("voice_format", "must be 0 (AMR) or 1 (Silk)")
		}
	}
	return read, r.Err()
}

func readID(r *strict.Reader, name string) string {
	id := r.Text(name)
	if id != "" && !idPattern.MatchString(id) {
		r.Fault(name, "must be 1 to 128 letters, digits, dashes or underscores")
	}
	return id
}

func (c *Checker) readBaseURL(r *strict.Reader, raw json.RawMessage) string {
	var base string
	if json.Unmarshal(raw, &base) != nil {
		r.Fault("base_url", "must be a string")
		return ""
	}
	if err := c.client.Validate(base); err != nil {
		r.Fault("base_url", err.Error())
		return ""
	}
	if u, err := url.Parse(base); err != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		r.Fault("base_url", "must not have a query or a fragment")
	}
	return strings.TrimRight(base, "/")
}
