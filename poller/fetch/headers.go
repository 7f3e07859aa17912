package fetch

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// This file reads the login or headers that a config adds to requests, and resolves
// the secrets that they refer to. Records hold no secrets themselves: a value that looks
// like a credential must be a reference.

const (
	authorization = "Authorization"
	maxUser       = 1 << 10 // bytes
)

// Headers are the parsed fields headers and login of a config. The zero Headers add
// nothing.
type Headers struct {
	all   []entry // by name
	login login
}

// entry is a header with either a value or a reference to a secret.
type entry struct {
	name  string
	value string
	ref   secrets.Ref
}

// login is a user and a password for HTTP's basic authentication.
type login struct {
	user     string
	password secrets.Ref
}

// ParseHeaders reads the field headers of a config: name → text, or {"secret": "NAME"}. It
// returns the headers and adds faults to r. Headers that rounds sets itself are faults,
// and so are those in own.
func ParseHeaders(r *strict.Reader, own ...string) Headers {
	raw := r.Take("headers")
	if raw == nil {
		return Headers{}
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		r.Fault("headers", "must be an object")
		return Headers{}
	}
	if len(values) > MaxHeaders {
		r.Fault("headers", "must be at most "+strconv.Itoa(MaxHeaders))
		return Headers{}
	}
	var h Headers
	for name, raw := range values {
		e, fault := parseEntry(name, raw)
		if slices.ContainsFunc(own, func(set string) bool { return strings.EqualFold(set, name) }) {
			fault = "is set by rounds itself"
		}
		if fault != "" {
			r.Fault("headers."+strict.Printable(name), fault)
			continue
		}
		h.all = append(h.all, e)
	}
	slices.SortFunc(h.all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return h
}

// ParseLogin reads also the field login: {"user": "…", "password": {"secret": "NAME"}}. It
// adds faults to r.
func (h *Headers) ParseLogin(r *strict.Reader) {
	raw := r.Take("login")
	if raw == nil {
		return
	}
	fields, ok := strict.Members(raw)
	if !ok {
		r.Fault("login", `must be {"user": "…", "password": {"secret": "NAME"}}`)
		return
	}
	in := r.In("login", fields)
	h.login.user = in.Text("user")
	if strings.ContainsFunc(h.login.user, unicode.IsControl) || strings.Contains(h.login.user, ":") || len(h.login.user) > maxUser {
		in.Fault("user", "must be one line of at most "+strconv.Itoa(maxUser)+" bytes without a colon")
	}
	ref, err := secrets.ParseRef(in.Take("password"))
	switch {
	case err != nil:
		in.Fault("password", err.Error())
	case ref.IsZero():
		in.Fault("password", "missing")
	}
	h.login.password = ref
	in.Unknown()
	if slices.ContainsFunc(h.all, func(e entry) bool { return strings.EqualFold(e.name, authorization) }) {
		r.Fault("login", "comes together with headers.Authorization: only one of them can be sent")
	}
}

// parseEntry reads one header, or returns its fault.
func parseEntry(name string, raw json.RawMessage) (entry, string) {
	if fault := HeaderNameFault(name); fault != "" {
		return entry{}, fault
	}
	e := entry{name: name}
	if json.Unmarshal(raw, &e.value) == nil && string(raw) != "null" {
		switch {
		case CredentialHeader(name):
			return entry{}, secrets.ErrNotReference.Error()
		case !ValidHeaderValue(e.value):
			return entry{}, "must be one line of at most " + strconv.Itoa(MaxHeaderValue) + " bytes"
		}
		return e, ""
	}
	ref, err := secrets.ParseRef(raw)
	if err != nil {
		return entry{}, err.Error()
	}
	if ref.IsZero() {
		return entry{}, "missing"
	}
	e.ref = ref
	return e, ""
}

// Any reports whether the config adds anything. All that it adds, secret or not, is only
// for the host that the config names.
func (h Headers) Any() bool { return len(h.all) > 0 || h.login.user != "" }

// Resolve resolves the secrets for a use as a header. It returns the header and the
// secrets' values, which must not appear in any text that is shown. If there are any and
// the use is Open, the call must be Confined. An error names a secret, never its value.
func (h Headers) Resolve(ctx context.Context, source secrets.Source, use secrets.Use) (http.Header, []string, error) {
	header, values := http.Header{}, []string(nil)
	for _, e := range h.all {
		value := e.value
		if !e.ref.IsZero() {
			var err error
			if value, err = source.Get(ctx, e.ref.Name, use); err != nil {
				return nil, nil, err
			}
			if !ValidHeaderValue(value) {
				return nil, nil, fmt.Errorf("secret %s: must be one line of at most %d bytes to be a header", e.ref.Name, MaxHeaderValue)
			}
			values = append(values, value)
		}
		header.Set(e.name, value)
	}
	if h.login.user != "" {
		password, err := source.Get(ctx, h.login.password.Name, use)
		if err != nil {
			return nil, nil, err
		}
		value := "Basic " + base64.StdEncoding.EncodeToString([]byte(h.login.user+":"+password))
		if len(value) > MaxHeaderValue {
			return nil, nil, fmt.Errorf("secret %s: is too long to be a password", h.login.password.Name)
		}
		header.Set(authorization, value)
		values = append(values, password, value)
	}
	return header, values, nil
}
