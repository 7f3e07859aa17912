package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	recordBytes = 200 // of a record or a payload, unless told otherwise
	chunk       = 500 // accounts in one step of filling
	fillers     = 4
)

// accountID is the id of the n-th account.
func accountID(n int) string { return fmt.Sprintf("account%07d", n) }

// record returns the text that every system keeps for the n-th account: the ring as its
// record, the peers as a payload. It has so many bytes, or as few as possible.
func record(n, bytes int, kind, cadence, url string) []byte {
	if bytes == 0 {
		bytes = recordBytes
	}
	if url == "" {
		url = "https://connector.example/"
	}
	id := accountID(n)
	text := fmt.Sprintf(`{"id":%q,"kind":%q,"config":{"url":"%s%s","settings":{"pad":""}},"cadence":%q}`, id, kind, url, id, cadence)
	pad := strings.Repeat("a", max(0, bytes-len(text)))
	return []byte(strings.Replace(text, `"pad":""`, `"pad":"`+pad+`"`, 1))
}

// payload is the record as the peers keep it.
func payload(n, bytes int) []byte { return record(n, bytes, "noop", "every 60s", "") }

// register registers accounts in a ring, the n-th due at due(n).
func register(ctx context.Context, ring *circulate.Ring, accounts int, text func(n int) []byte, due func(n int) time.Time) error {
	shards := make([][]int, ring.Shards())
	for n := range accounts {
		s := ring.ShardOf(accountID(n))
		shards[s] = append(shards[s], n)
	}
	return eachShard(ring, func(shard int) error {
		for part := range slices.Chunk(shards[shard], chunk) {
			items := make([]circulate.Registration, len(part))
			for i, n := range part {
				items[i] = circulate.Registration{ID: accountID(n), Record: text(n), Due: due(n)}
			}
			if _, err := ring.Register(ctx, shard, items); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachShard calls a function for every shard, several at once.
func eachShard(ring *circulate.Ring, fn func(shard int) error) error {
	var next atomic.Int64
	return inParallel(fillers, func(int) error {
		for s := next.Add(1) - 1; s < int64(ring.Shards()); s = next.Add(1) - 1 {
			if err := fn(int(s)); err != nil {
				return err
			}
		}
		return nil
	})
}

// inParallel runs n workers and returns the first error.
func inParallel(n int, work func(worker int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for w := range n {
		wg.Go(func() { errs <- work(w) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
