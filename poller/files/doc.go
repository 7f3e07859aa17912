// Package files stores the bytes of files that messages carry: images, voices, attachments.
//
// A Store holds objects. Directory is a store in a directory, and package s3 has one in a bucket. A store only
// writes, reads and removes bytes. Its callers decide what an object belongs to and how long it is retained.
//
// # Objects
//
// An object is complete or it is not there. Put writes under a temporary name first, and the object
// gets its name after its last byte is safe. A name begins with the SHA-256 of the bytes and ends
// with 128 random bits, as in
//
//	9f/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08-2k7c…
//
// No name is ever used twice. So a late Remove, by a process that was thought dead, removes no other
// object. Equal bytes may be stored several times, under several names. The caller knows which of them it
// needs.
//
// # Leftovers
//
// A process that is killed within Put leaves a temporary file, which List does not show and Tidy
// removes, or a complete object whose name nobody has learned. The latter also happens if the reply of a service is
// lost and the object cannot be looked up. Whoever compares List with the names in use finds such objects.
package files
