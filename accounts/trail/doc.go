// Package trail keeps who changed what: every change that somebody ordered, with the time,
// the principal, the address, what it was about and what came of it.
//
// The edge that takes orders begins a Draft for each one and keeps its Entry once the order
// was carried out or refused. What carries it out finds the draft in the context, with Of,
// and adds what the edge cannot know: which account, which fields, how many.
//
// An entry names fields of a record and never their values, which may be secrets. It goes to
// the log in any case, and into the namespace's journal, which is capped. That comes after
// the change and cannot undo it: where Redis does not take the entry, it stands in the log
// alone, and a metric counts it.
package trail
