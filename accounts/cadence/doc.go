// Package cadence says when an account is due next. It is pure functions: of the
// account's cadence, what its earlier checks left, what this one found, and the
// time now by Redis' clock. Nothing here reads a clock or keeps state.
//
// The rule is
//
//	next = max(cadence, what the upstream asked for, backoff of failures)
//
// A cadence of an interval has a phase, its id's hash modulo the interval, and
// its slots are the times that are the phase modulo the interval: they stay
// where they are over restarts, spread accounts that were registered together,
// and however many were missed, one check makes up for all of them.
package cadence
