package service

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// The access tokens of a mailbox go to its own servers, or to Microsoft Graph.
func TestServersOfMailboxes(t *testing.T) {
	at := mailboxesAt(fetch.New(fetch.Options{}), secrets.Source{})
	for i, c := range []struct {
		kind, config string
		hosts        []string
	}{
		{"imap", `{"host":"a.example","smtp":{"host":"b.example"}}`, []string{"a.example", "b.example"}},
		{"graph", `{"oauth":{"secret":"x"}}`, []string{"graph.microsoft.com"}},
		{"graph", `{"base_url":"https://graph.microsoft.us"}`, []string{"graph.microsoft.us"}},
	} {
		server := at[min(i, 1)]
		if _, hosts := server.Own(json.RawMessage(c.config)); server.Kind != c.kind || !slices.Equal(hosts, c.hosts) {
			t.Errorf("%s: got %s, %q", c.config, server.Kind, hosts)
		}
	}
}
