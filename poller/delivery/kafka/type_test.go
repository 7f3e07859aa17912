package kafka

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const good = `"brokers":["k"],"topic":"t"`

func read(fields string, source secrets.Source) ([]sink.Endpoint, error) {
	return sink.Types{Type{Namespace: "rounds", Secrets: source}}.Read(strings.NewReader(`{"endpoints":[{"name":"bus","type":"kafka",` + fields + `}]}`))
}

func TestRead(t *testing.T) {
	const password = "hunter2"
	for fields, want := range map[string]string{
		`"topic":"t"`:               `brokers: must be 1 to 32 addresses, as "HOST:9092"`,
		`"brokers":["k"]`:           "topic: missing",
		`"brokers":"k","topic":"t"`: "brokers: must be a list",
		`"brokers":["kafka://u:hunter2@k"],"topic":"t"`: "brokers[0]: must be HOST or HOST:PORT", `"brokers":["k:0"],"topic":"t"`: "brokers[0]", `"brokers":["k:9092:1"],"topic":"t"`: "brokers[0]",
		`"brokers":["k"],"topic":"a b"`: "topic: must be 1 to 249", `"brokers":["k"],"topic":".."`: "topic: must be",
		good + `,"positions":"t"`: "positions: must be another topic",
		good + `,"max_bytes":1`:   "max_bytes: must be 16384", good + `,"max_bytes":"1"`: "max_bytes: must be a whole",
		good + `,"sasl":"GSSAPI"`: "sasl: must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", good + `,"user":"u"`: "sasl: missing", good + `,"password":{"secret":"K"}`: "sasl: missing",
		good + `,"sasl":"PLAIN","password":{"secret":"K"}`: "user: missing", good + `,"sasl":"PLAIN","user":"u"`: "password: missing",
		good + `,"sasl":"PLAIN","user":"u","password":"hunter2"`: `password: must be {"secret": "NAME"}: put the value into ROUNDS_SERVICE_SECRET_NAME`,
		good + `,"ca_file":"ca.pem","tls":true`:                  "ca_file: must be an absolute path", good + `,"ca_file":"/ca.pem"`: "tls: must be true", good + `,"client_certificate":{"secret":"K"}`: "tls: must be true",
		good + `,"url":"x"`: "url: unknown field; the fields are name, type, brokers, topic",
	} {
		_, err := read(fields, secrets.Source{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: got %v, want %s", fields, err, want)
		}
	}
	all, err := read(`"brokers":["k","10.0.0.1:19092","::1"],"topic":"t","max_bytes":65536,"tls":true,"sasl":"PLAIN","user":"u","password":{"secret":"K"}`, secrets.Source{})
	if err != nil {
		t.Fatal(err)
	}
	if c := all[0].Config.(*config); strings.Join(c.Addresses, " ") != "k:9092 10.0.0.1:19092 [::1]:9092" || c.maxBytes != 65536 {
		t.Errorf("got %+v", c)
	}
}

// A password that may not go to the brokers goes nowhere, and messages wait.
func TestSecretsGoWhereTheyMay(t *testing.T) {
	const login = `,"user":"u","password":{"secret":"K"},"sasl":`
	for fields, want := range map[string]string{
		good + login + `"PLAIN"`:                                   "secret K: refused: it goes over TLS only",
		good + login + `"PLAIN","tls":true`:                        "secret K: refused: its binding names other hosts than",
		good + login + `"SCRAM-SHA-256","tls":true`:                "secret K: refused: its binding names other hosts than",
		good + `,"tls":true,"ca_file":"/nowhere.pem"`:              "ca_file: cannot be read",
		good + `,"tls":true,"client_certificate":{"secret":"OWN"}`: "secret OWN: must have a certificate and its key",
	} {
		all, err := read(fields, secrets.Source{Lookup: func(name string) (string, bool) {
			value, ok := map[string]string{"ROUNDS_SERVICE_SECRET_K": "hunter2", "ROUNDS_SERVICE_SECRET_OWN": "hunter2"}[name]
			if name == "ROUNDS_SERVICE_BINDING_K" && strings.Contains(fields, "tls") {
				return "hosts=other:9092", true
			}
			return value, ok
		}})
		if err != nil {
			t.Fatal(err)
		}
		to, err := all[0].Config.Open()
		if err != nil {
			t.Fatal(err)
		}
		var later *delivery.Later
		for _, err := range to.Handle(t.Context(), sinktest.Messages(1, "a", "b")) {
			if !errors.As(err, &later) || later.Target != "bus" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: got %v, want %s", fields, err, want)
			}
		}
		if err := to.Close(); err != nil {
			t.Error(err)
		}
		if err := to.Prepare(t.Context()); !errors.As(err, &later) {
			t.Errorf("a closed sink: %v", err)
		}
	}
}

// A record tells the trace of a message that is traced.
func TestARecordTellsItsTrace(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s := &Sink{config: &config{topic: "t", maxBytes: 1 << 20}}
	for in, want := range map[string]string{trace: trace, "": "", "nonsense": ""} {
		d := delivery.Delivery{}
		d.Account, d.Trace = "a", in
		r, err := s.record(d)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, h := range r.Headers {
			if h.Key == "traceparent" {
				got = string(h.Value)
			}
		}
		if got != want {
			t.Errorf("%q: told %q", in, got)
		}
	}
}
