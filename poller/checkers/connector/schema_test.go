package connector

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const guide = "../../../deployments/guide"

// schema reads the part of the published schema that has a name.
func schema(t *testing.T, part string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	compiled, err := compiler.Compile(filepath.Join(guide, "connector.schema.json") + "#/$defs/" + part)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func fits(t *testing.T, s *jsonschema.Schema, text string) bool {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s.Validate(value) == nil
}

func TestSchemaAgreesWithTheDecoder(t *testing.T) {
	page, failure := schema(t, "page"), schema(t, "failure")
	for _, answer := range []string{
		`{"messages":[]}`,
		`{"messages":null,"next_cursor":null,"has_more":null}`,
		`{"messages":[{"id":"1","data":{}}],"next_cursor":{"a":[1]},"has_more":true,"next_poll_after":60,"cursor_reset":false}`,
		`{"messages":[{"id":"1","type":"t","time":"2026-11-21T12:00:00Z","data":null}],"more":1}`,
		`{"messages":[{"id":"1","type":null,"time":null,"data":"x"}],"error":null}`,
		`{"error":{"kind":"auth","code":"401","message":"no"},"retry_after":30}`,
		`{"error":{"kind":"transient"},"messages":[]}`,
		`{}`, `[]`, `null`, `{"messages":{}}`, `{"messages":[1]}`, `{"messages":[{"data":{}}]}`, `{"messages":[{"id":"1"}]}`,
		`{"messages":[{"id":1,"data":{}}]}`, `{"messages":[{"id":"","data":{}}]}`, `{"messages":[{"id":"1","type":2,"data":{}}]}`,
		`{"messages":[{"id":"1","time":"yesterday","data":{}}]}`, `{"messages":[],"has_more":1}`, `{"messages":[],"has_more":"true"}`,
		`{"messages":[],"next_poll_after":-1}`, `{"messages":[],"next_poll_after":"60"}`, `{"messages":[],"next_poll_after":31622401}`,
		`{"messages":[],"cursor_reset":0}`, `{"error":{"kind":"broken"}}`, `{"error":{}}`, `{"error":"auth"}`,
		`{"error":{"kind":"auth","code":401}}`, `{"error":{"kind":"auth"},"retry_after":-1}`, `{"error":{"kind":"rate_limited"},"retry_after":31622401}`,
	} {
		_, err := decode([]byte(answer), 200)
		var reported *reportedError
		taken := err == nil || errors.As(err, &reported)
		if got := fits(t, page, answer) || fits(t, failure, answer); got != taken {
			t.Errorf("%s: the schema says %v, the decoder %v (%v)", answer, got, taken, err)
		}
	}
}

func TestSchemaAgreesWithTheDecoderOfSends(t *testing.T) {
	sent, failure := schema(t, "sent"), schema(t, "send_failure")
	for _, answer := range []string{
		`{}`, `{"id":"v1"}`, `{"id":null,"more":1}`, `{"error":null}`, `{"id":7}`, `[]`, `null`, `"v1"`,
		`{"error":{"kind":"rejected","code":"blocked","message":"no"},"retry_after":30}`, `{"error":{"kind":"auth"}}`, `{"error":{"kind":"config"}}`,
		`{"error":{"kind":"gone"}}`, `{"error":{"kind":"rate_limited"}}`, `{"error":{"kind":"transient"},"id":"v1"}`,
		`{"error":{"kind":"cursor_invalid"}}`, `{"error":{"kind":"odd"}}`, `{"error":{}}`, `{"error":"no"}`, `{"error":{"kind":"auth","code":401}}`,
	} {
		_, err := sentOf(&fetch.Response{Status: 200, Body: []byte(answer)}, nil)
		var refused *poller.SendError
		taken := err == nil || errors.As(err, &refused)
		if got := fits(t, sent, answer) || fits(t, failure, answer); got != taken {
			t.Errorf("%s: the schema says %v, the decoder %v (%v)", answer, got, taken, err)
		}
	}
}

func TestSchemaDescribesSends(t *testing.T) {
	s := schema(t, "send")
	body, err := encodeSend(t.Context(), poller.SendRequest{
		Account: "a", Config: []byte(`{"url":"https://example.com"}`), ID: "S", Attempt: 1, Peer: "anna", Type: "text", Data: []byte(`{"text":"x"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !fits(t, s, string(body)) {
		t.Errorf("%s does not fit the schema", body)
	}
	withFile, err := encodeSend(t.Context(), poller.SendRequest{
		Account: "a", Config: []byte(`{"url":"https://example.com"}`), ID: "S", Attempt: 1, Peer: "anna", Type: "image", Data: []byte(`{"file":"f","caption":"x"}`),
		File: &poller.SendFile{File: poller.File{Type: "image/png", Size: 7}},
	})
	if err != nil || !fits(t, s, string(withFile)) {
		t.Errorf("%s does not fit the schema: %v", withFile, err)
	}
	for _, bad := range []string{`{}`, strings.Replace(string(body), `"text","data"`, `"image","data"`, 1), strings.Replace(string(body), `"version":1`, `"version":2`, 1), strings.Replace(string(body), `"to":"anna"`, `"to":""`, 1)} {
		if fits(t, s, bad) {
			t.Errorf("%s fits the schema", bad)
		}
	}
}

func TestSchemaDescribesRequests(t *testing.T) {
	s := schema(t, "request")
	body, err := encodeRequest(t.Context(), poller.Request{Account: "a", CheckID: "c", Config: []byte(`{"url":"https://example.com"}`), Limit: 200, Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !fits(t, s, string(body)) {
		t.Errorf("%s does not fit the schema", body)
	}
	for _, bad := range []string{`{}`, strings.Replace(string(body), `"version":1`, `"version":2`, 1), strings.Replace(string(body), `"limit":200`, `"limit":0`, 1)} {
		if fits(t, s, bad) {
			t.Errorf("%s fits the schema", bad)
		}
	}
}

// The first pages show what a connector is sent, field by field, and what it may answer.
func TestExamplesFitTheSchema(t *testing.T) {
	sent, err := encodeRequest(t.Context(), poller.Request{Account: "inbox", CheckID: "c", Config: []byte(`{}`), Limit: 200, Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	for page, least := range map[string]int{"../../../README.md": 2, filepath.Join(guide, "zh-CN", "README.md"): 2, filepath.Join(guide, "connectors.md"): 4, filepath.Join(guide, "zh-CN", "connectors.md"): 4} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) < least {
			t.Fatalf("%s: only %d examples", page, len(blocks))
		}
		for _, block := range blocks {
			switch {
			case fits(t, schema(t, "request"), block[1]):
				if got, want := fieldsOf(t, block[1]), fieldsOf(t, string(sent)); least == 2 && !slices.Equal(got, want) {
					t.Errorf("%s: a request has %q, and the example %q", page, want, got)
				}
			case fits(t, schema(t, "page"), block[1]):
				if answer, err := decode([]byte(block[1]), 200); err != nil || least == 2 && len(answer.Messages) != 1 {
					t.Errorf("%s: %s is read as %+v, %v", page, block[1], answer, err)
				}
			case fits(t, schema(t, "failure"), block[1]), fits(t, schema(t, "send"), block[1]), fits(t, schema(t, "send_failure"), block[1]):
			case strings.Contains(block[1], `"within"`):
				if nudge, err := accounts.DecodeNudge([]byte(block[1])); err != nil || nudge.Within == 0 || len(nudge.Hint) == 0 || nudge.Lives == 0 {
					t.Errorf("%s: %s is read as %+v, %v", page, block[1], nudge, err)
				}
			default:
				t.Errorf("%s: %s fits nothing of the schema", page, block[1])
			}
		}
	}
}

// fieldsOf returns the names in an object, sorted.
func fieldsOf(t *testing.T, text string) []string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(object))
}
