package graph

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// asking is a transport that refuses everything, and remembers what was asked last.
type asking struct{ body string }

// RoundTrip implements http.RoundTripper.
func (a *asking) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	a.body = string(body)
	return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}, Body: http.NoBody, Request: r}, err
}

// A sign-in of this kind is one for Graph.
func TestSignInIsForGraph(t *testing.T) {
	asked := &asking{}
	source := secrets.Source{Lookup: func(name string) (string, bool) {
		return `{"client_id":"c"}`, name == secrets.ServiceEnvPrefix+oauth.ClientName(oauth.Microsoft)
	}}
	_, err := oauth.NewClient(Kind, fetch.New(fetch.Options{Transport: asked}), source).Begin(t.Context(), oauth.Microsoft, "", "")
	form, _ := url.ParseQuery(asked.body)
	if scopes := strings.Fields(form.Get("scope")); strings.Join(scopes, " ") != "https://graph.microsoft.com/Mail.Read https://graph.microsoft.com/Mail.Send offline_access" {
		t.Errorf("asked for %q, %v", scopes, err)
	}
}
