// Package history stores figures of a namespace over time, for charts: how many checks a
// second, how late, how many accounts in each place, how much memory. The monitor on duty
// adds a sample every ten seconds. [Keeper] retains the samples of a day, and their means
// and extremes over two minutes for a month. Both take at most 2 MiB of Redis. [Reader]
// reads them in any process.
//
// An unknown figure is missing. It is never shown as zero. All times are by Redis' clock.
// Samples of one time do not add up: the later one counts. So a clock that went back, or
// a second monitor, may replace samples but never doubles them.
//
// Programs of different versions may read and write the same samples. New figures only
// come at the end of a stored sample. A program reads the figures that it knows, and the
// others are missing.
package history
