// Package s3 has the store of files in a bucket of an S3-compatible service. Only the program imports
// it: other users of rounds need not have its dependencies.
//
// # Put
//
// A file of at most 5 MiB takes one request. Put reads it into memory and stores it under its name, and the
// service does that completely or not at all. A larger file becomes a multipart upload under a temporary name,
// in parts of 5 MiB, one after the other, because its name is known only at its end. Then the service copies
// it to its name, and the temporary object is removed. So a Put needs 5 MiB of memory, and an object has
// at most 5 GiB, the most that S3 copies in one request.
//
// # Faults
//
// A failed request is repeated a few times, if that may help. If nobody knows whether it was carried out, as
// after a cut connection, the object is looked up. Tidy removes uploads and temporary objects of
// killed processes. Some services remove such uploads themselves.
//
// The bucket should not have versioning: it would retain removed objects as older versions.
package s3
