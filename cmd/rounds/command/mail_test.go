package command

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/dovecottest"
	"github.com/rounds-dev/rounds/testing/oidctest"
	"github.com/rounds-dev/rounds/testing/processes"
)

// registrationOf returns the name and the value of the variable with the service's registration at a
// provider.
func registrationOf(provider *oidctest.Provider) (name, value string) {
	return secrets.ServiceEnvPrefix + oauth.ClientName(provider.URL),
		fmt.Sprintf(`{"client_id":%q,"client_secret":%q,"issuer":%q}`, oidctest.ClientID, oidctest.ClientSecret, provider.URL)
}

// A mailbox is signed in by a browser and its mail is found. After the provider has revoked the
// sign-in the account is parked, and signing in again, now by a device code, puts it back.
func TestMailLogin(t *testing.T) {
	provider := oidctest.Start(t)
	provider.Offline(oidctest.Offline{User: "anna", Rotates: true, Forgets: true})
	dovecot := dovecottest.StartOAuth(t, provider.URL+"/introspect")
	if _, err := dovecot.Deliver("anna", []byte("Subject: one\r\n\r\nHello\r\n")); err != nil {
		t.Fatal(err)
	}
	key, err := secrets.Generate()
	if err != nil {
		t.Fatal(err)
	}
	private, err := key.Text()
	if err != nil {
		t.Fatal(err)
	}
	addr := freeLoopback(t)
	name, registration := registrationOf(provider)
	variables := map[string]string{
		"ROUNDS_API_ADDR": addr, "ROUNDS_API_URL": "http://" + addr, "ROUNDS_ALLOW_NETWORKS": "127.0.0.1", "ROUNDS_SHARDS": "4",
		"ROUNDS_SECRETS_KEY": private, name: registration, "ROUNDS_API_TOKEN": "0123456789abcdef",
	}
	service := startProgram(t, variables, "serve")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(service.stop(), service.log.String())
		}
	})
	processes.AwaitStatus(t, "http://"+addr+"/readyz", http.StatusOK)
	rounds := func(args ...string) string {
		t.Helper()
		printed, err := runWith(t.Context(), variables, "", args...)
		if err != nil {
			t.Fatalf("rounds %s: %v\n%s%s", strings.Join(args, " "), err, printed.out, printed.err)
		}
		return printed.out
	}
	until := func(want string, args ...string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			out := rounds(args...)
			if strings.Contains(out, want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("rounds %s: no %q in\n%s\n%s", strings.Join(args, " "), want, out, service.log.String())
			}
		}
	}
	page := regexp.MustCompile(`(?m)^http://\S+$`)

	signIn := func(args ...string) {
		t.Helper()
		login := startProgram(t, variables, append([]string{"mail", "login", "me", "--provider", provider.URL}, args...)...)
		login.out.Await(t, "Open this page in a browser on this machine:")
		for page.FindString(login.out.String()) == "" {
			time.Sleep(time.Millisecond)
		}
		answer, err := http.Get(page.FindString(login.out.String()))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		login.out.Await(t, "me is signed in and circulates, its refresh token is stored as mail-me")
		if answer.StatusCode != http.StatusOK {
			t.Errorf("the browser got %s", answer.Status)
		}
	}
	signIn("--user", "anna", "--host", "127.0.0.1", "--every", "1h") // polled: a held connection would outlive the revocation
	rounds("account", "set", "me", "--set", fmt.Sprintf("port=%d", dovecot.Port), "--set", "tls=none")
	rounds("account", "nudge", "me")
	until(`"subject":"one"`, "messages", "tail", "--from", "start", "--limit", "1", "--json")
	if list := rounds("secret", "list"); !strings.Contains(list, "127.0.0.1:"+strings.Split(provider.URL, ":")[2]) || !strings.Contains(list, "imap") {
		t.Errorf("the secret is bound to\n%s", list)
	}

	provider.Revoke(false)
	rounds("account", "nudge", "me")
	until("auth", "parked", "list")
	if why := rounds("account", "why", "me"); !strings.Contains(why, "sign in again") {
		t.Errorf("got\n%s", why)
	}
	signIn()
	if _, err := dovecot.Deliver("anna", []byte("Subject: two\r\n\r\nHello\r\n")); err != nil {
		t.Fatal(err)
	}
	rounds("account", "nudge", "me")
	until(`"subject":"two"`, "messages", "tail", "--from", "start", "--limit", "2", "--json")
	for _, text := range []string{service.log.String(), rounds("account", "get", "me", "--json")} {
		for _, hidden := range []string{oidctest.ClientSecret, "refresh-", "access-"} {
			if strings.Contains(text, hidden) {
				t.Errorf("%s is in %s", hidden, text)
			}
		}
	}
}
