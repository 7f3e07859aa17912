package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/accounts/strict"
)

// A type of the program's own says whether its endpoints sign. One that does gets a key as a webhook does,
// bound to the hosts and the type, if there is a host.
func TestTypesSayWhetherTheySign(t *testing.T) {
	k := sealingKey(t)
	f := newFixture(t, func(o *Options) {
		o.Token, o.Seal = "the-token-of-this-test", func() *secret.PublicKey { return k }
		o.EndpointTypes = []EndpointType{{Kind: strict.Kind{Name: "webhook"}, Keyed: true, Default: true}, {Kind: strict.Kind{Name: "pigeons"}, Keyed: true}, {Kind: strict.Kind{Name: "owls"}}}
		o.JudgeEndpoint = func(fields []byte) (JudgedEndpoint, error) {
			var e struct {
				Type    string
				Hosts   []string
				Secrets []WebhookSecret
			}
			if err := json.Unmarshal(fields, &e); err != nil {
				return JudgedEndpoint{}, err
			}
			judged := JudgedEndpoint{Type: e.Type, Hosts: e.Hosts}
			for _, s := range e.Secrets {
				judged.Secrets = append(judged.Secrets, EndpointSecret{Field: "secrets[0]", Name: s.Secret})
			}
			return judged, nil
		}
	})
	var types WebhookTypeList
	f.call("GET", "/v1/webhooks:types", "", 200, &types)
	for i, keyed := range []bool{true, true, false} {
		if types.Types[i].Keyed != keyed {
			t.Errorf("%+v", types.Types[i])
		}
	}
	var signing, plain WebhookStored
	f.call("PUT", "/v1/webhooks/far", `{"type":"pigeons","hosts":["loft.example:443"]}`, 201, &signing)
	f.call("PUT", "/v1/webhooks/near", `{"type":"owls","hosts":["loft.example:443"]}`, 201, &plain)
	if !strings.HasPrefix(signing.SigningKey, "whsec_") || plain.SigningKey != "" {
		t.Errorf("keys %q and %q", signing.SigningKey, plain.SigningKey)
	}
	_, binding, there, err := secret.Of(f.ring).Get(t.Context(), secret.ServicePrefix+ownKey+"far")
	if err != nil || !there || binding.String() != "hosts=loft.example:443 kinds=pigeons" {
		t.Errorf("%v %v, %v", there, binding, err)
	}
	for body, want := range map[string]string{
		`{"type":"pigeons"}`:               "missing: a key is made only for an endpoint with hosts, to which it is bound",
		`{"type":"owls","new_key":true}`:   "is only for an endpoint that signs and has no secrets",
		`{"type":"eagles","new_key":true}`: "is only for an endpoint that signs and has no secrets",
	} {
		if r := f.call("PUT", "/v1/webhooks/other", body, 422, nil); !strings.Contains(r.body, want) {
			t.Errorf("%s: %s", body, r.body)
		}
	}
}
