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

	"golang.org/x/net/http/httpguts"

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

// Headers are what the fields headers and login of a config add to requests. The zero Headers
// add nothing.
type Headers struct {
	all   []entry // by name
	login *login
}

// entry is a header with a value or with a reference to a secret.
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

// HeadersEntry is the field headers of a form: name → text, or {"secret": "NAME"}. It is read into
// the Headers that at returns. Headers that rounds sets itself are faults, and so are the headers
// in own.
func HeadersEntry[C any](at func(*C) *Headers, own ...string) strict.Entry[C] {
	return strict.Entry[C]{
		Field: strict.Field{
			Name: "headers", Type: strict.Headers, Secret: true, Example: map[string]any{"X-Api-Key": strict.Ref("API_KEY")},
			Label: strict.Words{EN: "Headers", ZH: "请求头"},
			Help: strict.Words{
				EN: "Headers that each request gets. A credential must be a secret's name. They are sent only to the address above.",
				ZH: "每个请求附加的请求头。凭据只能填密钥的名称。只发往上面的地址。",
			},
		},
		Read: func(v strict.Value, to *C) { at(to).read(v, own) },
	}
}

// LoginEntry is the field login of a form: {"user": "…", "password": {"secret": "NAME"}}. It is
// read into the Headers that at returns, and must come before HeadersEntry.
func LoginEntry[C any](at func(*C) *Headers) strict.Entry[C] {
	return strict.Entry[C]{
		Field: strict.Field{
			Name: "login", Type: strict.Login, Secret: true, Example: map[string]any{"user": "me", "password": strict.Ref("PASSWORD")},
			Label: strict.Words{EN: "Login", ZH: "登录"},
			Help: strict.Words{
				EN: "User and the name of the secret with the password, for basic authentication.",
				ZH: "用户名，以及存放密码的密钥名称，用于 Basic 认证。",
			},
		},
		Read: func(v strict.Value, to *C) { at(to).login = readLogin(v) },
	}
}

// read reads the field headers, after the field login.
func (h *Headers) read(v strict.Value, own []string) {
	raw := v.Raw()
	if raw == nil {
		return
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		v.Fault("must be an object")
		return
	}
	if len(values) > MaxHeaders {
		v.Fault("must be at most " + strconv.Itoa(MaxHeaders))
		return
	}
	for name, raw := range values {
		e, fault := parseEntry(name, raw)
		if slices.ContainsFunc(own, func(set string) bool { return strings.EqualFold(set, name) }) {
			fault = "is set by rounds itself"
		}
		if fault != "" {
			v.Reader().Fault("headers."+strict.Printable(name), fault)
			continue
		}
		if h.login != nil && strings.EqualFold(name, authorization) {
			v.Reader().Fault("login", "comes together with headers.Authorization: only one of them can be sent")
		}
		h.all = append(h.all, e)
	}
	slices.SortFunc(h.all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
}

func readLogin(v strict.Value) *login {
	raw := v.Raw()
	if raw == nil {
		return nil
	}
	fields, ok := strict.Members(raw)
	if !ok {
		v.Fault(`must be {"user": "…", "password": {"secret": "NAME"}}`)
		return nil
	}
	in := v.Reader().In("login", fields)
	l := &login{user: in.Text("user")}
	if strings.ContainsFunc(l.user, unicode.IsControl) || strings.Contains(l.user, ":") || len(l.user) > maxUser {
		in.Fault("user", "must be one line of at most "+strconv.Itoa(maxUser)+" bytes without a colon")
	}
	ref, err := secrets.ParseRef(in.Take("password"))
	switch {
	case err != nil:
		in.Fault("password", err.Error())
	case ref.IsZero():
		in.Fault("password", "missing")
	}
	l.password = ref
	in.Unknown()
	return l
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
			fault := secrets.ErrNotReference.Error()
			if strings.EqualFold(name, authorization) || strings.Contains(e.value, "{") {
				fault += "; the secret is the whole value, including what comes before the token: printf 'Bearer %s' TOKEN | rounds secret set NAME"
			}
			return entry{}, fault
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

// Any reports whether the config adds anything. Everything that it adds, secret or not, is only for
// the host that the config names.
func (h Headers) Any() bool { return len(h.all) > 0 || h.login != nil }

// Resolve resolves the secrets for a use as a header. It returns the header and the secrets'
// values, which must not appear in any text that is shown. If there are secrets and the use is
// Open, the call must be Confined. An error names a secret, never its value.
func (h Headers) Resolve(ctx context.Context, source secrets.Source, use secrets.Use) (http.Header, []string, error) {
	header := http.Header{}
	var values []string
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
	if h.login != nil {
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

// The limits of headers that a config may add to a request.
const (
	MaxHeaders     = 32
	MaxHeaderValue = 4 << 10 // bytes
)

// HeaderNameFault returns why a config must not add a header of this name, or an empty
// text if it may.
func HeaderNameFault(name string) string {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return "is not a header's name"
	case reserved(strings.ToLower(name)):
		return "is set by rounds itself"
	}
	return ""
}

// reserved reports whether a header would break the call or forge a signature.
func reserved(name string) bool {
	switch name {
	case "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect",
		"host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent":
		return true
	}
	return strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "proxy-")
}

// CredentialHeader reports whether the value of a header with this name looks like a
// secret.
func CredentialHeader(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"authorization", "cookie", "token", "secret", "password", "api-key", "apikey"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// ValidHeaderValue reports whether a value is one line of at most MaxHeaderValue bytes.
func ValidHeaderValue(value string) bool {
	return len(value) <= MaxHeaderValue && httpguts.ValidHeaderFieldValue(value)
}
