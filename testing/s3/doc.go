// Package s3test runs the suite of all stores of files on a bucket of a real S3 server, versitygw, which stores
// objects as files. The server is a tool of this module, compiled for these tests alone. A proxy in front of it
// drops requests, loses answers and cuts them off.
package s3test
