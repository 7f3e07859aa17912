package weixin

import (
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	// DefaultBaseURL is where signing in begins, and where most accounts are.
	DefaultBaseURL = "https://ilinkai.weixin.qq.com"

	defaultAgent = "rounds/1"
	maxAgent     = 256 // bytes
)

// config is a record's parsed config.
type config struct {
	token secrets.Ref
	base  string // without a slash at its end
	host  string // of base, with its port
	agent string
}

// agentPattern allows what the official client sends: tokens Name/Version, each with a comment
// in brackets.
var agentPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}/[A-Za-z0-9_.+-]{1,32}( \([\x20-\x27\x2a-\x7e]{1,64}\))?( [A-Za-z0-9_.-]{1,32}/[A-Za-z0-9_.+-]{1,32}( \([\x20-\x27\x2a-\x7e]{1,64}\))?)*$`)

func (c *Checker) parse(raw json.RawMessage) (config, error) {
	r := strict.ReadConfig(raw)
	read := config{base: DefaultBaseURL, agent: defaultAgent}
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
	if raw := r.Take("bot_agent"); raw != nil {
		if json.Unmarshal(raw, &read.agent) != nil || len(read.agent) > maxAgent || !agentPattern.MatchString(read.agent) {
			r.Fault("bot_agent", "must be Name/Version tokens with single spaces between them, ASCII, at most 256 bytes")
		}
	}
	return read, r.Err()
}

// cursorPrefix begins a cursor, before the server's own.
const cursorPrefix = "1:"

// maxBuf is how many bytes the server's cursor may have. The pool keeps 64 KiB.
const maxBuf = 60 << 10

// decodeCursor returns the server's cursor; empty at first.
func decodeCursor(raw []byte) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	buf, ok := strings.CutPrefix(string(raw), cursorPrefix)
	if !ok || buf == "" {
		return "", errors.New("not a cursor of this version")
	}
	return buf, nil
}

func encodeCursor(buf string) []byte { return []byte(cursorPrefix + buf) }
