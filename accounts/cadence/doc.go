// Package cadence decides when an account is due next. Its functions are pure: they depend
// only on the account's cadence, the state that earlier checks left, the outcome of this
// check, and the time by Redis' clock. The package reads no clock and stores no state.
//
// # The cadences
//
//	every 1m                              an interval; "every 0" means again at once
//	adaptive 10s..15m                     an interval between two bounds that depends on what checks find
//	adaptive                              the same with these bounds
//	cron 0 9 * * MON-FRI Asia/Shanghai    minute, hour, day of month, month, day of week, IANA zone (UTC if left out)
//	cron 0 9 * * * ~5m                    the same, each account up to five minutes later, by its id
//	at 2026-12-01T09:00:00+08:00          once, at an RFC 3339 time
//
// An account with an interval has a phase: the hash of its id modulo the interval. Its slots
// are the times that equal the phase modulo the interval. So slots stay the same after a
// restart, and accounts that were registered together are spread.
//
// A check that finds something halves an adaptive interval I. A check that finds nothing
// lengthens it by a factor of 2^(1/4). I stays within its bounds, and settles where one check
// in five finds something. The slots are I/2 apart, and an account is due at the last slot
// within I. So it waits for I/2 to I, and for exactly I while I does not change. It never
// waits for less than the lower bound.
//
// # The budget
//
// If adaptive accounts share a [Budget], their intervals T follow from one price P and each
// account's rate r, the messages that it gets in a second: r·T² = P, between the bounds. Messages
// wait for T/2 on average, so the waiting in all is the sum of r·T/2, and the calls the sum of 1/T.
// The waiting is least for a number of calls if one more call would end equally much of it
// everywhere, and that is r·T²/2. (An account's own checks make r·T the same for all. For
// accounts at random that is no better than equal intervals: J. Cho and H. Garcia-Molina, Effective
// page refresh policies for web crawlers, ACM TODS 28(4), 2003.)
//
// [Rate] is learned from what checks find, as a gamma-Poisson estimate that forgets by the messages
// that were expected since. [Steer] keeps the price. The slots of such an account are T/8 apart.
//
// One check makes up for any number of missed slots.
//
// # Cron and the clock
//
// The fields are those of cron: lists, ranges, steps and names. Sunday is 0 or 7. If neither
// day of month nor day of week is *, one of the two must match. (A step such as */2 is not
// *.) Two rules hold when clocks are put forward or back, as for cron on most systems:
//
//   - With fixed minute and hour, each time of a day happens once. A skipped time happens at
//     the instant to which the clock jumps. Several skipped times happen then together, as
//     one check. A time that comes twice happens the first time.
//   - With * in minute or hour, the check happens whenever the clock shows the time: never
//     at skipped times, and twice at times that come twice.
//
// # The decision
//
// The next check is due at
//
//	max(cadence, what the upstream asked for, backoff after failures)
//
// The backoff begins with the account's interval, but at least two seconds and at most half a
// minute, and doubles with each failure in a row, up to an hour or the longest interval. A random
// part of up to a half is taken off. A failure that the account did not cause does not count
// toward it.
//
// Decide also returns which of them it was, as a Rule constant.
package cadence
