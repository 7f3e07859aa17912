package webhook

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

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
//	  "kinds": ["feed"], "ordered": true, "timeout": "15s", "concurrency": 8,
//	  "headers": {"X-Source": "rounds", "Authorization": {"secret": "CRM_TOKEN"}}
//	}]}
//
// name, url and secrets are required; see Endpoint for the others. Anything that
// is not known is a fault. The error has all faults, each with its field, as in
// endpoints[0].url, and quotes no value. The client says which URLs are allowed.
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
	f := newFaults()
	raw := take(file, "endpoints")
	unknown(f, file)
	var list []json.RawMessage
	switch {
	case raw == nil:
		f.add("endpoints", "missing")
	case json.Unmarshal(raw, &list) != nil:
		f.add("endpoints", "must be a list")
	case len(list) > maxEndpoints:
		f.add("endpoints", "must be at most "+strconv.Itoa(maxEndpoints))
	}
	endpoints := make([]Endpoint, 0, len(list))
	names := make(map[string]bool)
	for i, raw := range list {
		at := "endpoints[" + strconv.Itoa(i) + "]"
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil || object == nil {
			f.add(at, "must be an object")
			continue
		}
		in := f.in(at)
		e := readEndpoint(in, object)
		e.check(in, client)
		if e.Name != "" && names[e.Name] {
			in.add("name", "is another endpoint's too")
		}
		names[e.Name] = true
		endpoints = append(endpoints, e)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return endpoints, nil
}

func readEndpoint(f *faults, object map[string]json.RawMessage) Endpoint {
	var e Endpoint
	value(f, object, "name", "a string", &e.Name)
	value(f, object, "url", "a string", &e.URL)
	value(f, object, "kinds", "a list of strings", &e.Kinds)
	value(f, object, "ordered", "true or false", &e.Ordered)
	var timeout string
	if value(f, object, "timeout", `a duration, as "15s"`, &timeout); timeout != "" {
		var err error
		if e.Timeout, err = time.ParseDuration(timeout); err != nil || e.Timeout == 0 {
			f.add("timeout", `must be a duration, as "15s"`)
		}
	}
	var concurrency *int
	if value(f, object, "concurrency", "a whole number", &concurrency); concurrency != nil {
		if e.Concurrency = *concurrency; e.Concurrency == 0 {
			e.Concurrency = -1 // given, and not within the limits
		}
	}
	var refs []json.RawMessage
	value(f, object, "secrets", "a list", &refs)
	for i, raw := range refs {
		ref, err := secrets.ParseRef(raw)
		if err != nil {
			f.add("secrets["+strconv.Itoa(i)+"]", err.Error())
		}
		e.Secrets = append(e.Secrets, ref)
	}
	e.Headers = readHeaders(f, object)
	unknown(f, object)
	return e
}

func readHeaders(f *faults, object map[string]json.RawMessage) []Header {
	var raw map[string]json.RawMessage
	value(f, object, "headers", "an object", &raw)
	var headers []Header
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		h := Header{Name: name}
		if string(raw[name]) == "null" {
			f.add("headers."+printable(name), "missing")
		} else if json.Unmarshal(raw[name], &h.Value) != nil {
			var err error
			if h.Secret, err = secrets.ParseRef(raw[name]); err != nil {
				f.add("headers."+printable(name), err.Error())
			}
		}
		headers = append(headers, h)
	}
	return headers
}

// value takes a field if it is there and not null.
func value(f *faults, object map[string]json.RawMessage, name, what string, to any) {
	if raw := take(object, name); raw != nil && json.Unmarshal(raw, to) != nil {
		f.add(name, "must be "+what)
	}
}

func take(object map[string]json.RawMessage, name string) json.RawMessage {
	raw := object[name]
	delete(object, name)
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// unknown adds the fields that nobody took: a misspelt name must not pass for a
// default.
func unknown(f *faults, object map[string]json.RawMessage) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		f.add(printable(name), "unknown field")
	}
}
