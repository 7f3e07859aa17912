package sink_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

func condition(t *testing.T, text string) *sink.Expression {
	t.Helper()
	e, err := sink.ParseExpression(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

// with returns a message with data.
func with(data string) delivery.Delivery {
	d := found("1", "feed", "text")
	d.Message.Data = []byte(data)
	return d
}

func TestExpressions(t *testing.T) {
	for text, want := range map[string]map[string]string{
		`data.amount > 5`:                              {`{"amount":6}`: "true", `{"amount":5}`: "false", `{}`: "cannot be applied", `[]`: "cannot be applied", `{"amount":"6"}`: "cannot be applied"},
		`(data?.amount ?? 0) > 5`:                      {`{"amount":6}`: "true", `{}`: "false"},
		`data.flag`:                                    {`{"flag":true}`: "true", `{"flag":"yes"}`: "cannot be applied"},
		`any(data.tags, # == "urgent")`:                {`{"tags":["a","urgent"]}`: "true", `{"tags":[]}`: "false"},
		`lower(data.title) matches "^re(ply)?: "`:      {`{"title":"RE: hello"}`: "true", `{"title":"hello"}`: "false"},
		`account == "a" && id == "1" && len(data) > 0`: {`{"x":1}`: "true", `{}`: "false"},
	} {
		e := condition(t, text)
		for data, want := range want {
			d := with(data)
			passes, err := sink.Filter{When: e}.Passes(&d, nil)
			got := map[bool]string{true: "true", false: "false"}[passes]
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, want) {
				t.Errorf("%s of %s: %s, want %s", text, data, got, want)
			}
		}
	}
}

// What is no condition, or could take long or much memory, is refused when it is configured.
func TestExpressionsAreBounded(t *testing.T) {
	for text, want := range map[string]string{
		`kind ==`:                             "is no condition: unexpected token EOF, at 1:",
		`knd == "feed"`:                       "is no condition: unknown name knd, at 1:1; it may use account, kind",
		`kind`:                                "expected bool, but got string",
		`kind > 5`:                            "invalid operation: > (mismatched types string and int), at 1:",
		`let x = data; x.a == x.b`:            "without variables",
		`true; false`:                         "without variables",
		`any(data, all(data, true))`:          "within another one",
		`kind matches data.pattern`:           "a pattern in quotes",
		`kind matches "("`:                    "is no condition",
		`repeat(kind, 1000) == ""`:            "unknown name repeat",
		`len(string(data)) > 1`:               "unknown name string",
		`$env["kind"] == "feed"`:              "$env",
		strings.Repeat(" ", 1001):             "at most 1000 bytes",
		strings.Repeat("not ", 240) + "event": "is no condition",
	} {
		if _, err := sink.ParseExpression(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	// What grows while it runs ends, and the message is none that passes.
	d := with(`{"n":100000000}`)
	if passes, err := (sink.Filter{When: condition(t, `any(1..int(data.n), # < 0)`)}).Passes(&d, nil); passes || err == nil || !strings.Contains(err.Error(), "memory budget") {
		t.Errorf("%t, %v", passes, err)
	}
}

// While the labels are unknown, nothing passes and nothing is done, and an account's order holds.
func TestUnknownLabels(t *testing.T) {
	batch := []delivery.Delivery{found("1", "feed", "text"), found("2", "feed", "text"), found("3", "imap", "text")}
	away := sink.Filter{Kinds: []string{"feed"}, Labels: map[string]string{"team": "press"}}.By(func(context.Context, []delivery.Delivery) (map[string]map[string]string, error) {
		return nil, errors.New("redis is away")
	})
	errs := sink.NewGuard(mute{}, away, func(sink.Outcome) {}).Handle(t.Context(), batch)
	later, ok := errors.AsType[*delivery.Later](errs[0])
	if !ok || !strings.Contains(later.Error(), "redis is away") || !errors.Is(errs[1], delivery.ErrHeld) || errs[2] != nil {
		t.Errorf("%v", errs)
	}
}

// In binary mode the attributes of an event are headers, and the body is its data: together they are the
// event of structured mode.
func TestCloudEventsInBinaryMode(t *testing.T) {
	d := with(`{"x":1}`)
	d.Account = "a \"b\"%é"
	structured, err := sink.Encoding{Namespace: "ns", Format: sink.CloudEvents}.Encode(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	var event map[string]json.RawMessage
	if err := json.Unmarshal(structured, &event); err != nil {
		t.Fatal(err)
	}
	binary := sink.Encoding{Namespace: "ns", Format: sink.CloudEventsBinary, Keyless: true}
	body, err := binary.Encode(d, nil)
	if err != nil || string(body) != string(event["data"]) {
		t.Errorf("%s, %v, want %s", body, err, event["data"])
	}
	header := binary.Header(d)
	for name, text := range event {
		if name == "data" || name == "datacontenttype" {
			continue
		}
		var want string
		_ = json.Unmarshal(text, &want)
		got, err := url.PathUnescape(header["ce-"+name])
		if err != nil || got != want || strings.ContainsFunc(header["ce-"+name], func(c rune) bool { return c <= ' ' || c > '~' || c == '"' }) {
			t.Errorf("%s: %q, want %q", name, header["ce-"+name], want)
		}
	}
	if len(header) != len(event)-2 {
		t.Errorf("%v", header)
	}
}
