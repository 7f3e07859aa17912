// Package fetch is the only HTTP client of checkers and webhooks. It knows no kind of
// account, and makes no request that its caller did not ask for.
//
// It calls addresses that strangers chose, so it trusts nothing that it receives:
//
//   - The address is judged inside the dialer, after name resolution and for
//     each connection. Neither a redirect nor a name that changes its address
//     reaches an address that a [Rule] does not allow. What a name resolved to is remembered
//     for half a minute, but it is no permission. Proxies of the environment are
//     not used, because they would resolve names themselves.
//   - Every phase has a time limit and every answer a size limit, counted after
//     decompression.
//   - Redirects are followed only if the call asks for it. Only a few harmless headers
//     reach another origin than the first.
//   - An error has only a code, a fixed text and perhaps an address that the URL had:
//     never a URL, a query string, a user name, the address of a name or a server's
//     text.
package fetch
