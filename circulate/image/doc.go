// Package image takes an image of everything that an embedded server holds, at one moment, and
// fills a new server from one.
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
package image
