// Package message reads found messages for the API and the command line.
//
// A Reader pages through the streams of all shards from a Position, or follows them with a
// Tail. It lists consumer groups, and reads rounds of messages for a remote consumer of a
// group (ReadGroup). It lists, replays and drops dead letters. It lists, retries and enables
// webhook endpoints.
//
// The package delivers nothing by itself; package poller/delivery has the consumers
// within a process. Package circulate specifies streams, groups and leases of shards.
package message
