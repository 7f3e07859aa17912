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
	Dial      broker.Dial  // of declared endpoints; nil: the network
	Network   sink.Network // of endpoints that were added; nil: none can be
}

var (
	_ sink.Addable = Type{}
	_ sink.Tester  = (*config)(nil)
	_ sink.Place   = (*config)(nil)
)

// Addable marks that streams may be added while the service runs; see package broker.
func (Type) Addable() {}

func (t Type) options() broker.Options {
	return broker.Options{Kind: name, List: "servers", Port: defaultPort, Secrets: t.Secrets, Dial: t.Dial, Network: t.Network}
}

// Type returns the name of the type.
func (Type) Type() string { return name }

// Read reads the fields that only streams have:
//
//	{"name": "bus", "type": "nats", "servers": ["nats-1:4222", "nats-2:4222"], "stream": "ROUNDS", "subject": "rounds.messages",
//	 "tls": true, "credentials": {"secret": "NATS"}}
func (t Type) Read(e sink.Endpoint, r *strict.Reader) sink.Config {
	c := &config{Type: t, name: e.Name, encoding: sink.Encoding{Namespace: t.Namespace, Format: e.Format}}
	c.Servers = t.options().Read(e, r)
	if c.stream = r.Text("stream"); c.stream != "" && !streamPattern.MatchString(c.stream) {
		r.Fault("stream", "must be 1 to 255 of A-Z a-z 0-9 _ -")
	}
	if c.subject = r.Text("subject"); c.subject != "" && (len(c.subject) > 255 || !subjectPattern.MatchString(c.subject)) {
		r.Fault("subject", "must be names of A-Z a-z 0-9 _ - with full stops between them, without wildcards, at most 255 in all")
	}
	r.Optional("user", "a string", &c.user)
	c.password, c.token, c.credentials = c.Secret(r, "password", true), c.Secret(r, "token", true), c.Secret(r, "credentials", false)
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
	r.Known(t.options().Names("stream", "subject", "user", "password", "token", "credentials")...)
	return c
}

type config struct {
	Type
	broker.Servers
	name        string
	encoding    sink.Encoding
	stream      string
	subject     string
	user        string
	password    secrets.Ref
	token       secrets.Ref
	credentials secrets.Ref // a file as nsc makes it: a JWT and a seed
}

// Open returns the endpoint's sink.
func (c *config) Open() (delivery.Sink, error) { return newSink(c), nil }

// Fields returns the fields of the form.
func (t Type) Fields() []strict.Field {
	return t.options().Form(
		strict.Field{
			Name: "stream", Type: strict.TextType, Required: true, Example: "ROUNDS",
			Label: strict.Words{EN: "Stream", ZH: "流"},
			Help:  strict.Words{EN: "It must exist.", ZH: "流必须已存在。"},
		},
		strict.Field{
			Name: "subject", Type: strict.TextType, Required: true, Example: "rounds.messages",
			Label: strict.Words{EN: "Subject", ZH: "主题"},
			Help:  strict.Words{EN: "One that the stream takes.", ZH: "该流接收的主题。"},
		},
		broker.UserField(false, strict.Words{EN: "Who signs in with a password.", ZH: "以密码登录的用户。"}),
		broker.PasswordField("NATS"),
		broker.SecretField("token", "NATS_TOKEN", strict.Words{EN: "Token", ZH: "令牌"}, strict.Words{EN: "In place of a user.", ZH: "代替用户。"}),
		broker.SecretField("credentials", "NATS_CREDS", strict.Words{EN: "Credentials", ZH: "凭证"}, strict.Words{EN: "In place of a user: a JWT and a seed, as a file that nsc makes.", ZH: "代替用户：JWT 和种子，与 nsc 生成的文件相同。"}),
	)
}
