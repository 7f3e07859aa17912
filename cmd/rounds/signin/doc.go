// Package signin lets people sign in to the pages, and keeps them signed in. A person shows the
// token, a key or the ID token of an identity provider once. After that a cookie identifies the person for twelve hours.
//
// The cookie contains a random name of 260 bits and nothing else. Redis stores the name's
// SHA-256, with what the session remembers of the person. Nobody can sign in with what Redis
// stores, and a session that ends has ended for all processes at once. Each request with a
// cookie costs one request to Redis. While Redis is unreachable, it is unknown whether a
// session is valid, and requests get an error instead of a refusal.
//
// A sealed cookie, which contains all of that itself, would be the alternative. It would need
// a key that all processes share and that somebody rotates. Anybody who reads that key could
// create sessions. To end a session early, every process would have to look at a list of
// ended sessions at every request, which is the very request to Redis that it should save.
//
// A session never adds rights, and does not outlive the credential that it was begun with: at
// each request [Door] checks again who the holder is. It ends within seconds when its key is
// revoked or expires, when the token changes, or when the person's group loses its role.
//
// The cookie is HttpOnly and SameSite=Strict. Except on loopback it is also Secure, and bound
// to the host by the prefix __Host-. Two sorts of requests with a cookie are refused, whatever
// their method: those that a page of another site made (package origin), and those for another
// host than the one at which the session was begun. The second rule is for a page that makes
// its own name resolve to this service: it has no cookie, and must not be able to use one.
//
// # The identity provider
//
// People sign in with an identity provider by OpenID Connect: the authorization code flow with PKCE, a state and a nonce.
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
package signin
