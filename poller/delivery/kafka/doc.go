// Package kafka stores messages as records of a topic of Apache Kafka, or of what speaks its protocol.
// It is the type kafka of endpoints.
//
// # Records
//
// The key of a record is the account's id, so all records of an account are in one partition, in order.
// Its value is the payload that package sink describes. The header id has the key by which a receiver
// recognises a message, and content-type the media type. The record's time is when it was written, and
// not when the message was, because retention goes by it.
//
// # What is acknowledged
//
// A message is acknowledged when all replicas in sync have its record (acks=all), by an idempotent
// producer: what the client sends again after a broken connection is stored once. A record whose
// outcome is unknown stays in the client, and its message waits. When the message is delivered again
// to the same process, it waits for that record, and makes no second one.
//
// So a record may be there twice only if a process dies, loses its shard, or ends without an answer
// between the record and the acknowledgement: the next process knows nothing of it. Both have the same
// header id.
//
// # Positions
//
// With the field positions, records are written in transactions, one for each batch of a shard, and a
// transaction also has the position that follows: for each account the ids of its last messages (those
// of its last transaction, and at least 16), as records of another topic, which is compacted. The
// producer's transactional id is rounds.NAMESPACE.ENDPOINT.SHARD, so a process that has lost the shard
// is refused. Before a process writes for a shard, the brokers complete or abort what was begun, and it
// reads the positions; what they have is not written again. So a record is there once for consumers
// that read what is committed (isolation.level=read_committed), whatever dies when.
//
// The positions of a shard are in the partition with its number, modulo their number. A position whose
// topic is gone, or whose retention has ended, doubles what is delivered again.
//
// While the brokers are away, refuse the login, or do not have the topic, messages wait. A message that
// is larger than the endpoint's max_bytes is a dead letter at once.
package kafka
