package callback

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// Config is one address that WeCom calls, /v1/callbacks/wecom/NAME, as
// its configuration has it.
type Config struct {
	Name   string // 1 to 56 of a-z, 0-9, - and _
	CorpID string // whom callbacks are meant for

	// Token and AESKey are the names of secrets: the Token and the EncodingAESKey
	// that WeCom shows beside the address.
	Token, AESKey string

	// Account is the id of the account that an event is about, in which {corp_id}
	// and {open_kfid} stand for the corporation and the account of customer
	// service. DefaultAccount unless the configuration says otherwise.
	Account string
}

// DefaultAccount has accounts registered under their open_kfid, which no
// two corporations share.
const DefaultAccount = "{open_kfid}"

const (
	maxFile      = 1 << 20 // bytes
	maxAddresses = 1000
	maxCorpID    = 64
)

// account is the id of the account that an event is about.
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
// All but account are required. What is not known is a fault. It returns every
// fault at once, as Faults, each with its field, as in callbacks[0].corp_id, and
// none with a value.
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
	raw := r.Take("callbacks")
	r.Unknown()
	var list []json.RawMessage
	switch {
	case raw == nil:
		r.Fault("callbacks", "missing")
	case json.Unmarshal(raw, &list) != nil:
		r.Fault("callbacks", "must be a list")
	case len(list) > maxAddresses:
		r.Fault("callbacks", fmt.Sprintf("must be at most %d", maxAddresses))
	}
	all := make([]Config, len(list))
	names := make(map[string]bool)
	for i, raw := range list {
		at := fmt.Sprintf("callbacks[%d]", i)
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil || fields == nil {
			r.Fault(at, "must be an object")
			continue
		}
		in := r.In(at, fields)
		all[i] = readConfig(in)
		if all[i].Name != "" && names[all[i].Name] {
			in.Fault("name", "is another callback's too")
		}
		names[all[i].Name] = true
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
		c.Account = readString(r, "account", isAccountTemplate, "must be an id with {open_kfid} in it, and {corp_id} or nothing else in braces")
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

// readSecretName reads a reference to a secret. What stands in its place may be
// the secret itself, and is not told.
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
