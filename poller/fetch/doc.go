// Package fetch is the one HTTP client of checkers and webhooks. It knows no kind of
// account, and makes no request that its caller did not ask for.
//
// It talks to addresses that strangers chose, so it trusts nothing it gets:
//
//   - The address is judged inside the dialer, after name resolution and for
//     each connection, so neither a redirect nor a name that changes its address
//     leads where a [Rule] does not let it. Proxies of the environment are not used:
//     they would resolve names on their own.
//   - Every phase has a time limit and every answer a size limit, counted after
//     decompression.
//   - Redirects are followed only by those who ask for it; headers other than a
//     few harmless ones never reach another origin than the first.
//   - No error says more than a code, a fixed text and perhaps an address that the
//     URL had: never a URL, a query string, a user name, what a name leads to or what
//     a server wrote.
package fetch
