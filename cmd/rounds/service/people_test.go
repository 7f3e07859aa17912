package service

import (
	"strings"
	"testing"
)

func TestSettingsReportFaultsOfTheIdentityProvider(t *testing.T) {
	_, err := read(map[string]string{"ROUNDS_OIDC_ISSUER": "http://login.example.com", "ROUNDS_OIDC_ROLES": "ops=boss; staff"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`ROUNDS_OIDC_ISSUER is "http://login.example.com": must be https, but on loopback`, "ROUNDS_OIDC_CLIENT_ID: must be set", "ROUNDS_OIDC_CLIENT_SECRET: must be set",
		"ROUNDS_OIDC_REDIRECT_URL: must be set, as https://HOST/signin/callback, unless ROUNDS_PUBLIC_URL is set", `"ops=boss": must be GROUP=ROLE`, `"staff": must be GROUP=ROLE`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in\n%v", want, err)
		}
	}
	if _, err := read(map[string]string{"ROUNDS_OIDC_ISSUER": "http://login.example.com", "ROUNDS_ROLES": "poller,monitor"}); err != nil {
		t.Errorf("a process without the API signs nobody in: %v", err)
	}
}

// A service starts even if its identity provider cannot be reached.
func TestPeopleAreNotAskedAtStart(t *testing.T) {
	s, err := read(map[string]string{"ROUNDS_OIDC_ISSUER": "https://login.invalid/x", "ROUNDS_OIDC_CLIENT_ID": "c", "ROUNDS_OIDC_CLIENT_SECRET": "s",
		"ROUNDS_PUBLIC_URL": "https://rounds.example", "ROUNDS_OIDC_ROLES": "ops=admin"})
	if err != nil {
		t.Fatal(err)
	}
	people, at, err := newPeople(nil, s)
	if err != nil || people == nil || at != "https://rounds.example" {
		t.Errorf("%v at %q, %v", people, at, err)
	}
	s.OIDC.Issuer = ""
	if people, _, err := newPeople(nil, s); people != nil || err != nil {
		t.Errorf("none is set: %v, %v", people, err)
	}
}
