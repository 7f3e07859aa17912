package webhook_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

func parse(t testing.TB, text string) ([]webhook.Endpoint, error) {
	client := fetch.New(fetch.Options{})
	t.Cleanup(client.Close)
	return webhook.Read(strings.NewReader(text), client)
}

func TestRead(t *testing.T) {
	got, err := parse(t, `{"endpoints": [
		{"name": "crm", "url": "https://crm.example.com/hook", "secrets": [{"secret": "NEW"}, {"secret": "OLD"}], "kinds": ["feed"],
		 "events": true, "ordered": true, "timeout": "20s", "concurrency": 2, "headers": {"X-B": "b", "Authorization": {"secret": "AUTH"}}},
		{"name": "log", "url": "http://log.example.com", "secrets": [{"secret": "NEW"}], "kinds": null}
	]}`)
	want := []webhook.Endpoint{
		{Name: "crm", URL: "https://crm.example.com/hook", Secrets: []secrets.Ref{{Name: "NEW"}, {Name: "OLD"}}, Kinds: []string{"feed"},
			Events: true, Ordered: true, Timeout: 20 * time.Second, Concurrency: 2,
			Headers: []webhook.Header{{Name: "Authorization", Secret: secrets.Ref{Name: "AUTH"}}, {Name: "X-B", Value: "b"}}},
		{Name: "log", URL: "http://log.example.com", Secrets: []secrets.Ref{{Name: "NEW"}}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	longest := webhook.Endpoint{Name: strings.Repeat("n", 56)}.Group()
	if err := circulate.ValidateGroup(longest); got[0].Group() != "webhook.crm" || err != nil {
		t.Errorf("group %q, longest: %v", got[0].Group(), err)
	}
	if none, err := parse(t, `{"endpoints": []}`); err != nil || len(none) != 0 {
		t.Errorf("none: %v, %v", none, err)
	}
}

func TestReadTellsAllFaults(t *testing.T) {
	const good = `"name": "crm", "url": "https://crm.example.com", "secrets": [{"secret": "NEW"}]`
	for text, want := range map[string][]string{
		``:                   {"webhooks: must be one JSON object"},
		`null`:               {"webhooks: must be one JSON object"},
		`{"endpoints":[]}{}`: {"webhooks: must be one JSON object"},
		`{"extra": 1}`:       {"endpoints: missing", "extra: unknown field; the only field is endpoints"},
		`{"endpoints": {}}`:  {"endpoints: must be a list"},
		`{"endpoints": ["s3cret", null, {}]}`: {
			"endpoints[0]: must be an object", "endpoints[1]: must be an object", "endpoints[2].name: missing",
			"endpoints[2].url: missing", "endpoints[2].secrets: missing: every delivery is signed",
		},
		`{"endpoints": [{` + good + `}, {` + good + `}]}`: {"endpoints[1].name: is also the name of another endpoint"},
		`{"endpoints": [{"name": "crm", "url": "http://10.0.0.1/?s3cret", "secrets": ["s3cret", {"secret": "s3cret!"}, null],
			"kinds": "s3cret", "events": "s3cret", "ordered": 1, "timeout": "s3cret", "concurrency": 1.5, "headers": [], "retries": 3}]}`: {
			"endpoints[0].url: must not be a private address", `endpoints[0].secrets[0]: must be {"secret": "NAME"}: an endpoint holds no secrets, store it as service.NAME or put it into the file service.NAME of ROUNDS_SECRETS_DIR or into ROUNDS_SERVICE_SECRET_NAME`, "endpoints[0].secrets[1]: is not a name",
			"endpoints[0].secrets[2]: missing", "endpoints[0].kinds: must be a list of strings", "endpoints[0].events: must be true or false", "endpoints[0].ordered: must be true or false",
			`endpoints[0].timeout: must be a duration, as "15s"`, "endpoints[0].concurrency: must be a whole number",
			"endpoints[0].headers: must be an object", "endpoints[0].retries: unknown field; the fields are name, type, url, secrets, ordered, timeout, concurrency, headers, kinds, types, labels, when, events and format",
		},
		`{"endpoints": [{` + good + `, "timeout": "31s", "concurrency": 0, "kinds": [""], "headers": {"Webhook-Id": "s3cret",
			"Authorization": "s3cret", "a b": "s3cret", "X-A": "s3cret\n", "x-a": "", "X-B": null, "X-C": 7}}]}`: {
			"endpoints[0].timeout: must be 1s to 30s", "endpoints[0].concurrency: must be 1 to 256", "endpoints[0].kinds: must not have an empty one",
			"endpoints[0].headers.Webhook-Id: is set by", "endpoints[0].headers.Authorization: must be {", "endpoints[0].headers.a b: is not",
			"endpoints[0].headers.X-A: must be one line", "endpoints[0].headers.x-a: comes twice", "endpoints[0].headers.X-B: missing",
			"endpoints[0].headers.X-C: must be {",
		},
		strings.Repeat(" ", 1<<20) + `{"endpoints": []}`: {"webhooks: must be at most 1 MiB"},
	} {
		_, err := parse(t, text)
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		for _, part := range want {
			if !strings.Contains("\n"+err.Error(), "\n"+part) {
				t.Errorf("%.200s: got %v\nwithout %s", text, err, part)
			}
		}
		if lines := strings.Count(err.Error(), "\n") + 1; lines != len(want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.200s: got %d faults, want %d, or a value is quoted: %v", text, lines, len(want), err)
		}
	}
	if _, err := webhook.Read(iotest.ErrReader(errors.New("broken disk")), nil); err == nil || err.Error() != "broken disk" {
		t.Errorf("got %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"endpoints":[{"name":"a","url":"https://a.example","secrets":[{"secret":"A"}],"timeout":"2s","headers":{"a":"b"}}]}`)
	f.Add(`{"endpoints":[{},null,7]}`)
	f.Add(`[`)
	client := fetch.New(fetch.Options{})
	f.Fuzz(func(t *testing.T, text string) {
		endpoints, err := webhook.Read(strings.NewReader(text), client)
		if err != nil {
			return
		}
		// What is read can be used.
		for _, e := range endpoints {
			if _, err := webhook.New(e, webhook.Options{Client: client, Namespace: "rounds"}); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
