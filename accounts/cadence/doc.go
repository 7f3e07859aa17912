// Package cadence says when an account is due next. It is pure functions: of the
// account's cadence, what its earlier checks left, what this one found, and the
// time now by Redis' clock. Nothing here reads a clock or keeps state.
//
// # The cadences
//
//	every 1m                              an interval; "every 0" is again at once
//	adaptive 10s..15m                     an interval between two bounds that follows what is found
//	adaptive                              the same with these bounds
//	cron 0 9 * * MON-FRI Asia/Shanghai    minute, hour, day of month, month, day of week, IANA zone (UTC if left out)
//	cron 0 9 * * * ~5m                    the same, each account up to five minutes later, by its id
//	at 2026-12-01T09:00:00+08:00          once, at a time as RFC 3339 has it
//
// An interval has a phase, its id's hash modulo the interval, and its slots are
// the times that are the phase modulo the interval: they stay where they are
// over restarts, and spread accounts that were registered together. An adaptive
// interval I is halved by a check that found something and grows by a quarter of
// a doubling with one that found nothing, within its bounds; that settles where
// one check in five finds something. Its slots are half an interval apart, and
// an account is due at the last one within I, so that it waits for I/2 to I, and
// for exactly I while I stays the same. It never waits for less than the lower
// bound.
//
// However many slots were missed, one check makes up for all of them.
//
// # Cron and the clock
//
// The fields are those of cron: lists, ranges, steps, names; Sunday is 0 or 7;
// where day of month and day of week are both other than *, either suffices (a
// step such as */2 is other than *). Where clocks are put forward or back there
// are two rules, the ones that cron has on most systems:
//
//   - With fixed minute and hour, each day's times happen once. One that is
//     skipped happens at the instant that the clock jumps to; several that are
//     skipped happen then together, as one check. One that comes twice happens
//     the first time.
//   - With * in minute or hour, the check is to happen whenever the clock reads
//     so: not at times that are skipped, and twice at times that come twice.
//
// # The decision
//
// The next check is due at
//
//	max(cadence, what the upstream asked for, backoff of failures)
//
// and Decide says which of them it was: the Rule constants.
package cadence
