package main

import (
	"fmt"
	"hash/crc32"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
)

// key names what a shard has, as circulate does.
func key(shard int, name string) string { return fmt.Sprintf("{%s:%02d}:%s", namespace, shard, name) }

// shardOf is the shard that an account lives in, as circulate has it.
func shardOf(id string) int { return int(crc32.ChecksumIEEE([]byte(id)) % shards) }

const ticketWidth = 14 // of the digits that a value of tickets begins with

// census is what Redis has, read past the service.
type census struct {
	places  map[string][]string // of each registered account, where it is under its current ticket
	reasons map[string]string   // of the parked
	claimed int                 // entries in processing_list, void ones included
}

// take reads the whole ring, each shard in one transaction.
func take(from *reader) (census, error) {
	c := census{places: make(map[string][]string), reasons: make(map[string]string)}
	lists := []string{"message_queue", "message_queue:urgent", "message_queue:low", "processing_list"}
	sets := []string{"schedule", "parked"}
	for shard := range shards {
		send := [][]any{{"MULTI"}, {"HGETALL", key(shard, "tickets")}, {"HGETALL", key(shard, "park_reasons")}}
		for _, name := range sets {
			send = append(send, []any{"ZRANGE", key(shard, name), 0, -1})
		}
		for _, name := range lists {
			send = append(send, []any{"LRANGE", key(shard, name), 0, -1})
		}
		conn := from.shard(shard)
		for _, command := range send {
			if err := conn.Send(command[0].(string), command[1:]...); err != nil {
				return c, err
			}
		}
		replies, err := redis.Values(conn.Do("EXEC"))
		if err != nil {
			return c, err
		}
		texts := make([][]string, len(replies))
		for i := range replies {
			if texts[i], err = redis.Strings(replies[i], nil); err != nil {
				return c, fmt.Errorf("shard %d: %w", shard, err)
			}
		}
		c.add(texts, sets, lists)
	}
	return c, nil
}

func (c *census) add(texts [][]string, sets, lists []string) {
	tickets := make(map[string]string)
	for i := 0; i+1 < len(texts[0]); i += 2 {
		tickets[texts[0][i]] = texts[0][i+1][:min(ticketWidth, len(texts[0][i+1]))]
		c.places[texts[0][i]] = nil
	}
	for i := 0; i+1 < len(texts[1]); i += 2 {
		c.reasons[texts[1][i]] = texts[1][i+1]
	}
	for i, name := range sets {
		for _, id := range texts[2+i] {
			c.places[id] = append(c.places[id], name)
		}
	}
	for i, name := range lists {
		if name == "processing_list" {
			c.claimed += len(texts[2+len(sets)+i])
		}
		for _, text := range texts[2+len(sets)+i] {
			e, err := circulate.ParseEntry(text)
			if err == nil && fmt.Sprintf("%0*d", ticketWidth, e.Ticket) == tickets[e.ID] {
				c.places[e.ID] = append(c.places[e.ID], name)
			}
		}
	}
}

// faults tells where the conservation law does not hold. While the service runs
// copies of one entry may be in one lane of message_queue, as a monitor leaves
// that stopped half way: the account's next claim makes them void.
func (c census) faults(running bool) []string {
	var broken []string
	for id, places := range c.places {
		distinct := slices.Compact(slices.Sorted(slices.Values(places)))
		copies := running && len(distinct) == 1 && strings.HasPrefix(distinct[0], "message_queue")
		switch {
		case len(places) == 0:
			broken = append(broken, fmt.Sprintf("I1: %s is in no place: lost", id))
		case len(places) > 1 && !copies:
			broken = append(broken, fmt.Sprintf("I1: %s is in %v", id, places))
		case places[0] == "parked" && c.reasons[id] == "":
			broken = append(broken, fmt.Sprintf("I1: %s is parked without a reason", id))
		}
	}
	sort.Strings(broken)
	return broken
}

// streams counts each message of the streams, by account and message id, and
// gives when the last copy of it was written.
func streams(from *reader) (counts map[[2]string]int, written map[[2]string]time.Time, err error) {
	counts, written = make(map[[2]string]int), make(map[[2]string]time.Time)
	for shard := range shards {
		for first := "-"; ; {
			entries, err := redis.Values(from.shard(shard).Do("XRANGE", key(shard, "messages"), first, "+", "COUNT", 1000))
			if err != nil {
				return nil, nil, err
			}
			if len(entries) == 0 {
				break
			}
			for _, entry := range entries {
				parts, err := redis.Values(entry, nil)
				if err != nil || len(parts) != 2 {
					return nil, nil, fmt.Errorf("stream of shard %d: %v: %w", shard, entry, err)
				}
				position, _ := redis.String(parts[0], nil) // Redis' own format
				fields, err := redis.StringMap(parts[1], nil)
				if err != nil {
					return nil, nil, err
				}
				m := [2]string{fields["account"], fields["id"]}
				ms, _, _ := strings.Cut(position, "-")
				at, _ := strconv.ParseInt(ms, 10, 64)
				counts[m]++
				written[m] = time.UnixMilli(at)
				first = "(" + position
			}
		}
	}
	return counts, written, nil
}
