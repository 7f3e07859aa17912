// Package api is the registry of accounts over HTTP.
//
// Requests and replies are JSON. Imports, exports and followed messages are streams of JSON.
// Errors are application/problem+json (RFC 9457) and name every fault of a request at once.
// /openapi.json describes the routes, and /docs shows it. The types of this package are the same
// in Go.
//
// If a token is set, or RequireKey is, a request has the token or a key as a bearer token, or the
// cookie of a session that was begun with one of them or with an identity provider (package
// session). Some routes are open to all: /healthz and /readyz, which reveal nothing, the pages at
// /docs and /signin, and the callbacks of WeCom, which are signed. If neither is set, the API must
// not be reachable from other machines (package service refuses to listen there), and it answers only requests that name this
// machine, so that a page from elsewhere in a browser on this machine gets nothing.
//
// Rights is the table of what each route demands: a role, and a scope that says which
// accounts the route is about. A caller that is bound to labels only sees accounts with
// them.
//
// When Redis is away, requests fail with 503 and a Retry-After. Such a request is never half done,
// but it may have been done. Repeating a PUT, a DELETE or an import is safe. So is repeating a
// POST, which may then answer 409.
package api
