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
// is off or cannot be written, eviction of keys, a replicated master that accepts writes
// without any replica, memory that is almost used up. A server that refuses the questions
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
	n.AppendOnly = q.setting("appendonly")
	if n.AppendOnly == "no" {
		q.say(ConcernAppendOnly, "", "appendonly is no: a restart loses what was written since the last snapshot, if there is one; set it to yes")
	}
	policy, limit := q.setting("maxmemory-policy"), q.setting("maxmemory")
	n.Policy = policy
	if policy != "" && policy != "noeviction" && limit != "0" {
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
	n.AppendStatus = infoField(q.info("persistence"), "aof_last_write_status")
	if n.AppendStatus != "" && n.AppendStatus != "ok" {
		q.say(ConcernAppendFails, "", "its append-only file cannot be written: a restart loses what came since; see its disk")
	}
	info = q.info("memory")
	n.Used, _ = strconv.ParseInt(infoField(info, "used_memory"), 10, 64)
	n.Limit, _ = strconv.ParseInt(infoField(info, "maxmemory"), 10, 64)
	if share := 100 * float64(n.Used) / float64(n.Limit); n.Limit > 0 && share >= memoryConcern {
		q.say(ConcernMemory, strconv.Itoa(int(share)), "it uses %.0f %% of maxmemory: messages are not taken above the mark of ROUNDS_MEMORY_MARK; raise maxmemory, or keep less", share)
	}
	info = q.info("server")
	n.Version = infoField(info, "redis_version")
	seconds, _ := strconv.ParseInt(infoField(info, "uptime_in_seconds"), 10, 64)
	n.Up = time.Duration(seconds) * time.Second
	if len(q.refused) > 0 {
		q.say(ConcernUnasked, strings.Join(q.refused, ", "), "%s may not be asked, so nobody sees whether it keeps what it acknowledges; allow the user +config|get and +info", strings.Join(q.refused, " and "))
	}
}

func (q *questions) say(code ConcernCode, value, format string, args ...any) {
	q.node.Concerns = append(q.node.Concerns, Concern{Node: q.node.Name, Code: code, Value: value, Text: "redis " + q.node.Name + ": " + fmt.Sprintf(format, args...)})
}

// setting returns the value of one setting, or "" if it is not answered.
func (q *questions) setting(key string) string {
	pair, err := redis.Strings(q.do("CONFIG", "GET", key))
	if err != nil || len(pair) != 2 {
		return ""
	}
	return pair[1]
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
