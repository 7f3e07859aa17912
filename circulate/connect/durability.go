package connect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Durability tells, a sentence each, which settings of Redis let go of what it has
// acknowledged: an append-only file that is off, a replicated master that takes
// writes though no replica has them, keys that are evicted for want of memory.
// Where it may not ask it says nothing.
func Durability(ctx context.Context, server Server) []string {
	var found []string
	switch s := server.(type) {
	case *Embedded:
		return nil
	case *Cluster:
		addresses, err := s.Nodes(ctx)
		if err != nil {
			return nil
		}
		for _, address := range addresses {
			conn, err := s.ConnTo(ctx, address)
			if err == nil {
				found = append(found, durability(ctx, conn, address)...)
			}
		}
	default:
		conn, err := server.Conn(ctx, "")
		if err != nil {
			return nil
		}
		found = durability(ctx, conn, server.Name())
	}
	return found
}

// durability asks one server, and gives the connection back.
func durability(ctx context.Context, conn redis.Conn, name string) []string {
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	setting := func(key string) string {
		pair, err := redis.Strings(redis.DoContext(conn, ctx, "CONFIG", "GET", key))
		if err != nil || len(pair) != 2 {
			return ""
		}
		return pair[1]
	}
	var found []string
	say := func(format string, args ...any) {
		found = append(found, "redis "+name+": "+fmt.Sprintf(format, args...))
	}
	if setting("appendonly") == "no" {
		say("appendonly is no: a restart loses what was written since the last snapshot, if there is one; set it to yes")
	}
	if policy := setting("maxmemory-policy"); policy != "" && policy != "noeviction" && setting("maxmemory") != "0" {
		say("maxmemory-policy is %s: when memory is full, accounts are dropped with their keys; set it to noeviction", policy)
	}
	info, err := redis.String(redis.DoContext(conn, ctx, "INFO", "replication"))
	if err == nil && infoField(info, "connected_slaves") != "0" && infoField(info, "connected_slaves") != "" && setting("min-replicas-to-write") == "0" {
		say("it has replicas, and min-replicas-to-write is 0: a master that is cut off from them takes writes that a failover forgets; set it to 1")
	}
	return found
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}
