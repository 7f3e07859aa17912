// Package history keeps figures of a namespace over time, for charts: how many checks a
// second, how late, how many accounts in each place, how much memory. The monitor on duty
// adds a sample every ten seconds. [Keeper] keeps those of a day, and for every two minutes
// of a month their means and extremes. Both take at most 2 MiB of Redis. [Reader] reads
// them in any process.
//
// A figure that was not known is missing. It is never shown as zero. All times are by Redis'
// clock. Samples of one time do not add up: the one that was added later counts. So a
// clock that went back, or a second monitor, may replace samples but never doubles them.
//
// Programs of different versions may read and write the same samples. New figures only come
// at the end of what is stored. A program reads those that it knows, and the others are
// missing.
package history
