// Package backup writes everything that a namespace has to a file, and restores it from one.
//
// A backup is lines of JSON: a header, the consumer groups, the accounts, the dead letters, the
// messages, the API's keys, the disabled webhook endpoints, perhaps secrets and credentials, the
// list of files without their bytes, the maintenance windows, what people have said about concerns, saved views,
// the endpoints that were added while the service ran, and a trailer with counts and a checksum. It is taken in small
// steps from a running service, so it shows no single moment. Its order is what makes it consistent: groups are read before accounts,
// and accounts and dead letters before messages. So a cursor of the backup is never ahead of the
// messages in it. Messages that were found after the cursor was read are found again, under the
// same account and message id, and no message is missed. A dead letter that is replayed meanwhile
// is among the dead letters, among the messages, or both. A group may get again what it has
// acknowledged, and recognises it by account and message id.
//
// Each account is as it was at one moment. An account that was waiting or being checked is due at
// once when it is restored. An account that was registered or deregistered meanwhile may be in the
// file or not.
//
// A backup is restored into a namespace without keys, of any number of shards. The whole file is
// verified before anything is written. Until everything is written, the namespace is marked as
// incomplete, and programs refuse to work with it.
//
// Nothing in a backup gives its reader access. Of the API's keys it has only digests. It has
// secrets and credentials only if asked for: secrets as they are sealed in Redis, and credentials
// sealed by the same key. The checksum finds damage, but no forgery: anybody who can write to the
// file decides what is restored.
//
// A backup leaves out which replicas run, the state of limits and pauses, hints of nudges,
// timelines, samples, summaries, sessions and the trail. The guide's page on backups has a table.
package backup
