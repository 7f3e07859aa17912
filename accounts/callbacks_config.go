package accounts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// CallbackConfig is one address that WeCom calls, /v1/callbacks/wecom/NAME, as
// its configuration has it.
type CallbackConfig struct {
	Name   string // 1 to 56 of a-z, 0-9, - and _
	CorpID string // whom callbacks are meant for

	// Token and AESKey are the names of secrets: the Token and the EncodingAESKey
	// that WeCom shows beside the address.
	Token, AESKey string

	// Account is the id of the account that an event is about, in which {corp_id}
	// and {open_kfid} stand for the corporation and the account of customer
	// service. DefaultCallbackAccount unless the configuration says otherwise.
	Account string
}

// DefaultCallbackAccount has accounts registered under their open_kfid, which no
// two corporations share.
const DefaultCallbackAccount = "{open_kfid}"

const (
	maxCallbackFile = 1 << 20 // bytes
	maxCallbacks    = 1000
	maxCorpID       = 64
)

// account is the id of the account that an event is about.
func (c *CallbackConfig) account(openKfID string) string {
	return strings.NewReplacer("{corp_id}", c.CorpID, "{open_kfid}", openKfID).Replace(c.Account)
}

// ReadCallbacks reads a configuration:
//
//	{"callbacks": [{
//	  "name": "acme", "corp_id": "ww1234567890abcdef",
//	  "token": {"secret": "ACME_TOKEN"}, "aes_key": {"secret": "ACME_AES_KEY"},
//	  "account": "wecom:{corp_id}:{open_kfid}"
//	}]}
//
// All but account are required. What is not known is a fault. It gives every
// fault at once, as Faults, each with its field, as in callbacks[0].corp_id, and
// none with a value.
func ReadCallbacks(from io.Reader) ([]CallbackConfig, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxCallbackFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxCallbackFile {
		return nil, Faults{{"callbacks", "the file must be at most 1 MiB"}}
	}
	var file map[string]json.RawMessage
	if json.Unmarshal(text, &file) != nil || file == nil {
		return nil, Faults{{"callbacks", "the file must be one JSON object"}}
	}
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(file)) {
		if name != "callbacks" {
			faults = append(faults, Fault{name, "unknown field"})
		}
	}
	var list []json.RawMessage
	switch {
	case file["callbacks"] == nil || isNull(file["callbacks"]):
		faults = append(faults, Fault{"callbacks", "missing"})
	case json.Unmarshal(file["callbacks"], &list) != nil:
		faults = append(faults, Fault{"callbacks", "must be a list"})
	case len(list) > maxCallbacks:
		faults = append(faults, Fault{"callbacks", fmt.Sprintf("must be at most %d", maxCallbacks)})
	}
	all := make([]CallbackConfig, len(list))
	names := make(map[string]bool)
	for i, raw := range list {
		var its Faults
		all[i], its = readCallback(raw)
		if all[i].Name != "" && names[all[i].Name] {
			its = append(its, Fault{"name", "is another callback's too"})
		}
		names[all[i].Name] = true
		for _, f := range its {
			faults = append(faults, Fault{strings.TrimSuffix(fmt.Sprintf("callbacks[%d].%s", i, f.Field), "."), f.Reason})
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return all, nil
}

func readCallback(raw json.RawMessage) (CallbackConfig, Faults) {
	c := CallbackConfig{Account: DefaultCallbackAccount}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return c, Faults{{"", "must be an object"}}
	}
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		var err error
		switch name {
		case "name":
			c.Name, err = readString(value, callbackName.MatchString, "must be 1 to 56 of a-z, 0-9, - and _")
		case "corp_id":
			c.CorpID, err = readString(value, corpID.MatchString, fmt.Sprintf("must be 1 to %d letters, digits, - and _", maxCorpID))
		case "token":
			c.Token, err = readSecretName(value)
		case "aes_key":
			c.AESKey, err = readSecretName(value)
		case "account":
			c.Account, err = readString(value, isAccountTemplate, "must be an id with {open_kfid} in it, and {corp_id} or nothing else in braces")
		default:
			err = errors.New("unknown field")
		}
		if err != nil {
			faults = append(faults, Fault{name, err.Error()})
		}
	}
	for _, name := range []string{"name", "corp_id", "token", "aes_key"} {
		if _, ok := fields[name]; !ok {
			faults = append(faults, Fault{name, "missing"})
		}
	}
	return c, faults
}

var (
	callbackName = regexp.MustCompile(`^[a-z0-9_-]{1,56}$`)
	corpID       = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9_-]{1,%d}$`, maxCorpID))
)

func isAccountTemplate(text string) bool {
	if !strings.Contains(text, "{open_kfid}") || len(text) > 128 {
		return false
	}
	return !strings.ContainsAny(strings.NewReplacer("{corp_id}", "", "{open_kfid}", "").Replace(text), "{}")
}

func readString(value json.RawMessage, good func(string) bool, fault string) (string, error) {
	var text *string
	if json.Unmarshal(value, &text) != nil || text == nil || !good(*text) {
		return "", errors.New(fault)
	}
	return *text, nil
}

// readSecretName reads a reference to a secret. What stands in its place may be
// the secret itself, and is not told.
func readSecretName(value json.RawMessage) (string, error) {
	var ref map[string]string
	if json.Unmarshal(value, &ref) != nil || len(ref) != 1 || ref["secret"] == "" {
		return "", errors.New(`must be {"secret": "NAME"}: configurations hold no secrets`)
	}
	return ref["secret"], nil
}
