// Package access defines who may do what: roles, principals, and how a request's context
// carries its principal.
//
// A Principal is the result of authentication, by a token, a key or a session. The code that
// authenticates a request puts the principal into its context with With. All other code gets
// it with From, and in no other way. With a context without a principal nothing is allowed.
package access
