package signin

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseGrants(t *testing.T) {
	for text, want := range map[string]string{
		"ops=admin":                         "ops:admin:",
		" ops = admin":                      "",
		"ops=admin;staff=viewer;":           "ops:admin: staff:viewer:",
		"cn=ops,dc=example=editor":          "cn=ops,dc=example:editor:",
		"a group=operator team=press x=":    "a group:operator:team=press,x=",
		"a=admin=viewer":                    "a=admin:viewer:",
		"a=viewer team=a=b":                 "a:viewer:team=a=b",
		"a=viewer team":                     "",
		"":                                  "",
		";":                                 "",
		"ops":                               "",
		"ops=root":                          "",
		"=admin":                            "",
		"ops=admin;ops=viewer":              "",
		"ops=viewer team=a team=b":          "",
		strings.Repeat("x", 300) + "=admin": "",
		"a\xff=admin":                       "",
	} {
		grants, err := ParseGrants(text)
		var got []string
		for _, g := range grants {
			got = append(got, fmt.Sprintf("%s:%s:%s", g.Group, g.Role, g.Labels))
		}
		if strings.Join(got, " ") != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
	_, err := ParseGrants("one; two=x; three=admin")
	if err == nil || !strings.Contains(err.Error(), `"one"`) || !strings.Contains(err.Error(), `"two=x"`) {
		t.Errorf("not all faults at once: %v", err)
	}
	var many strings.Builder
	for i := range maxGrants + 1 {
		fmt.Fprintf(&many, "g%d=viewer;", i)
	}
	if _, err := ParseGrants(many.String()); err == nil {
		t.Error("too many grants are taken")
	}
}

func TestFaults(t *testing.T) {
	good := ProviderConfig{Issuer: "https://login.example.com/realms/x", ClientID: "c", ClientSecret: "s", RedirectURL: "https://rounds.example/signin/callback", Grants: []Grant{{Group: "g", Role: 1}}}
	if faults := good.Faults(); faults != nil {
		t.Errorf("got %v", faults)
	}
	for _, tt := range []struct {
		field  string
		change func(*ProviderConfig)
	}{
		{"Issuer", func(c *ProviderConfig) { c.Issuer = "" }},
		{"Issuer", func(c *ProviderConfig) { c.Issuer = "http://login.example.com" }},
		{"Issuer", func(c *ProviderConfig) { c.Issuer = "https://login.example.com?x=1" }},
		{"RedirectURL", func(c *ProviderConfig) { c.RedirectURL = "https://rounds.example/" }},
		{"RedirectURL", func(c *ProviderConfig) { c.RedirectURL = "http://rounds.example/signin/callback" }},
		{"ClientID", func(c *ProviderConfig) { c.ClientID = "" }},
		{"ClientSecret", func(c *ProviderConfig) { c.ClientSecret = "" }},
		{"Grants", func(c *ProviderConfig) { c.Grants = nil }},
	} {
		c := good
		tt.change(&c)
		if faults := c.Faults(); len(faults) != 1 || faults[0].Field != tt.field {
			t.Errorf("%s: %v", tt.field, faults)
		}
	}
	if faults := (ProviderConfig{}).Faults(); len(faults) != 5 {
		t.Errorf("not all faults at once: %v", faults)
	}
}
