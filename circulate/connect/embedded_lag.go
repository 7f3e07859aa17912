package connect

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/proto"
	"github.com/alicebob/miniredis/v2/server"
)

// lags makes XINFO GROUPS report how many entries each group has not read, as in Redis 7.
// The embedded server reports the stream's length instead.
type lags struct {
	server *server.Server
	own    sync.Map // *server.Peer that asks for us

	mu      sync.Mutex
	counted map[string]map[string]lag // by stream and group, because counting goes through all entries
}

// lag is how many entries a group has not read, for the group's last position and the
// stream's last position and length.
type lag struct {
	last, end string
	length    int
	unread    int
}

// hook answers XINFO GROUPS, also within scripts. It reports whether it has answered the command.
func (l *lags) hook(c *server.Peer, name string, args []string) bool {
	if name != "XINFO" || len(args) != 2 || !strings.EqualFold(args[0], "GROUPS") {
		return false
	}
	stream := args[1]
	text := l.ask(c, "XINFO", "GROUPS", stream)
	reply, err := proto.Parse(text)
	groups, ok := reply.([]any)
	if err != nil || !ok { // an error, or QUEUED
		c.WriteRaw(text)
		return true
	}
	about, _ := proto.Parse(l.ask(c, "XINFO", "STREAM", stream))
	length, _ := field(about, "length").(int)
	end, _ := field(about, "last-generated-id").(string)
	now := make(map[string]lag, len(groups))
	c.WriteLen(len(groups))
	for _, group := range groups {
		name, _ := field(group, "name").(string)
		last, _ := field(group, "last-delivered-id").(string)
		now[name] = l.count(c, stream, name, lag{last: last, end: end, length: length})
		writeGroup(c, group, now[name].unread)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted[stream] = now
	return true
}

// writeGroup writes a group's part of the reply, with another lag.
func writeGroup(c *server.Peer, group any, unread int) {
	values, _ := group.([]any)
	c.WriteMapLen(len(values) / 2)
	for i, value := range values {
		if i%2 == 1 && values[i-1] == "lag" {
			value = unread
		}
		switch value := value.(type) {
		case int:
			c.WriteInt(value)
		case string:
			if value == proto.Nil {
				c.WriteNull()
			} else {
				c.WriteBulk(value)
			}
		}
	}
}

// count completes a lag. It counts anew only if the group or the stream has moved since it last did.
func (l *lags) count(c *server.Peer, stream, group string, now lag) lag {
	l.mu.Lock()
	was := l.counted[stream][group]
	l.mu.Unlock()
	now.unread = was.unread // so that the comparison is one of positions and length
	if was != now {
		var reply arrayLen
		l.do(c, &reply, "XRANGE", stream, "("+now.last, "+")
		now.unread, _ = strconv.Atoi(string(bytes.TrimPrefix(reply, []byte("*"))))
	}
	return now
}

// ask does a command for a client and returns the reply.
func (l *lags) ask(c *server.Peer, command ...string) string {
	var reply bytes.Buffer
	l.do(c, &reply, command...)
	return reply.String()
}

// do does a command for a client or a script.
func (l *lags) do(c *server.Peer, reply io.Writer, command ...string) {
	peer := server.NewPeer(bufio.NewWriter(reply))
	peer.Ctx = c.Ctx
	l.own.Store(peer, nil)
	defer l.own.Delete(peer)
	l.server.Dispatch(peer, command)
	peer.Flush()
}

// arrayLen retains the first line of a reply.
type arrayLen []byte

func (n *arrayLen) Write(p []byte) (int, error) {
	if len(*n) == 0 {
		line, _, _ := bytes.Cut(p, []byte("\r\n"))
		*n = slices.Clone(line)
	}
	return len(p), nil
}

// field returns a field of a map in a reply.
func field(reply any, name string) any {
	values, _ := reply.([]any)
	if i := slices.Index(values, any(name)); i >= 0 && i+1 < len(values) {
		return values[i+1]
	}
	return nil
}
