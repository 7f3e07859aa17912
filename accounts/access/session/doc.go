// Package session has people stay signed in at pages: who has shown the token, a key or
// an identity provider's word once is known by a cookie for twelve hours.
//
// The cookie holds a random name of 260 bits and nothing else. Redis has its SHA-256, with
// what the session remembers of who signed in. The other way would have been a sealed
// cookie, which holds all of that and is believed for its seal. It would need a key that
// all processes share and that somebody rotates, whoever reads that key could make
// sessions, and to end one before its time would take a list of those that have ended,
// which every process asks for at every request: the very question that it was to save. A
// random name needs no key, what Redis holds lets nobody in, and a session that ends has
// ended for all processes at once. It costs a question to Redis for each request that
// bears a cookie; who is away is Redis, and the answer is then unknown, not no.
//
// A session never widens what somebody may do, and does not outlive what it was made with:
// at each request [Door] judges anew who its holder is. A key that was revoked or has
// expired, a token that was changed, and a group that lost its role end it within
// seconds.
//
// The cookie is HttpOnly and SameSite=Strict, off loopback also Secure and bound to the
// host by the prefix __Host-. Requests that bear it are refused where a page of another
// site made them (package origin), whatever their method, and where they are not for the
// host that the session was begun at: a page that had its own name lead to this service
// has no cookie for it, and must not be able to use one.
package session
