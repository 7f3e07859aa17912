package sink

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery"
)

const (
	maxFile      = 1 << 20 // bytes
	maxEndpoints = 1000

	// DefaultType is the type of an endpoint that names none.
	DefaultType = "webhook"
)

// Endpoint is where messages are delivered to: what all endpoints have, whatever their type.
type Endpoint struct {
	Name   string // 1 to 56 of a-z 0-9 _ -; it names the consumer group, so another name starts anew
	Type   string
	Filter Filter
	Events bool // it also gets events: what becomes of the sends of the accounts
	Format Format
	Config Config // has its type's own fields

	// Revision is that of an endpoint that was added while the service runs; 0: it is declared in the file.
	Revision int64

	// Text is the endpoint as it was declared, in JSON with sorted fields: endpoints of the same
	// text are the same.
	Text string
}

// Added reports whether the endpoint was added while the service runs.
func (e Endpoint) Added() bool { return e.Revision != 0 }

// Group returns the name of the endpoint's consumer group. It has at most 64 bytes, and
// circulate.ValidateGroup allows it. It is the same for all types, so that what people do with a
// webhook they can do with any endpoint.
func (e Endpoint) Group() string { return "webhook." + e.Name }

// Config is an endpoint's own settings, which were read without a fault.
type Config interface {
	// Open returns the endpoint's sink. It does not connect: that is for Prepare or Handle.
	Open() (delivery.Sink, error)
}

// Place is a Config that says where its messages go and which secrets it uses, so that a secret goes to
// no host to which it is not bound.
type Place interface {
	Config
	// Hosts returns the hosts that get messages and secrets, each as HOST:PORT.
	Hosts() []string
	// Uses returns the secrets to which the endpoint refers.
	Uses() []Use
}

// Use is a secret to which an endpoint refers.
type Use struct {
	Field string // such as secrets[0]
	Name  string // of the secret
	Sent  bool   // it is sent to the endpoint; otherwise it only signs, proves or verifies
}

// Network connects to addresses that people may type. *fetch.Client is one: it refuses private
// addresses unless a setting allows them, also those to which a name resolves.
type Network interface {
	// Dial connects to HOST:PORT over TCP.
	Dial(ctx context.Context, address string) (net.Conn, error)
	// ValidateHostPort returns an error for an address that is certainly refused.
	ValidateHostPort(host string, port uint16) error
}

// Tester is a Config whose place can be tried without changing anything there.
type Tester interface {
	// Try connects and signs in, and looks for what must be there. Its error names no secret.
	Try(ctx context.Context) error
}

// Type is a kind of destination.
type Type interface {
	// Type is the name that the field type of an endpoint has, in small letters.
	Type() string
	// Read takes the fields of an endpoint that are the type's own, adds a fault to r for each wrong
	// one, and sets its names with r.Known. The endpoint's other fields are already taken.
	Read(e Endpoint, r *strict.Reader) Config
}

// Addable is a Type whose endpoints may also be added while the service runs, by people who cannot
// change the file. They must reach nothing that only the file's author may reach, such as the
// files of a process or addresses of its network. So their secrets are bound to hosts
// (secrets.Source.Bound), and their connections are those of a Network. The Config of such an endpoint
// should be a Place. A type that has the method Fields (strict.Described) has a form on the dashboard.
type Addable interface {
	Type
	// Addable marks the type.
	Addable()
}

// Keyed is an Addable whose endpoints sign what they send. Their field secrets is a list of references to
// the signing keys, as {"secret": "NAME"}. For an endpoint that is added without it, the service makes a key
// of 32 bytes, in base64 behind whsec_, which is bound to the endpoint's hosts and to its type: the Config
// must be a Place that has hosts.
type Keyed interface {
	Addable
	// Keyed marks the type.
	Keyed()
}

// common are the fields that endpoints of all types have.
func common() []string {
	return []string{"name", "type", "kinds", "types", "labels", "when", "events", "format"}
}

// Names returns the names of fields that an endpoint of a type may have, for Reader.Known.
func Names(own ...string) []string { return append(common()[:2:2], append(own, common()[2:]...)...) }

// Types are the types that a process knows.
type Types []Type

