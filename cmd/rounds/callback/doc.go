// Package callback receives the calls of third parties that announce something new: an event
// of an account leads to a check of that account at once.
//
// Read reads the configuration of the addresses that third parties call, New returns a
// Receiver for them, and package cmd/rounds/api serves it. WeCom is the only third party so
// far. Package wecomcrypt knows how its callbacks are signed and encrypted. A caller without
// the right to call learns only that it is refused.
//
// A callback only makes a check come sooner. It brings no messages, and an account without
// callbacks is checked by its cadence.
package callback
