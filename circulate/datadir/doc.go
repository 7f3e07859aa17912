// Package datadir saves the data of an embedded server in a directory, so that after the
// end of a process, however it came, the next process begins where that one was.
//
// The directory has these files:
//
//	data.zst                  the newest image of the server, packed
//	data.previous.zst         the image before it
//	data.new.zst              an image being written
//	data.log.NUMBER           segments of the log: the changes, in order
//	data.damaged-TIME…        an unreadable file, set aside
//	lock, lock.json           locked by the process that uses the directory, and its description
//
// A change is in the log before anybody learns of it: the server replies only after the
// record has been written, so a killed process loses no acknowledged change. The log is
// synced twice a second, and at once for WAITAOF, so a power failure loses at most the
// changes since then. Only keys that change with time alone are written later: with the
// next record, or within five minutes.
//
// A record has a moment and the commands that changed something then, including those
// within scripts; package connect has the details. So repeating the commands needs no
// script and no clock, and a later program does the same with them. Tests compare, key by
// key, a killed server with one that was filled from its log, after everything that the
// tests of the ring do.
//
// An image takes the place of the log when the log is half as long and Options.Within has
// passed, or at once when the log is long. So the amount written is in proportion to the
// changes, and the next process has a bounded amount to repeat. An image names the
// segment that follows it: a new segment begins at the moment of each image. The image is
// written beside the newest one and synced. Then the newest is renamed to the previous
// one, the new image to the newest, and the directory is synced. The previous image keeps
// its segments, so nothing is lost if the newest is damaged. If a process ended while it
// wrote to a segment, the unfinished end is cut off. A wrong record with others behind it
// is damage: the records before it are used, and the damage is reported.
//
// If the log cannot be written or synced, nothing is acknowledged: commands that write
// are refused as a Redis refuses them (MISCONF), commands that read are not, and the
// client of the failed command is cut off. The memory may then have changes that the log
// lacks, so only a new image ends this state. Run tries until there is one. A number is
// left out before the next segment, so that the earlier segments do not seem to lead to
// it.
//
// An image of a program without a log is used as it is. Such a program refuses a
// directory that has a log, because the format of its images is later.
//
// The cost of an image is in proportion to the data, except that messages are encoded
// only once. With 10,000 accounts and 100,000 messages the server stands still for 21 ms,
// and an image takes 60 ms of a processor and writes 1.4 MB. For much more data images
// take at most a twentieth of the time, and State says that an embedded server is not the
// place for so much.
//
// A directory that others own or may write is refused. Files are created anew, and links
// are not followed.
//
// The lock is the operating system's: it ends with its process.
//
// # The image
//
// An image is exact. It has every key of the server, also those of other programs, with its time to
// live, and for each stream also its last id, its groups, their consumers and the pending
// entries. So a server filled from an image goes on like one that was stopped at that
// moment: claimed accounts are claimed, and void tickets are void.
//
// A backup is a second format of everything, and has to be. It knows what the keys mean, so
// that it can fill any Redis and any number of shards, is taken in small steps from a service
// that runs, and leaves out claims, limits, sessions and timelines. An image is of one moment
// and leaves out nothing, since a service without a Redis goes on from it. It knows no keys, so
// a new key needs no change here. Reading a backup of 10,000 accounts means registering each;
// reading an image means filling maps. What both share is the shape of a file: lines of JSON
// between a header and an end with counts and a checksum.
//
// An image has no scripts, which callers send again, no subscriptions, and no idle times
// of consumers. It leaves out pending entries of messages that no longer exist.
//
// All commands of the server stop while an image is taken, and only then: it is encoded
// afterwards. The entries of streams never change, so a Taker retains them, packed, from
// one image to the next, and the server stands still for the new ones alone.
//
// An image is written as lines of JSON, as a backup is: a header, each key, and an end
// with counts. A large key continues in further lines. If a string of a line is not
// UTF-8, all strings of that line are in base64. The lines are packed as frames of zstd.
// The SHA-256 of all frames follows in a frame that readers of zstd skip: zstdcat shows
// the lines.
package datadir
