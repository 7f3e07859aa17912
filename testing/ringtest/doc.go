// Package ringtest is the conformance suite of package circulate: what the ring
// promises, step by step, on any server that it is to run on. It looks at Redis
// with eyes of its own, by the key names that the protocol documents.
package ringtest
