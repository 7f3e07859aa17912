package nats

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

const good = `"servers":["n"],"stream":"S","subject":"a.b"`

func read(fields string, source secrets.Source) ([]sink.Endpoint, error) {
	return sink.Types{Type{Namespace: "rounds", Secrets: source}}.Read(strings.NewReader(`{"endpoints":[{"name":"bus","type":"nats",` + fields + `}]}`))
}

func TestRead(t *testing.T) {
	for fields, want := range map[string]string{
		`"stream":"S","subject":"a"`:   `servers: must be 1 to 32 addresses, as "HOST:4222"`,
		`"servers":["n"],"stream":"S"`: "subject: missing", `"servers":["n"],"subject":"a"`: "stream: missing",
		`"servers":["nats://u:hunter2@n"],"stream":"S","subject":"a"`: "servers[0]: must be HOST or HOST:PORT",
		`"servers":["n"],"stream":"S.T","subject":"a"`:                "stream: must be 1 to 255", `"servers":["n"],"stream":"S","subject":"a.*"`: "subject: must be names",
		good + `,"user":"u"`: "password: missing", good + `,"password":{"secret":"P"}`: "user: missing", good + `,"token":"hunter2"`: `token: must be {"secret": "NAME"}`,
		good + `,"token":{"secret":"T"},"credentials":{"secret":"C"}`: "credentials: must be the only way",
		good + `,"url":"x"`: "url: unknown field; the fields are name, type, servers, stream, subject",
	} {
		_, err := read(fields, secrets.Source{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want %s", fields, err, want)
		}
	}
	all, err := read(`"servers":["n","n2:14222"],"stream":"S","subject":"a.b","format":"cloudevents","tls":true,"user":"u","password":{"secret":"P"}`, secrets.Source{})
	if err != nil {
		t.Fatal(err)
	}
	if c := all[0].Config.(*config); strings.Join(c.Addresses, " ") != "n:4222 n2:14222" || c.encoding.Format != sink.CloudEvents {
		t.Errorf("got %+v", c)
	}
}

// What is needed to sign in goes nowhere without TLS, and messages wait.
func TestSecretsGoWhereTheyMay(t *testing.T) {
	for fields, want := range map[string]string{
		good + `,"token":{"secret":"T"}`:                                                "secret T: refused: it goes over TLS only",
		good + `,"user":"u","password":{"secret":"T"}`:                                  "secret T: refused: it goes over TLS only",
		good + `,"credentials":{"secret":"NONE"}`:                                       "secret NONE: is neither",
		good + `,"tls":true,"ca_file":"/nowhere.pem"`:                                   "ca_file: cannot be read",
		`"servers":["127.0.0.1:1"],"stream":"S","subject":"a.b","token":{"secret":"T"}`: "the servers cannot be reached",
	} {
		all, err := read(fields, secrets.Source{Lookup: func(name string) (string, bool) { return "hunter2", name == "ROUNDS_SERVICE_SECRET_T" }})
		if err != nil {
			t.Fatal(err)
		}
		to, err := all[0].Config.Open()
		if err != nil {
			t.Fatal(err)
		}
		var later *delivery.Later
		for _, err := range to.Handle(t.Context(), sinktest.Messages(1, "a", "b")) {
			if !errors.As(err, &later) || later.Target != "bus" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "127.0.0.1") {
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
