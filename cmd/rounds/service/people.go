package service

import (
	"errors"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/signin"
)

// newPeople makes the identity provider with which people may sign in, if there is one, and returns
// where they find the pages. It does not call the provider yet.
func newPeople(sealer signin.Sealer, s settings.Settings) (*signin.Provider, string, error) {
	if s.OIDC.Issuer == "" {
		return nil, "", nil
	}
	config, err := peopleConfig(s.OIDC)
	if err != nil {
		return nil, "", err
	}
	return signin.NewProvider(config, sealer), strings.TrimSuffix(config.RedirectURL, signin.CallbackPath), nil
}

// peopleConfig reads who the provider is and who may do what. The error is settings.Faults.
func peopleConfig(s settings.OIDC) (signin.ProviderConfig, error) {
	config := signin.ProviderConfig{Issuer: s.Issuer, ClientID: s.ClientID, ClientSecret: s.ClientSecret, RedirectURL: s.RedirectURL, GroupsClaim: s.GroupsClaim}
	grants, err := signin.ParseGrants(s.Roles)
	faults := faultsAbout("ROUNDS_OIDC_ROLES", "", err)
	config.Grants = grants
	names := map[string]string{
		"Issuer": "ROUNDS_OIDC_ISSUER", "ClientID": "ROUNDS_OIDC_CLIENT_ID", "ClientSecret": "ROUNDS_OIDC_CLIENT_SECRET", "RedirectURL": "ROUNDS_OIDC_REDIRECT_URL",
	}
	for _, fault := range config.Faults() {
		if fault.Field == "RedirectURL" && s.RedirectURL == "" {
			fault.Reason = "must be set, as https://HOST" + signin.CallbackPath + ", unless ROUNDS_PUBLIC_URL is set"
		}
		if name, ok := names[fault.Field]; ok { // the grants were read above
			faults = append(faults, settings.Fault{Name: name, Reason: fault.Reason})
		}
	}
	if len(faults) > 0 {
		return signin.ProviderConfig{}, faults
	}
	return config, nil
}

// peopleFaults reads the identity provider to find its faults; newPeople reads it for
// use.
func peopleFaults(s settings.Settings) (faults settings.Faults) {
	if s.OIDC.Issuer == "" || !s.API.Roles.Has(settings.RoleAPI) {
		return nil
	}
	_, err := peopleConfig(s.OIDC)
	errors.As(err, &faults) // it returns nothing else
	return faults
}
