package service

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/pgtest"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// tryStored tries the stored endpoints, as the doctor does with the settings of the processes that deliver.
func tryStored(t *testing.T, server *redistest.Server, variables map[string]string, want string) {
	t.Helper()
	ring, err := circulate.Open(t.Context(), redistest.Connect(t, server), circulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := readWith(variables, Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Lookup: lookupIn(variables)}
	source, err := Secrets(s, o, ring)
	if err != nil {
		t.Fatal(err)
	}
	added, err := AddedEndpoints(t.Context(), ring)
	if err != nil {
		t.Fatal(err)
	}
	trials, err := TryEndpoints(t.Context(), s, o, source, added)
	if err != nil || len(trials) != 1 {
		t.Fatalf("%d trials, %v", len(trials), err)
	}
	if got := fmt.Sprint(trials[0].Type, " ", trials[0].Endpoint, ": ", trials[0].Err); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A table of a real PostgreSQL is added over the API, tested, gets messages, and is removed.
func TestATableIsAddedWhileItRuns(t *testing.T) {
	t.Parallel() // it waits most of the time
	server, database := redistest.Start(t), pgtest.Start(t)
	name := database.NewDatabase(t)
	at, err := url.Parse(database.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := at.User.Password()
	_, private := newSealKey(t)
	variables := map[string]string{
		"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "api,delivery", "ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ALLOW_NETWORKS": database.Addr(),
		"ROUNDS_SECRETS_KEY_FILE": writeFile(t, private+"\n"),
	}
	p := start(t, variables)
	base := p.base(t, "api")
	processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
	calls := client.New(base, "")
	defer calls.Close()
	find := finder(t, server)
	types, err := calls.WebhookTypes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range types.Types {
		if names = append(names, one.Name); len(one.Fields) == 0 {
			t.Errorf("%s has no form", one.Name)
		}
	}
	if got := strings.Join(names, " "); got != "webhook postgres kafka nats" {
		t.Errorf("types: %s", got)
	}
	for secret, host := range map[string]string{"service.PG": database.Addr(), "service.OTHER": "other.example"} {
		if _, err := calls.SetSecret(t.Context(), secret, api.SecretRequest{Value: password, Hosts: []string{host}}); err != nil {
			t.Fatal(err)
		}
	}
	fields := api.WebhookFields{
		Type: "postgres", Servers: []string{database.Addr()}, Database: name, User: at.User.Username(), Password: &api.WebhookSecret{Secret: "PG"}, Kinds: []string{"feed"},
	}
	refused := func(want string, change func(*api.WebhookFields)) {
		t.Helper()
		other := fields
		change(&other)
		status, text := refusedWith(func() error { _, err := calls.AddWebhook(t.Context(), "crm", other); return err }())
		if status != http.StatusUnprocessableEntity || !strings.Contains(text, want) || strings.Contains(text, password) {
			t.Errorf("%d %s, want %s", status, text, want)
		}
	}
	refused("servers[0]: must not be a private address; add 127.0.0.1:1 to ROUNDS_ALLOW_NETWORKS of rounds serve", func(f *api.WebhookFields) { f.Servers = []string{"127.0.0.1:1"} })
	refused("password: is a secret that is not bound to "+database.Addr()+", or not for the kind postgres", func(f *api.WebhookFields) { f.Password = &api.WebhookSecret{Secret: "OTHER"} })
	refused("url: is only for endpoints of the file", func(f *api.WebhookFields) { f.URL = at.String() })
	refused("type: must be one of kafka, nats, postgres, webhook", func(f *api.WebhookFields) { f.Type = "file" })

	added, err := calls.AddWebhook(t.Context(), "crm", fields)
	if err != nil {
		t.Fatal(err)
	}
	if added.SigningKey != "" || strings.Contains(string(added.Fields), password) || !strings.Contains(string(added.Fields), `"secret":"PG"`) {
		t.Errorf("%+v", added)
	}
	tested, err := calls.TestWebhook(t.Context(), "crm")
	if err != nil || tested.Outcome != "delivered" || tested.Status != 0 {
		t.Fatalf("test: %+v, %v", tested, err)
	}
	tryStored(t, server, variables, "postgres crm: <nil>")
	find("after")
	db := pgtest.Open(t, database.URL(name))
	rows := func() string {
		var all []string
		found, err := db.QueryContext(t.Context(), "SELECT account, message, type FROM rounds_messages ORDER BY seq")
		if err != nil {
			t.Fatal(err)
		}
		defer found.Close()
		for found.Next() {
			var account, message, kind string
			if err := found.Scan(&account, &message, &kind); err != nil {
				t.Fatal(err)
			}
			if kind == "endpoint.test" {
				message = "-"
			}
			all = append(all, fmt.Sprint(account, " ", message, " ", kind))
		}
		if err := found.Err(); err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, "; ")
	}
	const want = " - endpoint.test; after of-after "
	for end := time.Now().Add(30 * time.Second); rows() != want; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the table has %q", rows())
		}
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		w, err := calls.Webhook(t.Context(), "crm")
		if err == nil && w.Standing != nil && w.Standing.LastOutcome == "delivered" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v, %v", w.Standing, err)
		}
	}

	removed, err := calls.RemoveWebhook(t.Context(), "crm", false)
	if err != nil || !removed.PositionForgotten {
		t.Fatalf("%+v, %v", removed, err)
	}
	find("later")
	if got := rows(); got != want {
		t.Errorf("after its removal the table has %q", got)
	}
}
