// Package idp lets people sign in with an identity provider, by OpenID Connect: the
// authorization code flow with PKCE, a state and a nonce.
//
// What a sign-in under way needs is kept in Redis under its state, once: whoever comes back
// with the state takes it, so that nobody comes back twice. The provider's groups decide
// who may do what ([Grant]). A person with none that is granted anything is nobody.
//
// The provider is asked when somebody signs in, and never before: one that is away keeps
// nobody out who is in, and stops no service. Every answer of it is bounded in size and
// time, for it is a stranger too.
package idp
