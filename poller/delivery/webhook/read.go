package webhook

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	maxFile      = 1 << 20 // bytes
	maxEndpoints = 1000
)

// Read reads a configuration:
//
//	{"endpoints": [{
//	  "name": "crm", "url": "https://crm.example.com/hook", "secrets": [{"secret": "CRM_2026"}, {"secret": "CRM_2025"}],
//	  "kinds": ["feed"], "events": true, "ordered": true, "timeout": "15s", "concurrency": 8,
//	  "headers": {"X-Source": "rounds", "Authorization": {"secret": "CRM_TOKEN"}}
//	}]}
//
// name, url and secrets are required; see Endpoint for the other fields. An unknown field is a
// fault. The error has all faults, each with its field, such as endpoints[0].url, and never with
// a value. The client judges which URLs are allowed.
func Read(from io.Reader, client Client) ([]Endpoint, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, errors.New("webhooks: must be at most 1 MiB")
	}
	var file map[string]json.RawMessage
	if json.Unmarshal(text, &file) != nil || file == nil {
		return nil, errors.New("webhooks: must be one JSON object")
	}
	r := strict.NewReader(file)
	r.Known("endpoints")
	var endpoints []Endpoint
	names := make(map[string]bool)
	for _, in := range r.List("endpoints", maxEndpoints) {
		e := readEndpoint(in)
		e.check(in, client)
		if e.Name != "" && names[e.Name] {
			in.Fault("name", "is also the name of another endpoint")
		}
		names[e.Name] = true
		endpoints = append(endpoints, e)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return endpoints, nil
}

func readEndpoint(r *strict.Reader) Endpoint {
	var e Endpoint
	r.Optional("name", "a string", &e.Name)
	r.Optional("url", "a string", &e.URL)
	r.Optional("kinds", "a list of strings", &e.Kinds)
	r.Optional("events", "true or false", &e.Events)
	r.Optional("ordered", "true or false", &e.Ordered)
	var timeout string
	if r.Optional("timeout", `a duration, as "15s"`, &timeout); timeout != "" {
		var err error
		if e.Timeout, err = time.ParseDuration(timeout); err != nil || e.Timeout == 0 {
			r.Fault("timeout", `must be a duration, as "15s"`)
		}
	}
	var concurrency *int
	if r.Optional("concurrency", "a whole number", &concurrency); concurrency != nil {
		if e.Concurrency = *concurrency; e.Concurrency == 0 {
			e.Concurrency = -1 // it is given, and must break the limits
		}
	}
	var refs []json.RawMessage
	r.Optional("secrets", "a list", &refs)
	for i, raw := range refs {
		ref, err := secrets.ParseRef(raw)
		if err != nil {
			r.Fault("secrets["+strconv.Itoa(i)+"]", refFault(err))
		}
		e.Secrets = append(e.Secrets, ref)
	}
	e.Headers = readHeaders(r)
	r.Known("name", "url", "secrets", "kinds", "events", "ordered", "timeout", "concurrency", "headers")
	r.Unknown()
	return e
}

func readHeaders(r *strict.Reader) []Header {
	var raw map[string]json.RawMessage
	r.Optional("headers", "an object", &raw)
	var headers []Header
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		h := Header{Name: name}
		if string(raw[name]) == "null" {
			r.Fault("headers."+strict.Printable(name), "missing")
		} else if json.Unmarshal(raw[name], &h.Value) != nil {
			var err error
			if h.Secret, err = secrets.ParseRef(raw[name]); err != nil {
				r.Fault("headers."+strict.Printable(name), refFault(err))
			}
		}
		headers = append(headers, h)
	}
	return headers
}

// refFault says what is wrong with a value that should refer to a secret. The secrets of webhooks are
// the service's own, and in other places than those of records.
func refFault(err error) string {
	if !errors.Is(err, secrets.ErrNotReference) {
		return err.Error()
	}
	return `must be {"secret": "NAME"}: this file holds no secrets, put it into the file service.NAME of ROUNDS_SECRETS_DIR or into ` +
		secrets.ServiceEnvPrefix + "NAME"
}
