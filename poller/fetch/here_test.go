package fetch

import (
	"errors"
	"testing"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
)

// An address that only this process' settings refuse parks nobody: a process that was started
// without one of them would otherwise park all accounts of a host.
func TestWhatTheSettingsRefuseBlamesNoAccount(t *testing.T) {
	for url, want := range map[string]poller.CheckError{
		"http://10.0.0.1/":       {Kind: poller.Transient, Scope: poller.ScopeEgress, Code: string(CodeRefusedAddress)},
		"http://localhost:9/":    {Kind: poller.Transient, Scope: poller.ScopeEgress, Code: string(CodeRefusedAddress)},
		"http://169.254.169.254": {Kind: poller.ConfigInvalid, Code: "config"}, // nobody means that
		"gopher://10.0.0.1/":     {Kind: poller.ConfigInvalid, Code: "config"},
	} {
		r := strict.ReadConfig(nil)
		if err := (Rule{}).Validate(url); err != nil {
			r.Refuse("url", err)
		}
		got := poller.ConfigError(r.Err())
		if got.Kind != want.Kind || got.Scope != want.Scope || got.Code != want.Code || errors.Is(got, poller.ErrHere) != (want.Kind == poller.Transient) {
			t.Errorf("%s: %+v", url, got)
		}
	}
}
