// Package accounts is who is checked: it registers accounts, judges their records, and tells
// operators where each account is and why.
//
// An Account is a thing to check, as somebody registered it: an id, a kind, the kind's config,
// a cadence, and labels. Its record is that as JSON. A View is an account and where it is, and
// an Explanation says when it is checked next and which rule decided that. A Selector says
// which accounts are meant, a Bulk does one thing to all of them, a Revival brings parked ones
// back at a rate. Registry is all of these for one ring. What is wrong with a record or a
// request is told as Faults, all at once, each with its field.
//
// Beside it lie
//
//   - cadence: when an account is checked next, and what follows a failure
//   - message: found messages, consumer groups and dead letters, read from outside
//   - callback: third parties that call us when there is something new
//   - strict: JSON read strictly, every fault at once
//   - cursor: sealed cursors that callers carry from call to call
//   - api: all of that over HTTP
//
// The package checks nothing: replicas do, in package poller. It keeps nothing either: what an
// account's places are, and the steps between them, is the protocol of package circulate. It
// knows no kind; what a kind's config must be, Kinds says.
package accounts
