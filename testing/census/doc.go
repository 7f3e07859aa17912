// Package census reads where the accounts of a ring are in Redis, without package
// circulate. It names keys and parses entries itself: what circulate says about its own
// keys is no evidence. It reports what is there and whether that keeps the conservation
// law. Its users decide what an account should be at a moment.
package census
