// Package oauth signs accounts in at an authorization server (OAuth 2.0, RFC 6749), and gets their
// access tokens for all replicas.
//
// # Signing in
//
// A person consents either on any device, by a code that is shown here (RFC 8628), or in a browser
// that comes back to an address with a code (RFC 6749, section 4.1, with PKCE, RFC 7636). The
// result is a Grant, which the caller stores as a secret that is bound to Grant.Hosts and to the
// hosts that take the access tokens.
//
// # Providers
//
// A provider is google, microsoft, or the URL of an issuer that describes itself (OpenID Connect
// Discovery). This service is a client that is registered there. Its id and secret are one of the
// service's own secrets, named as ClientName says, with the JSON
//
//	client_id      required
//	client_secret  if the provider has issued one
//	tenant         of microsoft, common by default
//	issuer         required if the provider is a URL, and the same: it says where the secret goes
//	scopes         what to ask for, instead of the provider's usual ones
//
// # Refreshing
//
// Tokens gets access tokens through package token: one replica refreshes for all. That replica reads
// the stored grant anew when it has the lease, so no refresh token is used twice that the provider
// has rotated. It stores a rotated refresh token before it uses or shares the access token. A process
// that dies
//
//   - before the provider has answered, leaves the grant as it was,
//   - after that and before the new refresh token is stored, loses that one. Google and Microsoft
//     leave the old one valid. A provider that does not then refuses it, and somebody must sign in
//     again: nobody can prevent that,
//   - later, leaves the new refresh token, and the next replica refreshes once more.
//
// When the provider says invalid_grant, the check's error is auth and final: the account is parked
// until somebody signs in again. A new sign-in has a new key, so it waits for nothing that was
// remembered of the old one.
//
// # No bursts
//
// A token is replaced in the last part of its life, at a time that depends on a hash of the account.
// A process asks each provider for at most 10 tokens a second. Who comes when there are more is told
// when to come again, one after the other. A provider that asks for a pause gets it from all
// replicas.
package oauth
