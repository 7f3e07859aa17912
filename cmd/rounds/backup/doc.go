// Package backup writes everything that a namespace has to a file, and restores it from one.
//
// A backup is lines of JSON: a header, the consumer groups, the accounts, the dead letters,
// the messages, the API's keys, the disabled webhook endpoints, perhaps secrets and
// credentials, and a trailer with counts and a checksum. It is taken in small steps from
// a service that runs, so it is of no single moment. What holds is an order: groups are read
// before accounts, and accounts and dead letters before messages. So a cursor of the backup is never ahead of
// the messages in it: what was found after the cursor was read is found again, under the
// same account and message id, and no message is missed. A dead letter that is
// replayed meanwhile is among the dead letters, among the messages, or both. A group may get again what it has
// acknowledged, and knows it by account and message id.
//
// Each account is as it was at one moment. One that was waiting or being checked is due at
// once when it is restored, and one that came or left meanwhile may be in the file or not.
//
// A backup is restored into a namespace without keys, of any number of shards. All of the
// file is verified before anything is written. Until all is written, the namespace says so,
// and programs refuse to work with it.
//
// Nothing in a backup lets its reader in anywhere. Of the API's keys it has the digests.
// Secrets and credentials are there only if asked for: secrets as they are sealed in Redis,
// credentials sealed by the same key. The checksum finds damage, but no forgery: whoever can
// write to the file decides what is restored.
//
// Left out are: which replicas run, the state of limits and pauses, hints of checks that were
// asked for, timelines, samples, summaries, sessions and the trail. The guide's page on
// backups has a table.
package backup
