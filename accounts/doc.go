// Package accounts registers the accounts that are checked, judges their records, and tells
// operators where each account is and why.
//
// An Account is a thing to check, as somebody registered it: an id, a kind, the kind's config,
// a cadence, and labels. Its record is that as JSON. A View is an account and the place where
// it is. An Explanation says when an account is checked next and which rule decided that. A
// Selector selects accounts, a Bulk does one action to all of them, and a Revival brings
// parked ones back at a rate. A Registry does all of this for one ring. A record or request
// that is not valid is answered with Faults: all of them at once, each with its field.
//
// These packages lie below it:
//
//   - access: roles and principals, who may do what
//   - cadence: when an account is checked next, and what follows a failure
//   - concern: what is wrong with the service now, in codes and sentences
//   - history: figures over time, for charts
//   - problem: the accounts that fail or are parked, summed up by cause
//   - secret: names of secrets, where they may go, and sealed values
//   - strict: JSON read strictly, every fault at once
//   - trial: checks by hand, whose results are not stored
//
// Package api in cmd/rounds offers a Registry over HTTP.
//
// The package checks no account: replicas do, in package poller. It stores nothing
// either: package circulate has the places of accounts and the steps between them. It
// knows no kind: Kinds judges their configs.
package accounts
