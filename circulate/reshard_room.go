package circulate

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// This is the part of the accounts' memory that is needed besides while they move:
	// for their ids, in arrivals, for the tables of HASHes that grow and others that have
	// not shrunk, and for what the allocator cannot use.
	roomForIDs = 0.35
	// CopiesLeast is the least room for copies, in bytes.
	CopiesLeast = 1 << 20
)

// Room is how much of a Redis server's memory a change of the number of shards needs, and
// how much is free, in bytes.
type Room struct {
	Node       string // its address; empty if there is one server
	Need, Free int64
}

// Room estimates the memory that a change to another number of shards needs. It returns
// one Room for each server that has a memory limit and reports it. A server that receives
// accounts from others needs room for them before its own have left. Moving itself takes
// memory too, a part of what the accounts take.
func (m Mover) Room(ctx context.Context, to int) ([]Room, error) {
	l, err := m.ring.readLayout(ctx)
	if err != nil {
		return nil, err
	}
	type server struct {
		key      string
		own, all int64 // the memory of its accounts; how many new shards it will have
	}
	var total int64
	servers := make(map[string]*server)
	at := func(key string) *server {
		node := m.ring.wire.NodeOf(key)
		if servers[node] == nil {
			servers[node] = &server{key: key}
		}
		return servers[node]
	}
	for shard := range m.ring.keys {
		bytes, err := m.ring.accountsMemory(ctx, shard)
		if err != nil {
			return nil, err
		}
		if bytes < 0 {
			return nil, nil // this Redis does not report it either
		}
		total += bytes
		at(m.ring.keys[shard].tickets).own += bytes
	}
	l.next = to
	becomes := l.lasting()
	for shard := range to {
		at(generationKeys(m.ring.namespace, becomes.generation, to, shard).tickets).all++
	}
	var rooms []Room
	for node, s := range servers {
		free, limited, err := m.ring.freeMemory(ctx, s.key)
		if err != nil {
			return nil, err
		}
		if !limited {
			continue
		}
		share := float64(s.all) / float64(to)
		need := float64(total-s.own)*share + float64(total)*share*roomForIDs
		rooms = append(rooms, Room{Node: node, Need: int64(need) + CopiesLeast, Free: free})
	}
	return rooms, nil
}

// accountsMemory returns how much memory a shard's accounts take, as Redis estimates it,
// or -1 if it does not.
func (r *Ring) accountsMemory(ctx context.Context, shard int) (bytes int64, err error) {
	k := &r.keys[shard]
	var commands []wire.Command
	for _, key := range append([]string{k.tickets, k.schedule, k.parked, k.urgent, k.queue, k.low, k.byKind, k.kinds}, k.accountFields()...) {
		commands = append(commands, wire.Command{"MEMORY", "USAGE", key})
	}
	replies, err := r.wire.Pipeline(ctx, k.tickets, commands...)
	if wire.Replied(err) && !Unavailable(err) {
		return -1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("memory, shard %d: %w", shard, err)
	}
	for _, reply := range replies {
		if n, ok := reply.(int64); ok { // nil if there is no such key
			bytes += n
		}
	}
	return bytes, nil
}

// FreeMemory returns how many bytes the server of a shard has left before its limit.
// limited is false if it has no limit, or does not report it.
func (m Mover) FreeMemory(ctx context.Context, shard int) (bytes int64, limited bool, err error) {
	return m.ring.freeMemory(ctx, m.ring.keys[shard].tickets)
}

func (r *Ring) freeMemory(ctx context.Context, key string) (bytes int64, limited bool, err error) {
	replies, err := r.wire.Pipeline(ctx, key, wire.Command{"INFO", "memory"})
	if wire.Replied(err) && !Unavailable(err) {
		return math.MaxInt64, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("memory: %w", err)
	}
	text, err := redis.String(replies[0], nil)
	if err != nil {
		return 0, false, fmt.Errorf("memory: %w: %w", wire.ErrReply, err)
	}
	var used, most int64
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case name == "used_memory":
			used = n
		case name == "maxmemory":
			most = n
		}
	}
	if most == 0 {
		return math.MaxInt64, false, nil
	}
	return most - used, true, nil
}
