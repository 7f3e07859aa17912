// Package sqlonce applies found messages to an SQL database effectively once. It commits the effect
// of a message and a record of it in one transaction. When the message is delivered again, its
// record identifies it, and it is skipped.
//
// # How
//
// [Handler] is a delivery.Handler. In one transaction it inserts the identities of a batch of
// messages, ON CONFLICT DO NOTHING, and calls the function for the new ones. Messages with a
// record are acknowledged and skipped. The transaction is committed before any of its messages is
// acknowledged:
//
//	consumer stops before the commit     nothing is applied, all is delivered again
//	consumer stops after the commit      delivered again, skipped by the record
//	commit refused                       rolled back, tried again in smaller parts
//	outcome of the commit unknown        not acknowledged; when it is delivered
//	                                     again the record tells what happened
//
// # Identity
//
// A message is identified by its consumer group, its account and the third party's message id, and
// not by its position in the stream. A failover of Redis may roll a stream back, and a message that
// is then found again has the same id at another position. A message without an id has only its
// position and content, and is applied twice if it is found again that way. Two rings that write to
// one database need a table each: their groups and accounts may have the same names.
//
// An account that was deregistered and registered again under its id is the same account here.
// Messages with its earlier ids are skipped until their records are pruned, after 14 days by
// default. So give another account a new id, or first delete the old account's records: "DELETE
// FROM rounds_applied WHERE account = …", with the table's name.
//
// # Order and poison
//
// Messages of an account are applied in order. Behind a failed message the others return
// delivery.ErrHeld. A transaction of several messages that fails is repeated in parts, so that a
// message that cannot be applied ends up in its own transaction and harms no other. From its
// third delivery on every message has its own transaction. There are no savepoints: they cost a
// round trip for each successful message, and help neither with a deferred constraint nor with a
// statement that breaks the connection. While the database is away no message is to blame: all
// return delivery.Later, which does not count as a failed delivery.
//
// # The function
//
// It may be called several times for a message, and the effects of all calls but one are rolled
// back. So everything that it does must be in tx. A request to another server, or a statement
// outside tx, is not undone, and a statement outside tx may wait for tx for ever. The function must
// return the errors of its statements. It must neither commit nor roll back tx: a commit in the
// middle of a batch would commit the records of messages that are not applied yet.
//
// # Durability
//
// An acknowledged message is as durable as a commit. With synchronous_commit=off in PostgreSQL,
// or synchronous=NORMAL or OFF in SQLite, a crash of the machine takes back acknowledged commits,
// and their messages are lost.
//
// # PostgreSQL
//
// It needs version 11 or newer, with UTF8 as the database's encoding. If two transactions have
// the same message, the second waits for the first. Then it skips the message, or applies it if
// the first was rolled back. That holds in READ COMMITTED, the default. In REPEATABLE READ and
// SERIALIZABLE the second fails (40001) and is repeated. So are deadlocks (40P01) and lock
// time-outs (55P03), for at most Options.ConflictWait in each call of Handle.
//
// # SQLite
//
// It needs version 3.38 or newer. There is one writer at a time. The first statement of each
// transaction writes, which locks like BEGIN IMMEDIATE: no transaction can fail half way because
// another wrote after it had read. On SQLITE_BUSY it waits for busy_timeout, which is 0 unless the
// data source name sets it, and then for up to Options.ConflictWait. Set journal_mode=WAL, so that
// readers do not block the commit, and a busy_timeout of some seconds, which waits more fairly:
//
//	file:rounds.db?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)
//
// # Pruning
//
// Records stay until [Handler.Prune] removes them. A message whose record is gone is applied again
// if it is delivered again. So retain records for longer than a message can still come. That is the
// age of the oldest entry in the streams: their retention, or more while a lagging group holds them
// back. It is also the age of the oldest state to which a failover or a restored backup may set
// Redis back, because forgotten messages are found again. Twice the retention, 14 days by default,
// covers both if backups are not older than the retention.
package sqlonce
