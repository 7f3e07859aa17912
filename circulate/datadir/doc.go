// Package datadir keeps what an embedded server holds in a directory, so that a process that
// ends, in whatever way, begins again where it was.
//
// The directory has these files:
//
//	data.zst                  the newest image of the server, packed
//	data.previous.zst         the one before it
//	data.new.zst              one that is being written
//	data.log.NUMBER           segments of the log: what changed, in order
//	data.damaged-TIME…        a file that could not be read, set aside
//	lock, lock.json           held by the process that uses the directory, and what it is
//
// What changes is in the log before anybody learns of it: a reply is released once its record
// was written, so a process that is killed loses nothing that it acknowledged. The log is synced
// twice a second, and at once for WAITAOF, so a power failure loses what is younger than that.
// Only keys that change with time alone are written later: with the next record, or within five
// minutes.
//
// A record has the moment, and the commands that changed something at it, those within scripts
// too: package connect says which. So what is done again needs no script and no clock, and a
// later program does the same with it. Tests compare a server that was filled so with the one
// that was killed, key by key, after everything that the tests of the ring do.
//
// An image takes the place of the log when the log is half as long and Options.Within has
// passed, or at once when it is long. So what is written is in proportion to what changes, and
// what the next process does again is bounded. An image names the segment that follows it: a new
// one begins at the moment of each image. It is written beside the newest, synced, and renamed
// after the newest was renamed to the previous one; then the directory is synced. The previous
// one keeps its segments, so if the newest is damaged nothing is lost. The end of a segment that
// was being written when a process ended is cut off. A record that is wrong before others is
// damage: what is before it is used, and everybody is told.
//
// If the log cannot be written or synced, nothing is acknowledged: commands that write are
// refused as a Redis refuses them (MISCONF), those that read are not, and whoever waited for the
// one that failed is cut off. What is in memory may then have what is not in the log, so only
// a new image ends it. Run tries until there is one. A number is left out before its segment, so
// that the segments before it do not seem to lead to it.
//
// An image of a program without a log is taken as it is. Such a program refuses a directory
// that has a log, because the format of its images is a later one.
//
// An image costs in proportion to what is kept, but for messages, which are encoded once. With
// 10,000 accounts and 100,000 messages the server stands still for 21 ms, and an image takes
// 60 ms of a processor and writes 1.4 MB. Beyond ample images take at most a twentieth of
// the time, and State says that an embedded server is not the place for so much.
//
// A directory that others own or may write is refused. Files are created anew, and no link is
// followed.
//
// The lock is the operating system's: it ends with its process.
//
// # The image
//
// An image is exact: every key of the server, whoever made it, with its time to live, and of
// each stream also its last id, its groups, their consumers and what is pending. So a server
// that is filled from an image goes on as one that was stopped at that moment: what was claimed
// is claimed, and a ticket that was void is void. Package backup, in contrast, knows what the
// keys mean, and so can fill any Redis and any number of shards.
//
// Not in it are scripts, which callers send again, subscriptions, and for how long a
// consumer has been idle. What is pending of messages that no longer exist is left out.
//
// All commands of the server stop while an image is taken, and only then: it is encoded
// afterwards. The entries of streams never change, so a Taker keeps them, packed, from one image
// to the next, and the server stands still for the new ones alone.
//
// An image is written as lines of JSON, as a backup is: a header, each key, and an end with
// counts. A key with much in it goes on in further lines. A line whose strings are not all UTF-8
// has all of them in base64. The lines are packed as frames of zstd, and the SHA-256 of all
// frames follows in one that readers of zstd pass over: zstdcat shows the lines.
package datadir
