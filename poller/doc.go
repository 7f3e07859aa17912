// Package poller is a replica: it claims accounts that are due, has their
// checkers check them, and returns them with what was found, for ever.
//
// What a check finds is written by one step of the ring, together with the
// cursor and the account's next place, or not at all. A replica that dies, hangs
// or is cut off loses nothing but time: the monitors requeue what it held, and
// what it writes late is fenced.
//
// A Checker knows one third party. A Pool knows none: it brings time-outs,
// panics, pages, batches and shutdown. It joins three types: claimer claims what is due,
// flights are the checks under way, and writer writes what they found.
package poller
