// Package s3test runs the suite of all stores of files on a bucket. By day the server is gofakes3, which is small
// and stores objects in memory. By night, with the build tag night, it is versitygw, a real one that stores objects
// as files, and that takes some 90 s of processor to compile for the first time. Then a proxy drops requests, loses
// answers and cuts them off. versitygw is a tool of this module, and package versitygw starts it.
package s3test
