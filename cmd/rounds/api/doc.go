// Package api is the registry of accounts over HTTP.
//
// Requests and replies are JSON. Imports, exports and followed messages are streams of JSON.
// Errors are application/problem+json (RFC 9457) and name every fault of a request at once.
// /openapi.json describes the routes, and /docs shows it. The types of this package are the same
// in Go.
//
// Where a token is set, or RequireKey says so, a request shows the token or a key as a bearer
// token, or bears the cookie of a session that was begun with one of them or with an
// identity provider (package session). Open to all are /healthz and /readyz, which tell
// nothing, the pages at /docs and /signin, and the callbacks of WeCom, which are signed. Otherwise the API
// must not be reachable from other machines (checkListen), and it answers only to
// requests that name this one: a page from elsewhere in a browser on this machine
// gets nothing.
//
// Rights is the table of what each route demands: a role, and a scope that says which
// accounts it is about. Who is bound to labels meets only accounts with them.
//
// When Redis is away, requests fail with 503 and a Retry-After. Such a request is not half done,
// but it may have been done. Repeating a PUT, a DELETE or an import is safe. So is repeating a
// POST, which may then answer 409.
package api
