package callback

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// Config is the configuration of one address that WeCom calls, /v1/callbacks/wecom/NAME.
type Config struct {
	Name   string // 1 to 56 of a-z, 0-9, - and _
	CorpID string // the corporation that callbacks are meant for

	// Token and AESKey are the names of two secrets: the Token and the EncodingAESKey
	// that WeCom shows beside the address.
	Token, AESKey string

	// Account is the id of an event's account. In it, {corp_id} stands for the
	// corporation, and {open_kfid} for the customer-service account. It is
	// DefaultAccount unless the configuration says otherwise.
	Account string
}

// DefaultAccount is for accounts that are registered under their open_kfid, which no two
// corporations share.
const DefaultAccount = "{open_kfid}"

const (
	maxFile      = 1 << 20 // bytes
	maxAddresses = 1000
	maxCorpID    = 64
)

// account returns the id of an event's account.
func (c *Config) account(openKfID string) string {
	return strings.NewReplacer("{corp_id}", c.CorpID, "{open_kfid}", openKfID).Replace(c.Account)
}

// Read reads a configuration:
//
//	{"callbacks": [{
//	  "name": "acme", "corp_id": "ww1234567890abcdef",
//	  "token": {"secret": "ACME_TOKEN"}, "aes_key": {"secret": "ACME_AES_KEY"},
//	  "account": "wecom:{corp_id}:{open_kfid}"
//	}]}
//
// All fields but account are required. An unknown field is a fault. Read returns every fault
// at once, as Faults, each with its field, such as callbacks[0].corp_id, and never with a
// value.
func Read(from io.Reader) ([]Config, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, strict.Faults{{Field: "callbacks", Reason: "the file must be at most 1 MiB"}}
	}
	var file map[string]json.RawMessage
	if json.Unmarshal(text, &file) != nil || file == nil {
		return nil, strict.Faults{{Field: "callbacks", Reason: "the file must be one JSON object"}}
	}
	r := strict.NewReader(file)
	var all []Config
	names := make(map[string]bool)
	for _, in := range r.List("callbacks", maxAddresses) {
		c := readConfig(in)
		if c.Name != "" && names[c.Name] {
			in.Fault("name", "is also the name of another callback")
		}
		names[c.Name] = true
		all = append(all, c)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

func readConfig(r *strict.Reader) Config {
	c := Config{
		Name:   readString(r, "name", namePattern.MatchString, "must be 1 to 56 of a-z, 0-9, - and _"),
		CorpID: readString(r, "corp_id", corpPattern.MatchString, fmt.Sprintf("must be 1 to %d letters, digits, - and _", maxCorpID)),
		Token:  readSecretName(r, "token"),
		AESKey: readSecretName(r, "aes_key"),
	}
	if c.Account = DefaultAccount; r.Has("account") {
		c.Account = readString(r, "account", isAccountTemplate, "must be an id with {open_kfid} in it, and may have {corp_id}, but no other braces")
	}
	r.Unknown()
	return c
}

var (
	namePattern = regexp.MustCompile(`^[a-z0-9_-]{1,56}$`)
	corpPattern = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9_-]{1,%d}$`, maxCorpID))
)

func isAccountTemplate(text string) bool {
	if !strings.Contains(text, "{open_kfid}") || len(text) > 128 {
		return false
	}
	return !strings.ContainsAny(strings.NewReplacer("{corp_id}", "", "{open_kfid}", "").Replace(text), "{}")
}

func readString(r *strict.Reader, name string, good func(string) bool, fault string) string {
	raw, ok := r.Given(name)
	var text *string
	switch {
	case !ok:
		r.Fault(name, "missing")
	case json.Unmarshal(raw, &text) != nil || text == nil || !good(*text):
		r.Fault(name, fault)
	default:
		return *text
	}
	return ""
}

// readSecretName reads a reference to a secret. No fault quotes the value: it may be the
// secret itself.
func readSecretName(r *strict.Reader, name string) string {
	raw, ok := r.Given(name)
	var ref map[string]string
	switch {
	case !ok:
		r.Fault(name, "missing")
	case json.Unmarshal(raw, &ref) != nil || len(ref) != 1 || ref["secret"] == "":
		r.Fault(name, `must be {"secret": "NAME"}: configurations hold no secrets`)
	}
	return ref["secret"]
}
