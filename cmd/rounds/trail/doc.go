// Package trail records who changed what: every change that somebody ordered, with the time, the
// principal, the address, its subject and its outcome.
//
// The API begins a Draft for each order and stores its Entry once the order was carried out or
// refused. The code that carries it out finds the draft in the context, with Of, and adds what the
// API's edge does not know: which account, which fields, how many.
//
// An entry names the fields of a record that were changed. The entry of a change of one account also
// has the record before it and the values after it, so that somebody can have it back, unless they
// are too long; [Trail.Version] returns it. A record refers to secrets and has no values of them. The
// log has no values at all. An entry is
// always written to the log, and also to the namespace's journal, which is capped. It is
// written after the change and cannot undo it. If Redis does not accept the entry, only the
// log has it, and a metric counts it.
package trail
