// Package poller is a replica. It claims due accounts, checks them with their checkers, and
// returns them with the messages that were found, until it is stopped.
//
// One step of the ring writes the messages of a check together with the cursor and the
// account's next place, or nothing at all. A replica that dies, hangs or is cut off loses
// only time: the monitors requeue the accounts that it held, and its late writes are fenced.
//
// A Checker knows one third party. A Pool knows none: it handles time-outs, panics, pages,
// batches and shutdown. It joins three types: claimer claims due accounts, flights are the
// checks under way, and writer writes what they found.
package poller
