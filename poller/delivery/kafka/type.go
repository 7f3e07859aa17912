package kafka

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
	name        = "kafka"
	defaultPort = "9092"

	// defaultMaxBytes is the default of max.message.bytes of a topic, as franz-go has it.
	defaultMaxBytes = 1000012
	minMaxBytes     = 16 << 10
	maxMaxBytes     = 64 << 20
)

// The mechanisms of SASL (https://www.iana.org/assignments/sasl-mechanisms).
const (
	mechanismPlain    = "PLAIN"
	mechanismScram256 = "SCRAM-SHA-256"
	mechanismScram512 = "SCRAM-SHA-512"
)

// topicPattern is what Kafka allows for the name of a topic.
var topicPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// Type is the type kafka of endpoints.
type Type struct {
	Namespace string         // the ring's
	Secrets   secrets.Source // has the passwords and certificates
	Log       *slog.Logger
	Dial      broker.Dial  // of declared endpoints; nil: the network
	Network   sink.Network // of endpoints that were added; nil: none can be
}

var (
	_ sink.Addable = Type{}
	_ sink.Tester  = (*config)(nil)
	_ sink.Place   = (*config)(nil)
)

// Addable marks that topics may be added while the service runs; see package broker.
func (Type) Addable() {}

func (t Type) options() broker.Options {
	return broker.Options{Kind: name, List: "brokers", Port: defaultPort, Secrets: t.Secrets, Dial: t.Dial, Network: t.Network}
}

// Type returns the name of the type.
func (Type) Type() string { return name }

// Read reads the fields that only topics have:
//
//	{"name": "bus", "type": "kafka", "brokers": ["kafka-1:9092", "kafka-2:9092"], "topic": "rounds-messages", "tls": true,
//	 "sasl": "SCRAM-SHA-512", "user": "rounds", "password": {"secret": "KAFKA"}}
func (t Type) Read(e sink.Endpoint, r *strict.Reader) sink.Config {
	c := &config{Type: t, name: e.Name, encoding: sink.Encoding{Namespace: t.Namespace, Format: e.Format}, maxBytes: defaultMaxBytes}
	c.Servers = t.options().Read(e, r)
	if c.topic = r.Text("topic"); c.topic != "" && (!topicPattern.MatchString(c.topic) || c.topic == "." || c.topic == "..") {
		r.Fault("topic", "must be 1 to 249 of A-Z a-z 0-9 . _ -")
	}
	if r.Optional("positions", "a string", &c.positions); c.positions != "" && (!topicPattern.MatchString(c.positions) || c.positions == c.topic) {
		r.Fault("positions", "must be another topic, of A-Z a-z 0-9 . _ -")
	}
	r.Optional("max_bytes", "a whole number of bytes", &c.maxBytes)
	if c.maxBytes < minMaxBytes || c.maxBytes > maxMaxBytes {
		r.Fault("max_bytes", "must be 16384 (16 KiB) to 67108864 (64 MiB), and at most max.message.bytes of the topic")
	}
	r.Optional("sasl", "a string", &c.mechanism)
	r.Optional("user", "a string", &c.user)
	c.password = c.Secret(r, "password", c.mechanism == mechanismPlain) // SCRAM proves it
	switch c.mechanism {
	case "":
		if c.user != "" || !c.password.IsZero() {
			r.Fault("sasl", "missing: name the mechanism by which the user signs in")
		}
	case mechanismPlain, mechanismScram256, mechanismScram512:
		if c.user == "" {
			r.Fault("user", "missing: sasl needs it")
		}
		if c.password.IsZero() {
			r.Fault("password", "missing: sasl needs it")
		}
	default:
		r.Fault("sasl", "must be "+mechanismPlain+", "+mechanismScram256+" or "+mechanismScram512)
	}
	r.Known(t.options().Names("topic", "positions", "max_bytes", "sasl", "user", "password")...)
	return c
}

type config struct {
	Type
	broker.Servers
	name      string
	encoding  sink.Encoding
	topic     string
	positions string // a topic; empty: no transactions
	maxBytes  int32
	mechanism string // of SASL; empty: nobody signs in
	user      string
	password  secrets.Ref
}

// Open returns the endpoint's sink.
func (c *config) Open() (delivery.Sink, error) { return newSink(c), nil }

// Fields returns the fields of the form.
func (t Type) Fields() []strict.Field {
	return t.options().Form(
		strict.Field{
			Name: "topic", Type: strict.TextType, Required: true, Example: "rounds-messages",
			Label: strict.Words{EN: "Topic", ZH: "主题"},
			Help:  strict.Words{EN: "It must exist, or the brokers must create it.", ZH: "主题必须已存在，或由 broker 自动创建。"},
		},
		strict.Field{
			Name: "positions", Type: strict.TextType, Example: "rounds-positions",
			Label: strict.Words{EN: "Topic of positions", ZH: "位置主题"},
			Help:  strict.Words{EN: "Another topic, which makes records exactly once; left out: no transactions.", ZH: "另一个主题，使记录恰好写入一次；留空则不使用事务。"},
		},
		strict.Field{
			Name: "max_bytes", Type: strict.Number, Default: defaultMaxBytes, Example: defaultMaxBytes,
			Label: strict.Words{EN: "Largest message, in bytes", ZH: "消息的最大字节数"},
			Help:  strict.Words{EN: "At most max.message.bytes of the topic.", ZH: "不超过主题的 max.message.bytes。"},
		},
		strict.Field{
			Name: "sasl", Type: strict.Choice, Default: "", Example: mechanismScram512,
			Label: strict.Words{EN: "SASL", ZH: "SASL"},
			Help:  strict.Words{EN: "How the user signs in.", ZH: "用户的登录方式。"},
			Choices: []strict.Option{
				{Value: "", Label: strict.Words{EN: "nobody signs in", ZH: "不登录"}},
				{Value: mechanismScram512, Label: strict.Words{EN: mechanismScram512, ZH: mechanismScram512}},
				{Value: mechanismScram256, Label: strict.Words{EN: mechanismScram256, ZH: mechanismScram256}},
				{Value: mechanismPlain, Label: strict.Words{EN: mechanismPlain, ZH: mechanismPlain}},
			},
		},
		broker.UserField(false, strict.Words{EN: "Who signs in.", ZH: "登录的用户。"}),
		broker.PasswordField("KAFKA"),
	)
}
