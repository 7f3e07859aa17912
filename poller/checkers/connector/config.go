package connector

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
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
	read.headers = parseHeaders(r)
	if settings := r.Take("settings"); settings != nil && settings[0] != '{' {
		r.Fault("settings", "must be an object")
	}
	return read, r.Err()
}

func parseHeaders(r *strict.Reader) []header {
	raw := r.Take("headers")
	if raw == nil {
		return nil
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		r.Fault("headers", "must be an object")
		return nil
	}
	if len(values) > fetch.MaxHeaders {
		r.Fault("headers", "must be at most "+strconv.Itoa(fetch.MaxHeaders))
		return nil
	}
	var headers []header
	for name, raw := range values {
		h, fault := parseHeader(name, raw)
		if fault != "" {
			r.Fault("headers."+strict.Printable(name), fault)
			continue
		}
		headers = append(headers, h)
	}
	slices.SortFunc(headers, func(a, b header) int { return strings.Compare(a.name, b.name) })
	return headers
}

// parseHeader reads one header, or says what is wrong with it.
func parseHeader(name string, raw json.RawMessage) (header, string) {
	if fault := fetch.HeaderNameFault(name); fault != "" {
		return header{}, fault
	}
	h := header{name: name}
	if json.Unmarshal(raw, &h.value) == nil && string(raw) != "null" {
		switch {
		case fetch.CredentialHeader(name):
			return header{}, secrets.ErrNotReference.Error()
		case !fetch.ValidHeaderValue(h.value):
			return header{}, "must be one line of at most " + strconv.Itoa(fetch.MaxHeaderValue) + " bytes"
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
