package wire

import "time"

// Stream is the keys of a shard that concern its messages.
type Stream struct {
	Messages string    // STREAM
	Dead     string    // STREAM  messages that a consumer group could not handle
	Leases   string    // HASH  consumer group -> token|expiry|consumer
	Tickets  [2]string // STRINGs  the sequence of tokens, and its mark
}

// Applied returns the key of the messages of a shard that a group's effects remember: a
// ZSET, account NUL message id -> until when, unix ms.
func (s Stream) Applied(group string) string { return s.Messages + ":applied:" + group }

// AppendMessage appends a message as scripts take it: id, type, time in RFC 3339 (empty =
// unknown), data.
func AppendMessage(args []any, id, kind string, at time.Time, data []byte) []any {
	when := ""
	if !at.IsZero() {
		when = at.UTC().Format(time.RFC3339Nano)
	}
	return append(args, id, kind, when, data)
}
