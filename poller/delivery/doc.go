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
//
// # How the consumers of a group share its shards
//
// Each shard is read by one consumer at a time, the one that rendezvous hashing of
// the living ones prefers, under a lease with a fencing token. A consumer that
// ends returns its leases, and its peers have them within about a second. One
// that dies, or is silent for TakeOver, loses them; whoever gets a shard first
// delivers all that is pending there, in its order, and then removes the names of
// the shard's former readers from the group. Reading, taking over and giving up
// are scripts that look at the token first: so a consumer that was only frozen
// cannot read on behind its successor's back, and messages of an account are
// handed over in one order whoever has them. Not guaranteed: that the handler of
// a consumer that lost a shard has stopped before its successor's begins. Its
// context is done by then, if its process runs at all.
//
// # Handlers that hang
//
// A handler that does not return soon after its context is done keeps its slot. Until it
// returns, its consumer leaves the shard to its peers, which get it when the lease ends, after
// TakeOver. If a handler hangs in each of them, or the consumer has no peers, one of them reads
// the shard again, so that a message that hangs every handler ends as a dead letter. A consumer
// without a free slot returns all its shards and leaves the group until a handler returns.
//
// # Failed messages
//
// A message whose handler fails is delivered again after a while. The later messages of its
// account wait behind it. Other accounts do not wait, until HeldMax messages of the shard do.
// After a failed delivery a message waits 1 s, and after each further one four times as long, up
// to 10 min, minus a random part of up to a half. After 8 failed deliveries it is a dead letter,
// and its account goes on. The fields Backoff and MaxDeliveries of a [Consumer] change that.
// [Later] does not count. Through a [Control] others see waiting messages and order a retry.
//
// If a handler panics, the messages of its batch are delivered again one by one, so that only
// the guilty one is blamed. A message that was delivered before by consumers that then died is
// delivered alone, one at a time in a process. If that happened too often, it becomes a dead
// letter without another delivery.
//
// # Waiting
//
// Consumers do not poll. One XREAD waits for all shards of a Redis node, for at most
// a second, on behalf of all groups that the process reads, however many; each
// session of the shard that has something reads it then. So do their leases go on:
// those of a shard are renewed in one step, every third of TakeOver, which also
// tells a session of what it was not woken for.
package delivery
