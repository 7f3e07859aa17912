// Package delivery is the other half of finding messages: consumers that read
// the streams of a ring as one group, in any number of replicas, hand each
// message to a handler in the order of its account, and acknowledge it once the
// handler has done its part. What a dead consumer left is taken over, what cannot
// be handled ends in a dead-letter stream with its error.
//
// A message is delivered at least once: a consumer may die after its handler did
// its part and before the acknowledgement. To apply it effectively once, let the
// effect and the acknowledgement, or the effect and a record of the message, be
// one step: see [Effect] for Redis and package sqlonce for SQL.
package delivery
