// Package idp lets people sign in with an identity provider, by OpenID Connect: the
// authorization code flow with PKCE, a state and a nonce.
//
// The browser keeps the data of a sign-in under way, sealed for its state by a key that all
// processes share. The service itself keeps nothing, so nobody can push out the sign-ins of
// others. A stranger's callback fails before the provider is asked. The provider's groups decide who may do what ([Grant]). A person without a granted group may do nothing.
//
// Groups, names and mail addresses that are not in the ID token are asked for at the provider's
// userinfo, where the specification has them by default. Sign-ins are pushed to a provider
// that demands it (RFC 9126).
//
// The provider is asked only when somebody signs in or out. While it is unreachable, people who are
// signed in stay so, and the service starts and runs. Its answers are limited in size and
// time, because it is not trusted more than any other server.
package idp
