// Package access is who may do what: roles, principals, and how a request carries the
// one on whose behalf it is.
//
// A Principal is what became of whatever a caller showed: a token, a key, a session. The
// edge that judged it puts the principal into the request's context with With. What is
// behind the edge asks From, and knows no other way: a context without a principal is of
// nobody, who may do nothing.
package access
