// Package sqlonce applies found messages to an SQL database effectively once: the
// effect of a message and a record of it are committed in one transaction, so
// that a message which is delivered again is known by its record and skipped.
//
// # How
//
// [Handler] is a delivery.Handler. It inserts the identities of a batch of
// messages, ON CONFLICT DO NOTHING, and calls the function for those that were
// not there, in the same transaction. What was there is acknowledged and skipped.
// The transaction is committed before anything of it is acknowledged:
//
//	consumer stops before the commit     nothing is applied, all is delivered again
//	consumer stops after the commit      delivered again, skipped by the record
//	commit refused                       rolled back, tried again in smaller parts
//	outcome of the commit unknown        not acknowledged; when it is delivered
//	                                     again the record tells what happened
//
// # Identity
//
// A message is known by its consumer group, its account and the message id that
// the third party gave it, not by its position in the stream: a failover of Redis
// may roll a stream back, and a message that is found again after that has the
// same id at another position. A message without id has nothing but its position
// and content, and is applied twice if it is found again so. Two rings that
// write to one database need a table each, for their groups and accounts may have
// the same names.
//
// An account that was deregistered and registered again under its id is the same
// account here: what it finds under message ids that it had before is skipped, until
// their records are pruned, after 14 days by default. Give another thing another id,
// or delete the records of the account first: "DELETE FROM rounds_applied WHERE
// account = …", with the table's name.
//
// # Order, poison
//
// Messages of an account are applied in order; behind one that failed they answer
// delivery.ErrHeld. When a transaction of several messages fails, it is repeated
// in parts, so that a message that cannot be applied ends up in a transaction of
// its own and harms no other; from its third delivery on every message has one of
// its own. There are no savepoints: they cost a round trip for each message that
// goes well, and hold neither a deferred constraint nor a statement that costs the
// connection. While the database is away no message is to blame: all answer
// delivery.Later, which does not count as a failed delivery.
//
// # The function
//
// It may be called several times for a message, and the effects of all calls but
// one are rolled back. So all that it does must be in tx: what it does elsewhere,
// a request to another server or a statement outside of tx, is not undone, and a
// statement outside of tx may wait for tx for ever. It must return the errors of
// its statements, and must neither commit nor roll back tx: a commit in the midst
// of a batch would commit the records of messages that are not applied yet.
//
// # Durability
//
// An acknowledged message is as durable as a commit. With synchronous_commit=off
// in PostgreSQL, or synchronous=NORMAL or OFF in SQLite, a crash of the machine
// takes back commits that were acknowledged, and their messages are lost.
//
// # PostgreSQL
//
// Version 11 or newer, with UTF8 as the database's encoding. Of two transactions
// with the same message the second waits for the first and then skips the message,
// or applies it if the first was rolled back. That is so in READ COMMITTED, the
// default; in REPEATABLE READ and SERIALIZABLE the second fails (40001) and is
// repeated. So are deadlocks (40P01) and lock time-outs (55P03), for at most
// Options.ConflictWait in each call of Handle.
//
// # SQLite
//
// Version 3.38 or newer. There is one writer at a time. The first statement of
// each transaction writes, which locks as BEGIN IMMEDIATE does: no transaction can
// fail half way because another wrote after it had read. SQLITE_BUSY is waited for
// as busy_timeout says, 0 unless the data source name sets it, and then for up to
// Options.ConflictWait. Set journal_mode=WAL, so that readers do not block the
// commit, and a busy_timeout of some seconds, which waits more fairly:
//
//	file:rounds.db?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)
//
// # Pruning
//
// Records are kept until [Handler.Prune] removes them. A message whose record is
// gone is applied again if it is delivered again. The rule: keep records longer
// than a message can still come, which is the age of the oldest entry that the
// streams may hold (their retention, and more while a lagging group holds them
// back), and beside it the age of the oldest state that Redis may be set back to
// by a failover or a restored backup, because what it forgot is found again.
// Twice the retention, 14 days by default, covers both where backups are not
// older than the retention.
package sqlonce
