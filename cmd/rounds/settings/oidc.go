package settings

// OIDC says which identity provider people may sign in with, and who may do what.
type OIDC struct {
	Issuer       string `env:"ROUNDS_OIDC_ISSUER" about:"OpenID Connect provider that people may sign in with at /signin, such as https://login.example.com/realms/acme; unset: none"`
	ClientID     string `env:"ROUNDS_OIDC_CLIENT_ID" about:"this service's client id at the provider"`
	ClientSecret string `env:"ROUNDS_OIDC_CLIENT_SECRET" secret:"yes" about:"this service's secret at the provider"`
	SecretFile   string `env:"ROUNDS_OIDC_CLIENT_SECRET_FILE" about:"file that holds the secret, in place of ROUNDS_OIDC_CLIENT_SECRET"`
	RedirectURL  string `env:"ROUNDS_OIDC_REDIRECT_URL" about:"the address that the provider sends people back to, as registered there: https://HOST/signin/callback; unset: that path below ROUNDS_PUBLIC_URL"`
	GroupsClaim  string `env:"ROUNDS_OIDC_GROUPS_CLAIM,default=groups" about:"claim of the ID token, or else of userinfo, that holds a person's groups"`
	Roles        string `env:"ROUNDS_OIDC_ROLES" about:"who may do what, separated by semicolons: GROUP=ROLE, then labels NAME=VALUE that accounts must have; such as ops=admin; press=editor team=press; of several the first applies, and a person without any may not sign in"`
}

// callbackPath is the path, below ROUNDS_PUBLIC_URL, to which people return.
const callbackPath = "/signin/callback"

// checkOIDC reads the secret from its file, if there is one. Other code validates the
// rest.
func (r *reading) checkOIDC(s *Settings) {
	o := &s.OIDC
	r.fromFile("ROUNDS_OIDC_CLIENT_SECRET", o.SecretFile, &o.ClientSecret)
	if o.Issuer == "" {
		for _, one := range []struct{ name, value string }{
			{"ROUNDS_OIDC_CLIENT_ID", o.ClientID}, {"ROUNDS_OIDC_CLIENT_SECRET", o.ClientSecret},
			{"ROUNDS_OIDC_REDIRECT_URL", o.RedirectURL}, {"ROUNDS_OIDC_ROLES", o.Roles},
		} {
			if one.value != "" {
				r.fault("ROUNDS_OIDC_ISSUER", "must be set where "+one.name+" is")
				return
			}
		}
		return
	}
	if o.RedirectURL == "" && s.API.PublicURL != "" {
		o.RedirectURL = s.API.PublicURL + callbackPath
	}
}
