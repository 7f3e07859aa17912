package pages

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// endpointAPI has one endpoint that was added, and refuses one name.
type endpointAPI struct{ calls []string }

func (a *endpointAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodGet {
		a.calls = append(a.calls, strings.TrimSpace(fmt.Sprint(r.Method, " ", r.URL.RequestURI(), " ", r.Header.Get("If-Match"), r.Header.Get("If-None-Match"), " ", string(body))))
	}
	switch {
	case r.Method == http.MethodPut && strings.Contains(string(body), "10.0.0.7"):
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"status":422,"detail":"validation failed","errors":[{"location":"body.url","message":"must not be a private address"}]}`)
	case r.Method == http.MethodPut:
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"name":"crm","signing_key":"whsec_the-key"}`)
	case r.Method == http.MethodDelete:
		_, _ = io.WriteString(w, `{"position_forgotten":true}`)
	case strings.HasSuffix(r.URL.Path, "/test"):
		_, _ = io.WriteString(w, `{"outcome":"rejected","status":401,"error":"answered <b>401</b>","at":"2026-11-27T03:00:00Z"}`)
	case r.URL.Path == "/v1/webhooks/crm":
		_, _ = io.WriteString(w, `{"name":"crm","source":"stored","revision":7,"stored_by":"<eve>","stored_at":"2026-11-27T03:00:00Z","standing":{"processes":1,"last_outcome":"unready","last_error":"secret X"},
			"fields":{"name":"crm","url":"https://crm.example/hook","kinds":["feed","imap"],"headers":{"X-A":"b"},"ordered":true,"secrets":[{"secret":"webhook_crm"}]}}`)
	case r.URL.Path == "/v1/webhooks/declared":
		_, _ = io.WriteString(w, `{"name":"declared","source":"file","shadowed":true}`)
	case r.URL.Path == "/v1/webhooks/bus":
		_, _ = io.WriteString(w, `{"name":"bus","source":"stored","revision":9,"fields":{"name":"bus","type":"kafka","brokers":["k1.example:9092","k2.example"],"password":{"secret":"K"},"tls":true,"later":1}}`)
	case r.URL.Path == "/v1/webhooks:types":
		_, _ = io.WriteString(w, `{"types":[{"name":"webhook","fields":[{"name":"url","type":"url","required":true,"label":{"en":"URL"}},{"name":"ordered","type":"choice","label":{"en":"Order"},"choices":[{"value":true,"label":{"en":"yes"}}]}]},
			{"name":"kafka","fields":[{"name":"brokers","type":"texts","label":{"en":"Servers"}},{"name":"tls","type":"choice","label":{"en":"TLS"},"choices":[{"value":false,"label":{"en":"no"}},{"value":true,"label":{"en":"yes"}}]},
			{"name":"password","type":"secret","secret":true,"label":{"en":"Password"}},{"name":"max_bytes","type":"number","label":{"en":"Bytes"}}]}]}`)
	default:
		_, _ = io.WriteString(w, `{"webhooks":[],"groups":[],"dead":[]}`)
	}
}

