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
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// Type is the type webhook of endpoints. It opens sinks with its options. The client judges which
// URLs are allowed.
type Type struct{ Options }

var _ sink.Keyed = Type{}

// Type returns the name of the type, which is that of endpoints that name none.
func (Type) Type() string { return sink.DefaultType }

// Addable marks that webhooks may be added while the service runs: the client refuses the addresses
// that accounts may not reach either, and an added endpoint uses only secrets that are bound to hosts.
func (Type) Addable() {}

// Keyed marks that every delivery is signed.
func (Type) Keyed() {}

// Read reads the fields that only webhooks have:
//
//	{"name": "crm", "url": "https://crm.example.com/hook", "secrets": [{"secret": "CRM_2026"}, {"secret": "CRM_2025"}],
//	 "ordered": true, "timeout": "15s", "concurrency": 8,
//	 "headers": {"X-Source": "rounds", "Authorization": {"secret": "CRM_TOKEN"}}}
//
// url and secrets are required; see Endpoint for the other fields.
func (t Type) Read(e sink.Endpoint, r *strict.Reader) sink.Config {
	own := readEndpoint(r)
	own.Name, own.Kinds, own.Events, own.Format = e.Name, e.Filter.Kinds, e.Events, e.Format
	own.Revision = e.Revision
	own.check(r, t.Client)
	if e.Added() {
		t.Secrets = t.Secrets.Bound()
	}
	return Config{own, t.Options}
}

// Config is the settings of a webhook endpoint.
type Config struct {
	Endpoint Endpoint
	options  Options
}

var _ sink.Place = Config{}

// Hosts returns the host of the endpoint's URL.
func (c Config) Hosts() []string {
	return []string{secrets.ForURL(secrets.KindWebhook, c.Endpoint.URL).Host}
}

// Uses returns the secrets to which the endpoint refers.
func (c Config) Uses() []sink.Use { return c.Endpoint.Uses() }

// Open returns the endpoint's sink.
func (c Config) Open() (delivery.Sink, error) {
	opened, err := New(c.Endpoint, c.options)
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// Read reads a configuration that has only webhook endpoints; see sink.Types.
func Read(from io.Reader, client Client) ([]Endpoint, error) {
	all, err := sink.Types{Type{Options{Client: client}}}.Read(from)
	if err != nil {
		return nil, err
	}
	return Of(all), nil
}

// Of returns those of the endpoints that are webhooks.
func Of(all []sink.Endpoint) (webhooks []Endpoint) {
	for _, e := range all {
		if c, ok := e.Config.(Config); ok {
			webhooks = append(webhooks, c.Endpoint)
		}
	}
	return webhooks
}

func readEndpoint(r *strict.Reader) Endpoint {
	var e Endpoint
	r.Optional("url", "a string", &e.URL)
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
	r.Known(sink.Names("url", "secrets", "ordered", "timeout", "concurrency", "headers")...)
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
	return `must be {"secret": "NAME"}: an endpoint holds no secrets, store it as service.NAME or put it into the file service.NAME of ROUNDS_SECRETS_DIR or into ` +
		secrets.ServiceEnvPrefix + "NAME"
}

// Fields returns the fields of the form. Signing keys are not among them: one is made.
func (Type) Fields() []strict.Field {
	return []strict.Field{
		{
			Name: "url", Type: strict.URL, Required: true, Example: "https://crm.example.com/hook",
			Label: strict.Words{EN: "URL", ZH: "网址"},
			Help:  strict.Words{EN: "Where each message is posted. Addresses that accounts may not reach are refused.", ZH: "每条消息的 POST 地址。账号不可访问的地址会被拒绝。"},
		},
		{
			Name: "ordered", Type: strict.Choice, Default: false, Example: true,
			Label: strict.Words{EN: "Order", ZH: "顺序"},
			Help:  strict.Words{EN: "Whether messages of an account wait behind one that fails.", ZH: "账号的消息是否排在失败的消息之后等待。"},
			Choices: []strict.Option{
				{Value: false, Label: strict.Words{EN: "messages go side by side", ZH: "消息同时投递"}},
				{Value: true, Label: strict.Words{EN: "an account's messages one at a time", ZH: "同一账号的消息依次投递"}},
			},
		},
		{
			Name: "timeout", Type: strict.TextType, Default: defaultTimeout.String(), Example: "20s",
			Label: strict.Words{EN: "Timeout", ZH: "超时"},
			Help:  strict.Words{EN: "For one attempt, 1s to 30s.", ZH: "每次尝试的时限，1s 至 30s。"},
		},
		{
			Name: "concurrency", Type: strict.Number, Default: defaultConcurrency, Example: 16,
			Label: strict.Words{EN: "Attempts at once", ZH: "同时尝试数"},
			Help:  strict.Words{EN: "In a process, 1 to 256.", ZH: "每个进程内，1 至 256。"},
		},
		{
			Name: "headers", Type: strict.Headers, Secret: true, Example: map[string]any{"X-Source": "rounds", "Authorization": strict.Ref("CRM_TOKEN")},
			Label: strict.Words{EN: "Headers", ZH: "请求头"},
			Help:  strict.Words{EN: "Sent with each message. Secrets are the service's own, bound to the URL's host.", ZH: "随每条消息发送。密钥为服务自身的密钥，须绑定到网址的主机。"},
		},
	}
}
