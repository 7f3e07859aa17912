// Package trail records who changed what: every change that somebody ordered, with the time, the
// principal, the address, its subject and its outcome.
//
// The API begins a Draft for each order and stores its Entry once the order was carried out or
// refused. The code that carries it out finds the draft in the context, with Of, and adds what the
// API's edge does not know: which account, which fields, how many.
//
// An entry names fields of a record and never their values, which may be secrets. It is
// always written to the log, and also to the namespace's journal, which is capped. It is
// written after the change and cannot undo it. If Redis does not accept the entry, only the
// log has it, and a metric counts it.
package trail
