// Package delivery consumes found messages. Consumers in any number of replicas read the streams of
// a ring as one group. They hand the messages of each account to a handler in order, and
// acknowledge a message once the handler is done with it. They take over the messages of dead
// consumers. A message that cannot be handled ends in a dead-letter stream with its error.
//
// A message is delivered at least once, because a consumer may die after its handler is done and
// before the acknowledgement. To apply a message effectively once, combine the effect with the
// acknowledgement, or with a record of the message, in one step: see [Effect] for Redis and package
// sqlonce for SQL.
//
// # Events
//
// A group that asks for events also learns what becomes of the accounts' sends: see
// [Consumer.Events], and *Events* in package circulate. An event is an entry of the stream like a
// message, but for one group. So everything that is said of messages here holds for events.
//
// # How the consumers of a group share its shards
//
// Each shard is read by one consumer at a time, the living one that rendezvous hashing prefers,
// under a lease with a fencing token. A consumer that ends returns its leases, and its peers get
// them within about a second. A consumer that dies, or is silent for TakeOver, loses its leases.
// The next consumer of a shard first delivers its pending messages, in order, and then removes the
// names of the shard's former readers from the group.
//
// Reading, taking over and returning are scripts that check the token first. A consumer that was
// only frozen therefore cannot read on after its successor began, and the messages of an account
// are handed over in one order. But when a consumer has lost a shard, its handler may still run
// while its successor's begins. The handler's context is done by then, if its process runs at all.
//
// # Handlers that hang
//
// A handler that does not return soon after its context is done keeps its slot. Until it returns,
// its consumer leaves the shard to its peers, which get it when the lease ends, after TakeOver. If
// a handler hangs in each consumer, or if there are no peers, one consumer reads the shard again,
// so that a message that hangs every handler ends as a dead letter. A consumer without a free slot
// returns all its shards and leaves the group until a handler returns.
//
// # Failed messages
//
// A message whose handler fails is delivered again after a while. The later messages of its account
// wait behind it. Other accounts do not wait, until HeldMax messages of the shard do. After a
// failed delivery a message waits 1 s, and after each further one four times as long, up to 10 min,
// minus a random part of up to a half. After 8 failed deliveries it is a dead letter, and its
// account goes on. The fields Backoff and MaxDeliveries of a [Consumer] change that. [Later] does
// not count as a failed delivery. If it names a target, all shards with messages for the target
// wait, and one message of the process finds out when the target is back. Through a [Control]
// others see waiting messages and order a retry.
//
// If a handler panics, the messages of its batch are delivered again one by one, so that only the
// guilty one is blamed. If consumers died after a message was delivered to them, it is delivered
// alone, one such message at a time in a process. If that happens too often, the message becomes a
// dead letter without another delivery.
//
// # Waiting
//
// Consumers do not poll. One XREAD waits for all shards of a Redis node, for at most a second,
// on behalf of all groups that the process reads. Then each session of a shard with messages
// reads them. Leases are shared the same way: one step renews all leases of a shard every third
// of TakeOver, and also reports messages for which a session was not woken.
package delivery
