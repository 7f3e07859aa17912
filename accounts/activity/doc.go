// Package activity adds up what checks did, by kind, host, label, account and shard, for charts of
// the latest 30 days. In package history are the figures of the whole service, in finer steps.
//
// Each poller counts in a [Tally]. Once a minute it adds what it counted to the sheets of the
// minute, of the ten minutes and of the two hours, in one step that all pollers of a namespace
// share ([Keeper]). Sheets of minutes are stored for three hours, those of ten minutes for two
// days, and those of two hours for 30 days. [Reader] reads them in any process. All times are by
// Redis' clock.
//
// # Bounds
//
// A sheet has at most document.MaxPeriod bytes and there are 828 of them, so Redis stores less than
// 12 MiB, whatever the number of accounts. Sums of everything, of kinds and of shards are exact. Of
// hosts, labels and accounts a sheet has only the foremost: hosts and labels with the most checks,
// where one that fails counts as ten, the noisiest accounts, which found the most messages, and the
// slowest, by their longest check.
//
// A poller counts hosts, labels and noisy accounts in tables of bounded size, by the algorithm of
// Anderson and others, "A High-Performance Algorithm for Identifying Frequent Items in Data Streams"
// (2017): when a table is full, every entry loses the median of all ranks, and those that have
// nothing left go. So a poller never misses a name that has more than a 256th of a minute's sum.
// Figures of a name are counted while it is in a table: they are never too great, and exact unless
// the table overflows. The slowest accounts of a minute are always exact.
//
// A poller that ends without notice, or does not reach Redis for a minute, loses what it has not
// added yet. Programs of different versions may add to the same sheets. Each skips the parts of a
// sheet that it does not know, and loses them when it writes the sheet.
package activity
