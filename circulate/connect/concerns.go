package connect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	concernsWithin = 3 * time.Second // for each server
	memoryConcern  = 80              // per cent of maxmemory
)

// Concerns asks every server that holds data what could lose it: an append-only file that
// is off, cannot be written or is never synced, snapshots that fail, eviction of keys, a
// replicated master that accepts writes without any replica, memory that is almost used up.
// A server that refuses the questions
// has a concern of its own. A server that cannot be reached has none: the error names it,
// and the concerns of the others are returned.
//
// The embedded server has none, because it keeps nothing anyway.
func Concerns(ctx context.Context, server Server) ([]Concern, error) {
	nodes, err := Survey(ctx, server)
	return ConcernsOf(nodes), err
}

// questions are those to one server.
type questions struct {
	ctx  context.Context
	conn redis.Conn
	node *Node

	refused []string // kinds of questions that it refused
	err     error    // it went away
}

func (q *questions) ask() {
	n := q.node
	q.askPersistence()
	policy, limit := q.setting("maxmemory-policy"), q.setting("maxmemory")
	n.Policy = policy
	switch {
	case policy == "" || policy == "noeviction":
	case limit == "0":
		q.remark(RemarkMayEvict, policy, "maxmemory-policy is %s, which does nothing without maxmemory: set it to noeviction before there is a limit, or accounts are dropped with their keys", policy)
	default:
		q.say(ConcernEviction, policy, "maxmemory-policy is %s: when memory is full, accounts are dropped with their keys; set it to noeviction", policy)
	}
	info := q.info("replication")
	n.Replicas, _ = strconv.Atoi(infoField(info, "connected_slaves"))
	if n.Replicas > 0 {
		n.MinReplicas = q.setting("min-replicas-to-write")
	}
	if n.MinReplicas == "0" {
		q.say(ConcernReplicas, "", "it has replicas, and min-replicas-to-write is 0: a master that is cut off from them takes writes that a failover forgets; set it to 1")
	}
	info = q.info("memory")
	n.Used, _ = strconv.ParseInt(infoField(info, "used_memory"), 10, 64)
	n.Limit, _ = strconv.ParseInt(infoField(info, "maxmemory"), 10, 64)
	if share := 100 * float64(n.Used) / float64(n.Limit); n.Limit > 0 && share >= memoryConcern {
		q.say(ConcernMemory, strconv.Itoa(int(share)), "it uses %.0f %% of maxmemory: messages are not taken above the mark of ROUNDS_MEMORY_MARK; raise maxmemory, or keep less", share)
	}
	info = q.info("server")
	if is := identify(info); is.version != "" {
		n.Software, n.Version = is.software, is.version
	}
	seconds, _ := strconv.ParseInt(infoField(info, "uptime_in_seconds"), 10, 64)
	n.Up = time.Duration(seconds) * time.Second
	if len(q.refused) > 0 {
		q.say(ConcernUnasked, strings.Join(q.refused, ", "), "%s may not be asked, so nobody sees whether it keeps what it acknowledges; allow the user +config|get and +info", strings.Join(q.refused, " and "))
	}
}

// askPersistence asks what a restart or a crash would lose.
func (q *questions) askPersistence() {
	n := q.node
	n.AppendOnly = q.setting("appendonly")
	switch n.AppendOnly {
	case "no":
		if save, told := q.told("save"); told && save == "" {
			q.say(ConcernAppendOnly, "", "appendonly is no, and no snapshots are made: a restart loses everything; set appendonly to yes")
			break
		}
		q.say(ConcernAppendOnly, "", "appendonly is no: a restart loses what was written since the last snapshot, if there is one; set it to yes")
	case "yes":
		n.Fsync = q.setting("appendfsync")
		switch n.Fsync {
		case "everysec":
			q.remark(RemarkEverySecond, "", "appendfsync is everysec: when its machine dies, up to a second of what it acknowledged is lost. Each account is then in one place as before: checks of that second are done again, and their messages found again under the same ids. Accounts registered or changed in that second must be again; with appendfsync always nothing is lost")
		case "no":
			q.say(ConcernNoSync, "", "appendfsync is no: when its machine dies, half a minute of what it acknowledged may be lost; set it to everysec or always")
		}
	}
	info := q.info("persistence")
	n.AppendStatus = infoField(info, "aof_last_write_status")
	if n.AppendStatus != "" && n.AppendStatus != "ok" {
		q.say(ConcernAppendFails, "", "its append-only file cannot be written: a restart loses what came since; see its disk")
	}
	if infoField(info, "rdb_last_bgsave_status") == "err" && q.setting("stop-writes-on-bgsave-error") != "no" && q.setting("save") != "" {
		q.say(ConcernSnapshot, "", "its last snapshot failed, so it refuses all writes (MISCONF) until one succeeds; see its disk, its memory and its log, and then BGSAVE")
	}
}

func (q *questions) say(code ConcernCode, value, format string, args ...any) {
	q.node.Concerns = append(q.node.Concerns, q.concern(code, value, format, args...))
}

func (q *questions) remark(code ConcernCode, value, format string, args ...any) {
	q.node.Remarks = append(q.node.Remarks, q.concern(code, value, format, args...))
}

func (q *questions) concern(code ConcernCode, value, format string, args ...any) Concern {
	return Concern{Node: q.node.Name, Code: code, Value: value, Text: "redis " + q.node.Name + ": " + fmt.Sprintf(format, args...)}
}

// setting returns the value of one setting, or "" if it is not answered.
func (q *questions) setting(key string) string {
	value, _ := q.told(key)
	return value
}

// told returns the value of one setting, and whether it is answered.
func (q *questions) told(key string) (value string, is bool) {
	pair, err := redis.Strings(q.do("CONFIG", "GET", key))
	if err != nil || len(pair) != 2 {
		return "", false
	}
	return pair[1], true
}

func (q *questions) info(section string) string {
	text, err := redis.String(q.do("INFO", section))
	if err != nil {
		return ""
	}
	return text
}

// do asks, unless the server went away or refused a question of that kind before.
func (q *questions) do(command, arg string, args ...any) (any, error) {
	for _, refused := range q.refused {
		if refused == command {
			return nil, redis.ErrNil
		}
	}
	if q.err != nil {
		return nil, q.err
	}
	reply, err := redis.DoContext(q.conn, q.ctx, command, append([]any{arg}, args...)...)
	var refusal redis.Error
	switch {
	case errors.As(err, &refusal) && (strings.HasPrefix(string(refusal), "NOPERM") || strings.HasPrefix(string(refusal), "ERR unknown")):
		q.refused = append(q.refused, command)
	case err != nil:
		q.err = err
	}
	return reply, err
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}
