package main

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/testing/census"
)

// key names a shard's key, as circulate does.
func key(shard int, name string) string { return fmt.Sprintf("{%s:%02d}:%s", namespace, shard, name) }

// shardOf returns the shard that an account lives in, as circulate computes it.
func shardOf(id string) int { return int(crc32.ChecksumIEEE([]byte(id)) % shards) }

// take reads the whole ring without the service, each shard in one transaction.
func take(from *reader) (*census.Census, error) {
	c := census.New()
	for shard := range shards {
		if err := c.Read(from.shard(shard), strings.TrimSuffix(key(shard, ""), ":")); err != nil {
			return nil, fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return c, nil
}

// lawless returns where the conservation law does not hold. While the service runs,
// copies of one entry may be in one lane of message_queue. A monitor that stopped half
// way leaves them, and the account's next claim makes them void.
func lawless(c *census.Census, running bool) []string {
	lawful := census.Once
	if running {
		lawful = census.OnceInALane
	}
	broken := append(c.Broken(lawful), c.Strays...)
	for i := range broken {
		broken[i] = "I1: " + broken[i]
	}
	return broken
}

// streams counts each message of the streams by account and message id. It also returns
// when the last copy of each was written.
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
