// Package census reads, past circulate, where the accounts of a ring are in Redis. It
// names keys and reads entries by itself: what circulate says of its own keys is no
// evidence. It says what is there and whether that keeps the conservation law. What an
// account should be at a moment is for its users to say.
package census