func TestEndpointsAreAddedAndChanged(t *testing.T) {
	api := new(endpointAPI)
	site := siteFor(t, access.Admin, api)
	contains(t, ask(site, "GET", "/delivery/webhook?name=crm").Body.String(), "&lt;eve&gt;", `value="https://crm.example/hook"`, `value="feed, imap"`, `name="revision" value="7"`, "cannot be delivered to", "Remove…")
	contains(t, ask(site, "GET", "/delivery/webhook?name=bus").Body.String(), "k1.example:9092\nk2.example</textarea>", `name="config.password" value="K"`, `<option value="true" selected>yes</option>`, `name="type" value="kafka"`, "<bdi>k1.example:9092, k2.example</bdi>")
	contains(t, ask(site, "GET", "/delivery?add=kafka").Body.String(), "<details open>", `name="config.brokers"`, `<a href="/delivery?add=webhook#add-endpoint">webhook</a>`)
	contains(t, ask(site, "GET", "/delivery/webhook?name=declared").Body.String(), "ROUNDS_WEBHOOKS_FILE declares it", "counts for nothing")
	for form, want := range map[string]struct {
		path, call, shows, to string
		status                int
	}{
		"do=add&name=crm&config.url=https%3A%2F%2Fcrm.example%2Fhook&kinds=feed%2C+imap&events=yes&from=start&labels=team%3Dpress&when=true": {addEndpointPath,
			`PUT /v1/webhooks/crm * {"events":true,"from":"start","kinds":["feed","imap"],"labels":{"team":"press"},"type":"webhook","url":"https://crm.example/hook","when":"true"}`, "whsec_the-key", "", http.StatusCreated},
		"do=add&name=crm&config.url=http%3A%2F%2F10.0.0.7%2F": {addEndpointPath, `PUT /v1/webhooks/crm * {"type":"webhook","url":"http://10.0.0.7/"}`, "must not be a private address", "", http.StatusUnprocessableEntity},
		// A name that is missing is the API's to refuse, and so is who may not add any.
		"do=add&config.url=https%3A%2F%2Fcrm.example%2Fhook": {addEndpointPath, `PUT /v1/webhooks/%20 * {"type":"webhook","url":"https://crm.example/hook"}`, "whsec_the-key", "", http.StatusCreated},
		// What the form does not have stays as it is.
		"do=change&name=crm&revision=7&config.url=https%3A%2F%2Fcrm.example%2Fv2&new_key=yes": {changeEndpointPath,
			`PUT /v1/webhooks/crm "7" {"headers":{"X-A":"b"},"name":"crm","new_key":true,"secrets":[{"secret":"webhook_crm"}],"type":"webhook","url":"https://crm.example/v2"}`, "whsec_the-key", "", http.StatusOK},
		"do=add&name=bus&type=kafka&config.brokers=k1.example%3A9092%0D%0Ak2.example&config.tls=true&config.password=K&config.max_bytes=many": {addEndpointPath,
			`PUT /v1/webhooks/bus * {"brokers":["k1.example:9092","k2.example"],"max_bytes":"many","password":{"secret":"K"},"tls":true,"type":"kafka"}`, "is stored", "", http.StatusCreated},
		"do=change&name=bus&type=kafka&revision=9&config.brokers=k3.example": {changeEndpointPath, // the API judges whether a field may be missing
			`PUT /v1/webhooks/bus "9" {"brokers":["k3.example"],"later":1,"name":"bus","type":"kafka"}`, "whsec_the-key", "", http.StatusOK},
		// A choice that the page does not have is the API's to refuse.
		"do=add&name=bus&type=kafka&config.tls=%7B": {addEndpointPath, `PUT /v1/webhooks/bus * {"tls":"{","type":"kafka"}`, "is stored", "", http.StatusCreated},
		"do=test&name=crm":                          {changeEndpointPath, "POST /v1/webhooks/crm/test", "answered &lt;b&gt;401&lt;/b&gt;", "", http.StatusOK},
		"do=remove&name=crm&keep=yes":               {changeEndpointPath, "DELETE /v1/webhooks/crm?keep_position=true", "", "/delivery?said=endpoint.removed", http.StatusSeeOther},
		"do=remove&name=..%2Fsecrets":               {changeEndpointPath, "DELETE /v1/webhooks/..%2Fsecrets", "", "/delivery?said=endpoint.removed", http.StatusSeeOther},
		"do=odd&name=crm":                           {changeEndpointPath, "", "", "", http.StatusUnprocessableEntity},
	} {
		api.calls = nil
		values, _ := url.ParseQuery(form)
		w := pressed(site, want.path, values)
		if w.Code != want.status || strings.Join(api.calls, "") != want.call || !strings.Contains(w.Body.String(), want.shows) || w.Header().Get("Location") != want.to {
			t.Errorf("%s: %d to %q, called %q", form, w.Code, w.Header().Get("Location"), api.calls)
		}
	}
	viewer := siteFor(t, access.Viewer, api)
	for _, path := range []string{"/delivery", "/delivery/webhook?name=crm"} {
		if body := ask(viewer, "GET", path).Body.String(); strings.Contains(body, addEndpointPath+`"`) || strings.Contains(body, changeEndpointPath+`"`) {
			t.Errorf("%s: a viewer sees forms of endpoints", path)
		}
	}
}

// While the breaker is open nothing is tried, even if a message's own time has come.
func TestNothingIsTriedWhileTheBreakerIsOpen(t *testing.T) {
	at := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		breaker     string
		until, want time.Time
	}{
		{"open", at.Add(time.Minute), at.Add(time.Minute)},
		{"open", at.Add(-time.Minute), at},
		{"closed", at.Add(time.Minute), at},
	} {
		w := webhook{Webhook: api.Webhook{Standing: &api.WebhookStanding{Breaker: c.breaker, BreakerUntil: c.until}}}
		if got := w.Due(at); !got.Equal(c.want) {
			t.Errorf("%s until %v: due %v, want %v", c.breaker, c.until, got, c.want)
		}
	}
	if got := (&webhook{}).Due(at); !got.Equal(at) {
		t.Errorf("nobody delivers: due %v", got)
	}
}
