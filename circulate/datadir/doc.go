// Package datadir keeps what an embedded server holds in a directory, so that a process that
// ends, in whatever way, begins again where it was.
//
// The directory has these files:
//
//	data.zst                  the newest image of the server (package image), packed
//	data.previous.zst         the one before it
//	data.new.zst              one that is being written
//	data.damaged-TIME.zst     one that could not be read, set aside
//	lock, lock.json           held by the process that uses the directory, and what it is
//
// An image is saved soon after a change, and when the process ends. It is written beside the
// newest, synced, and renamed after the newest was renamed to the previous one; then the
// directory is synced. So at any moment one of the three is complete, and Open finds it: a
// process that is killed loses at most what is younger than the time within which it saves.
// A disk that is full or read-only harms nothing that is saved. State tells it, and the next
// save that succeeds ends it.
//
// Images of everything, and not a log of commands: scripts read clocks and change many keys,
// so a log of what they were called with would not lead to the same state, and the embedded
// server does not tell what they wrote. An image costs in proportion to what is kept, but for
// messages, which are encoded once. With 10,000 accounts and 100,000 messages the server stands
// still for 21 ms, and a save takes 60 ms of a processor and writes 1.4 MB. Up to [Ample]
// changes are saved in time. Beyond it saving takes a twentieth of the time, and State says that
// an embedded server is not the place for so much.
//
// The lock is the operating system's: it ends with its process.
package datadir
