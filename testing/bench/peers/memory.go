package main

import (
	"context"
	"fmt"
	"time"
)

// measureMemory measures what one account takes in Redis, scheduled and with a cursor,
// and what a pending task of asynq and a ready delivery of rmq take, with the same text
// in each. The server keeps nothing else.
func measureMemory(ctx context.Context, b *bench) error {
	count := b.count / 2
	sizes := []int{recordBytes, 140, 400, 800}
	for _, bytes := range sizes {
		taken := make(map[string]float64)
		for _, kind := range []string{"ring", "asynq", "rmq"} {
			took, err := b.memoryOf(ctx, spec{Kind: kind, Accounts: count, Bytes: bytes})
			if err != nil {
				return err
			}
			taken[kind] = took
			b.results.point("memory", kind, float64(bytes), took)
		}
		if bytes != recordBytes {
			b.results.figure(fmt.Sprintf("bytes_vs_asynq_%d_byte_records", bytes), taken["ring"]/taken["asynq"], "×")
			continue
		}
		note := fmt.Sprintf("bytes of Redis, its record or payload of %d bytes among them", bytes)
		b.results.figure("bytes_per_account", taken["ring"], note)
		b.results.figure("bytes_per_asynq_task", taken["asynq"], note)
		b.results.figure("bytes_per_rmq_delivery", taken["rmq"], note)
		b.results.target("bytes_vs_asynq", taken["ring"]/taken["asynq"], "at most", 0.5, "×")
		// What the system adds to the text, which both must keep.
		rest := taken["asynq"] - float64(bytes)
		b.results.figure("bytes_vs_asynq_without_payload", (taken["ring"]-float64(bytes))/rest, "×")
		// And what circulation takes. The field that holds the record is left out, as in
		// the ring's own bench: rounds keeps records for the registry too.
		inRecords, err := b.results.value("bytes_per_account_in_accounts")
		if err != nil {
			return err
		}
		b.results.figure("bytes_to_circulate_vs_asynq", (taken["ring"]-inRecords)/rest, "×")
	}
	return b.messageMemory(ctx)
}

// memoryOf fills an empty server and returns the bytes that each account takes.
func (b *bench) memoryOf(ctx context.Context, s spec) (float64, error) {
	before, err := b.redis.memory()
	if err != nil {
		return 0, err
	}
	s.Redis = b.redis.URL()
	c, err := launch(ctx, s, b.redis)
	if err != nil {
		return 0, err
	}
	c.close()
	after, err := b.redis.memory()
	if err != nil {
		return 0, err
	}
	if s.Kind == "ring" && s.Bytes == recordBytes {
		if err := b.breakdown(s.Accounts); err != nil {
			return 0, err
		}
	}
	return (after - before) / float64(s.Accounts), b.redis.flush()
}

// messageMemory measures what a found message of 16 bytes takes in its stream.
func (b *bench) messageMemory(ctx context.Context) error {
	c, err := launch(ctx, spec{Kind: "ring", Redis: b.redis.URL(), Accounts: smallRing}, b.redis)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.sample("message_warm_up", settings{Give: "news"}, 200*time.Millisecond); err != nil {
		return err
	}
	before, err := b.redis.memory()
	if err != nil {
		return err
	}
	messages, err := b.redis.sum("*}:messages", "XLEN")
	if err != nil {
		return err
	}
	if _, err := c.sample("message", settings{Give: "news"}, max(b.each/4, 500*time.Millisecond)); err != nil {
		return err
	}
	after, err := b.redis.memory()
	if err != nil {
		return err
	}
	more, err := b.redis.sum("*}:messages", "XLEN")
	if err != nil {
		return err
	}
	b.results.figure("bytes_per_message", (after-before)/(more-messages), "bytes of Redis for a found message with 16 bytes of data")
	return b.redis.flush()
}

// breakdown measures in which of the ring's keys an account's memory is.
func (b *bench) breakdown(accounts int) error {
	for _, key := range []string{"accounts", "tickets", "schedule"} {
		bytes, err := b.redis.sum("*}:"+key, "MEMORY")
		if err != nil {
			return err
		}
		b.results.figure("bytes_per_account_in_"+key, bytes/float64(accounts), "bytes")
	}
	return nil
}
