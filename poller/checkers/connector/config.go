package connector

import (
	"encoding/json"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/rounds-dev/rounds/poller/checkers/fields"
	"github.com/rounds-dev/rounds/poller/checkers/secrets"
)

const (
	maxHeaders     = 32
	maxHeaderValue = 4 << 10 // bytes
)

// config is a record's config, read.
type config struct {
	url     string
	signing secrets.Ref
	headers []header // by name
}

// header has either a value or a reference to it.
type header struct {
	name  string
	value string
	ref   secrets.Ref
}

func (c *Checker) parse(raw json.RawMessage) (config, error) {
	r := fields.New(raw)
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
	read.headers = parseHeaders(r)
	if settings := r.Take("settings"); settings != nil && settings[0] != '{' {
		r.Fault("settings", "must be an object")
	}
	return read, r.Err()
}

func parseHeaders(r *fields.Reader) []header {
	raw := r.Take("headers")
	if raw == nil {
		return nil
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		r.Fault("headers", "must be an object")
		return nil
	}
	if len(values) > maxHeaders {
		r.Fault("headers", "must be at most 32")
		return nil
	}
	var headers []header
	for name, raw := range values {
		h, fault := parseHeader(name, raw)
		if fault != "" {
			r.Fault("headers."+fields.Printable(name), fault)
			continue
		}
		headers = append(headers, h)
	}
	slices.SortFunc(headers, func(a, b header) int { return strings.Compare(a.name, b.name) })
	return headers
}

// parseHeader reads one header, or says what is wrong with it.
func parseHeader(name string, raw json.RawMessage) (header, string) {
	lower := strings.ToLower(name)
	if !httpguts.ValidHeaderFieldName(name) {
		return header{}, "is not a header's name"
	}
	if reserved(lower) {
		return header{}, "is set by rounds itself"
	}
	h := header{name: name}
	if json.Unmarshal(raw, &h.value) == nil && string(raw) != "null" {
		switch {
		case credential(lower):
			return header{}, secrets.ErrNotReference.Error()
		case !validValue(h.value):
			return header{}, "must be one line of at most 4096 bytes"
		}
		return h, ""
	}
	ref, err := secrets.ParseRef(raw)
	if err != nil {
		return header{}, err.Error()
	}
	if ref.IsZero() {
		return header{}, "missing"
	}
	h.ref = ref
	return h, ""
}

func validValue(value string) bool {
	return len(value) <= maxHeaderValue && httpguts.ValidHeaderFieldValue(value)
}

// reserved reports headers that would break the call or forge a signature.
func reserved(name string) bool {
	switch name {
	case "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect",
		"host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent":
		return true
	}
	return strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "proxy-")
}

// credential reports headers whose values are secrets by all appearance.
func credential(name string) bool {
	for _, part := range []string{"authorization", "cookie", "token", "secret", "password", "api-key", "apikey"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
