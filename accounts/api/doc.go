// Package api is the registry of accounts over HTTP.
//
// Requests and replies are JSON; imports, exports and followed messages are
// streams of it. Errors are application/problem+json (RFC 9457) and name every
// fault of a request at once. What the routes take and give is in /openapi.json,
// which /docs shows; the types of this package are the same in Go.
//
// Where a token is set, every route demands it as a bearer token, but /healthz
// and /readyz, which tell nothing, the page at /docs, which asks for it, and the
// callbacks of WeCom, which are signed.
// Without one the API must not be reachable from other machines (CheckListen),
// and it answers only to requests that name this one: a page from elsewhere in a
// browser on this machine gets nothing.
//
// When Redis is away, requests fail with 503 and a Retry-After. Nothing that
// failed so is half done, but it may be done all the same: to repeat a PUT, a
// DELETE or an import is safe, and so is a POST that may then answer 409.
package api
