// Package s3test runs the suite of all stores of files on a bucket of a real S3 server, versitygw, which stores
// objects as files. The server is a tool of this module, and package versitygw starts it. A proxy in front of it
// drops requests, loses answers and cuts them off. It takes some 90 s of processor to compile the server for the
// first time, so the tests run by night, with the build tag night.
package s3test
