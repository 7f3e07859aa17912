// Package message reads found messages from outside the service: it is what the API and the
// command line show of them.
//
// A Reader pages through the streams of all shards from a Position, or follows them with a
// Tail. It also lists consumer groups, gives a remote consumer of a group its rounds of
// messages (ReadGroup), and lists, replays and drops dead letters and the webhook endpoints
// that gave up.
//
// It delivers nothing by itself: consumers in this process are package poller/delivery. What
// a stream and a group are, and how a shard is leased, is the protocol of package circulate.
package message
