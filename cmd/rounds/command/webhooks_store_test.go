package command

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An endpoint has the fields of its type, in the form that the type declares.
func TestEndpointsHaveTheFieldsOfTheirType(t *testing.T) {
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/v1/webhooks:types":
			_, _ = io.WriteString(w, `{"types":[{"name":"webhook","fields":[{"name":"timeout","type":"text"}]},{"name":"kafka","fields":[{"name":"brokers","type":"texts"},{"name":"tls","type":"choice","choices":[{"value":false},{"value":true}]},
				{"name":"password","type":"secret"},{"name":"max_bytes","type":"number"},{"name":"topic","type":"text"}]}]}`)
		case r.Method == http.MethodPut:
			body, _ := io.ReadAll(r.Body)
			sent = r.Header.Get("If-Match") + string(body)
			_, _ = io.WriteString(w, `{"name":"bus"}`)
		default:
			_, _ = io.WriteString(w, `{"name":"bus","revision":3,"fields":{"type":"kafka","topic":"t","tls":true}}`)
		}
	}))
	defer server.Close()
	for line, want := range map[string]string{
		"add bus --to kafka --set brokers=a:1,b --set tls=true --set password=service.K --set max_bytes=65536 --set topic=t": `{"brokers":["a:1","b"],"max_bytes":65536,"password":{"secret":"K"},"tls":true,"topic":"t","type":"kafka"}`,
		"add hook https://a.example/ --set timeout=20s":                                                                      `{"timeout":"20s","url":"https://a.example/"}`,
		"set bus --set tls= --set topic=u":                                                                                   `"3"{"topic":"u","type":"kafka"}`,
		"add bus --to kafka --set tls=maybe":                                                                                 `{"tls":"maybe","type":"kafka"}`, // the API refuses it
	} {
		if _, err := runWith(t.Context(), map[string]string{"ROUNDS_API_URL": server.URL}, "", append([]string{"webhooks"}, strings.Fields(line)...)...); err != nil || strings.TrimSpace(sent) != want {
			t.Errorf("%s: sent %s, %v, want %s", line, sent, err, want)
		}
	}
	for line, want := range map[string]string{
		"add bus":                           "name the URL of a webhook, or the type of another endpoint: --to",
		"add bus --to file --set topic=t":   "--to: the service adds no endpoints of this type",
		"add bus --to kafka --set colour=1": "--set: kafka has no field of this name; it has brokers, tls, password, max_bytes, topic",
		"add bus --to kafka --set topic":    "--set: must be FIELD=VALUE",
		"add a b c":                         "one argument too many",
		"add":                               "NAME is missing",
	} {
		if _, err := runWith(t.Context(), map[string]string{"ROUNDS_API_URL": server.URL}, "", append([]string{"webhooks"}, strings.Fields(line)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", line, err, want)
		}
	}
}