// NewTypes returns the types, or an error if two have one name.
func NewTypes(all ...Type) (Types, error) {
	names := make(map[string]bool)
	for _, t := range all {
		name := t.Type()
		if !typePattern.MatchString(name) {
			return nil, errors.New("sink: the name of a type must be 1 to 32 of a-z 0-9 -")
		}
		if names[name] {
			return nil, errors.New("sink: two types have the name " + name)
		}
		names[name] = true
	}
	return all, nil
}

var (
	namePattern = regexp.MustCompile(`^[a-z0-9_-]{1,56}$`)
	typePattern = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
)

// Names returns the names of the types, sorted.
func (t Types) Names() []string {
	names := make([]string, len(t))
	for i := range t {
		names[i] = t[i].Type()
	}
	slices.Sort(names)
	return names
}

func (t Types) of(name string) (Type, bool) {
	i := slices.IndexFunc(t, func(one Type) bool { return one.Type() == name })
	if i < 0 {
		return nil, false
	}
	return t[i], true
}

// Addable returns the types whose endpoints may be added while the service runs.
func (t Types) Addable() (addable Types) {
	for _, one := range t {
		if _, ok := one.(Addable); ok {
			addable = append(addable, one)
		}
	}
	return addable
}

// ReadAdded reads the fields of an endpoint that was added while the service runs: an object as in
// the list of Read. Its revision is at least 1. The error has all faults, each with its field, and never with a value.
func (t Types) ReadAdded(fields []byte, revision int64) (Endpoint, error) {
	object, err := strict.Object(fields)
	if err != nil {
		return Endpoint{}, err
	}
	var value any
	if err := json.Unmarshal(fields, &value); err != nil {
		return Endpoint{}, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return Endpoint{}, err
	}
	r := strict.NewReader(object)
	e := Endpoint{Type: DefaultType, Text: string(text), Revision: revision}
	t.read(r, &e)
	return e, r.Err()
}

// Read reads a configuration:
//
//	{"endpoints": [
//	  {"name": "crm", "url": "https://crm.example.com/hook", "secrets": [{"secret": "CRM_2026"}], "kinds": ["feed"]},
//	  {"name": "archive", "type": "file", "directory": "/var/lib/rounds/archive", "types": ["text", "image"], "events": true}
//	]}
//
// An unknown field is a fault. The error has all faults, each with its field, such as
// endpoints[0].url, and never with a value.
func (t Types) Read(from io.Reader) ([]Endpoint, error) {
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
	var texts struct{ Endpoints []any }
	_ = json.Unmarshal(text, &texts) // if it is no list, the reader below says so
	r := strict.NewReader(file)
	r.Known("endpoints")
	var endpoints []Endpoint
	names := make(map[string]bool)
	for i, in := range r.List("endpoints", maxEndpoints) {
		e := Endpoint{Type: DefaultType}
		t.read(in, &e)
		if canonical, err := json.Marshal(texts.Endpoints[i]); err == nil {
			e.Text = string(canonical)
		}
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

// read reads an endpoint. No fault quotes a value: a value in the wrong place may be a secret.
func (t Types) read(r *strict.Reader, e *Endpoint) {
	r.Optional("name", "a string", &e.Name)
	r.Optional("type", "a string", &e.Type)
	e.Filter.read(r)
	r.Optional("events", "true or false", &e.Events)
	r.Optional("format", "a string", &e.Format)
	switch {
	case e.Name == "":
		r.Fault("name", "missing")
	case !namePattern.MatchString(e.Name):
		r.Fault("name", "must be 1 to 56 of a-z 0-9 _ -")
	}
	switch {
	case e.Format == CloudEventsBinary && e.Type != DefaultType:
		r.Fault("format", "must be "+string(CloudEvents)+", or left out: only webhooks have headers")
	case e.Format != Plain && e.Format != CloudEvents && e.Format != CloudEventsBinary:
		r.Fault("format", "must be "+string(CloudEvents)+" or "+string(CloudEventsBinary)+", or left out")
	}
	of, ok := t.of(e.Type)
	if !ok {
		r.Fault("type", "must be one of "+strings.Join(t.Names(), ", "))
		return
	}
	e.Config = of.Read(*e, r)
	r.Unknown()
}
