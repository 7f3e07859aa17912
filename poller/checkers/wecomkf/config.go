package wecomkf

import (
	"encoding/json"
	"regexp"

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
	ref, err := secrets.ParseRequired(r.Take("secret"))
	if err != nil {
		r.Fault("secret", err.Error())
	}
	read.secret = ref
	if raw := r.Take("base_url"); raw != nil {
		if read.baseURL, err = c.client.BaseURL(raw); err != nil {
			r.Refuse("base_url", err)
		}
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
