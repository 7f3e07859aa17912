package connect

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// unfit returns why a command cannot be kept; empty: it can.
func unfit(name string, args []string) string {
	other := name == "SELECT" && len(args) > 0 && strings.Trim(args[0], "0") != ""
	if other || slices.Contains(unkept, name) {
		return "ERR " + name + " cannot be kept in a data directory"
	}
	return ""
}

// Commands in capital letters.
var (
	// asTheyAre are done by the client itself: they change what is known of it, and no key.
	asTheyAre = []string{"SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "AUTH", "HELLO", "CLIENT", "QUIT"}
	// harmless change no key, although the server does not call them read-only.
	harmless = append([]string{
		"CLUSTER", "ECHO", "PING", "SELECT", "WAIT", "OBJECT", "PUBLISH", "PUBSUB", "EVAL", "EVALSHA", "SCRIPT", "COMMAND",
		"INFO", "TIME", "MEMORY", "XINFO", "DISCARD", "EXEC", "MULTI", "UNWATCH", "WATCH", lookCommand,
	}, asTheyAre...)
	// unkept are not kept: other databases are in no image, what is taken at random would be
	// another the next time, and what waits would hold up everybody.
	unkept = []string{
		"SWAPDB", "MOVE", "SPOP", "BLPOP", "BRPOP", "BRPOPLPUSH", "BLMOVE", "BZMPOP", "BZPOPMAX", "BZPOPMIN",
	}
	// counted reply how much they changed; 0: nothing. XACK does not count what was deleted.
	counted = []string{
		"DEL", "UNLINK", "EXPIRE", "EXPIREAT", "PEXPIRE", "PEXPIREAT", "PERSIST", "HDEL", "HSETNX", "LREM", "SADD", "SREM", "SETNX",
		"XDEL", "XTRIM", "ZREM", "ZREMRANGEBYLEX", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE",
	}
	// moved reply what they moved; null: nothing.
	moved = []string{"LMOVE", "LPOP", "RPOP", "RPOPLPUSH", "XREADGROUP", "GETDEL"}
)

// idle reports whether a command changed nothing, by its reply.
func idle(name string, reply []byte) bool {
	switch text := string(reply[:min(len(reply), 5)]); text {
	case ":0\r\n":
		return slices.Contains(counted, name)
	case "$-1\r\n", "*-1\r\n", "_\r\n":
		return slices.Contains(moved, name)
	}
	return false
}

// block returns where a command says for how long it waits; -1: it does not.
func block(args []string) int {
	for i, arg := range args {
		switch {
		case strings.EqualFold(arg, "STREAMS"):
			return -1
		case strings.EqualFold(arg, "BLOCK") && i+1 < len(args):
			return i
		}
	}
	return -1
}

// skipReply returns what follows the first of replies.
func skipReply(replies []byte) []byte {
	line, rest, _ := bytes.Cut(replies, []byte("\r\n"))
	if len(line) == 0 {
		return nil
	}
	n, _ := strconv.Atoi(string(line[1:]))
	switch line[0] {
	case '$':
		if n < 0 {
			return rest
		}
		return rest[min(n+len("\r\n"), len(rest)):]
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return rest
	}
	for range n {
		rest = skipReply(rest)
	}
	return rest
}
