// Package timebox bounds calls in time, for somebody who makes very many of them, nearly all of
// which end long before their time-out. It knows nothing of checks.
//
// A Box bounds one call after the other with one timer, which is set once in a time-out rather
// than once a call. The context of a call is not told apart from one of context.WithTimeout by
// anybody who uses it, and contexts that derive from it cost no goroutine.
package timebox
