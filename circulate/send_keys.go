package circulate

import "github.com/rounds-dev/rounds/circulate/internal/wire"

// outboxKeys are the keys of a shard's sends, and its messages, to which events are
// written. In a shard without sends and windows, and without a group that asks for events,
// there is none of the others. sends.lua says what they hold, in this order.
type outboxKeys struct {
	sends    string // HASH  id -> the send's record
	line     string // ZSET  account NUL peer NUL place, id; score 0: what is queued or under an attempt, by peer
	due      string // ZSET  kind TAB stamp, account NUL peer; score 0: whose first send may be attempted from then on
	index    string // ZSET  group, account NUL when, id; score 0: all sends by account, idempotency keys, windows; t, group, when, id: all sends by time
	ends     string // ZSET  id, or key, window or withdrawn step -> when it ends by itself, unix ms
	names    string // HASH  how else a send is known -> its id; e -> the groups that ask for events, with spaces between
	windows  string // HASH  account NUL peer -> until|left|since|token
	messages string // STREAM  the shard's
}

func newOutboxKeys(tag string) outboxKeys {
	return outboxKeys{
		sends:    tag + "sends",
		line:     tag + "sends:line",
		due:      tag + "sends:due",
		index:    tag + "sends:index",
		ends:     tag + "sends:ends",
		names:    tag + "sends:names",
		windows:  tag + "windows",
		messages: tag + "messages",
	}
}

// all returns the keys of sends alone.
func (o *outboxKeys) all() []wire.Key {
	return []wire.Key{
		{o.sends, "hash"}, {o.line, "zset"}, {o.due, "zset"}, {o.index, "zset"}, {o.ends, "zset"}, {o.names, "hash"},
		{o.windows, "hash"},
	}
}

// with returns the keys as scripts take them, and more behind them.
func (o *outboxKeys) with(more ...string) []string {
	return append([]string{o.sends, o.line, o.due, o.index, o.ends, o.names, o.windows, o.messages}, more...)
}
