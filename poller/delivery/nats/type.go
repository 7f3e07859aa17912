package nats

import (
	"log/slog"
	"regexp"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/internal/broker"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	name        = "nats"
	defaultPort = "4222"
)

var (
	streamPattern  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`)
	subjectPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
)

// Type is the type nats of endpoints.
type Type struct {
	Namespace string         // the ring's
	Secrets   secrets.Source // has passwords, tokens, credentials and certificates
	Log       *slog.Logger
	Dial      broker.Dial // nil: the network
}

var (
	_ sink.Type   = Type{}
	_ sink.Tester = config{}
)

// Type returns the name of the type.
func (Type) Type() string { return name }

// Read reads the fields that only streams have:
//
//	{"name": "bus", "type": "nats", "servers": ["nats-1:4222", "nats-2:4222"], "stream": "ROUNDS", "subject": "rounds.messages",
//	 "tls": true, "credentials": {"secret": "NATS"}}
func (t Type) Read(e sink.Endpoint, r *strict.Reader) sink.Config {
	c := config{Type: t, name: e.Name, encoding: sink.Encoding{Namespace: t.Namespace, Format: e.Format}}
	c.servers = broker.Read(r, "servers", defaultPort)
	if c.stream = r.Text("stream"); c.stream != "" && !streamPattern.MatchString(c.stream) {
		r.Fault("stream", "must be 1 to 255 of A-Z a-z 0-9 _ -")
	}
	if c.subject = r.Text("subject"); c.subject != "" && (len(c.subject) > 255 || !subjectPattern.MatchString(c.subject)) {
		r.Fault("subject", "must be names of A-Z a-z 0-9 _ - with full stops between them, without wildcards, at most 255 in all")
	}
	r.Optional("user", "a string", &c.user)
	c.password, c.token, c.credentials = broker.Secret(r, "password"), broker.Secret(r, "token"), broker.Secret(r, "credentials")
	ways := 0
	for _, given := range []bool{c.user != "" || !c.password.IsZero(), !c.token.IsZero(), !c.credentials.IsZero()} {
		if given {
			ways++
		}
	}
	switch {
	case ways > 1:
		r.Fault("credentials", "must be the only way to sign in: name a user with a password, a token, or credentials")
	case c.user != "" && c.password.IsZero():
		r.Fault("password", "missing: the user needs it")
	case c.user == "" && !c.password.IsZero():
		r.Fault("user", "missing: the password needs it")
	}
	r.Known(sink.Names(append([]string{"servers", "stream", "subject", "user", "password", "token", "credentials"}, broker.Fields()...)...)...)
	return c
}

type config struct {
	Type
	name        string
	encoding    sink.Encoding
	servers     broker.Servers
	stream      string
	subject     string
	user        string
	password    secrets.Ref
	token       secrets.Ref
	credentials secrets.Ref // a file as nsc makes it: a JWT and a seed
}

// Open returns the endpoint's sink.
func (c config) Open() (delivery.Sink, error) { return newSink(c), nil }
