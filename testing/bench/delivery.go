package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// memoryTakes is how many waiting messages are read while the consumer's memory is
// measured. Messages that wait unread beyond that cannot matter.
const memoryTakes = 1_000_000

// deliveryBench measures consumers: how many messages one process handles in a second,
// beside asynq on the same server in turns, and what an idle one costs.
type deliveryBench struct {
	report   reporter
	each     time.Duration // how long latency is measured
	rounds   int
	messages int    // of a round
	waiting  int    // messages that wait while the consumer's memory is measured; 0: it is not measured
	profile  string // of the last round

	redis  *redistest.Server
	server *connect.Single
	peer   string // asynq's program
}

func (b *deliveryBench) run(ctx context.Context) error {
	var stop func()
	var err error
	if b.redis, b.server, stop, err = startRedis(); err != nil {
		return err
	}
	defer stop()
	if err := b.idle(ctx, b.server); err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	var effects, plain, peer, processor, server []float64
	peerAt, err := b.tryAsynq(ctx)
	if err != nil {
		return fmt.Errorf("asynq: %w", err)
	}
	for range b.rounds {
		c, cpu, err := b.consume(ctx, b.messages, math.MaxInt, "--profile="+b.profile)
		if err != nil {
			return err
		}
		effects = append(effects, float64(c.Done)/c.Seconds)
		processor, server = append(processor, 1e6*c.CPU/float64(c.Done)), append(server, 1e6*cpu/float64(c.Done))
		if c, _, err = b.consume(ctx, b.messages, math.MaxInt, "--plain"); err != nil {
			return err
		}
		plain = append(plain, float64(c.Done)/c.Seconds)
		if c, err = b.asynq(ctx, b.messages, peerAt); err != nil {
			return err
		}
		peer = append(peer, float64(c.Done)/c.Seconds)
	}
	b.report.figure("consumed_per_s", median(effects), "messages/s, each with an effect in Redis in the step that acknowledges it")
	b.report.figure("consumed_cpu", median(processor), "µs/message of the consumer")
	b.report.figure("consumed_redis_cpu", median(server), "µs/message of Redis")
	b.report.figure("consumed_plain_per_s", median(plain), "messages/s, with a handler that does nothing")
	b.report.figure("asynq_per_s", median(peer), "tasks/s, with a handler that does nothing")
	b.report.figure("consumed_vs_asynq", ratio(effects, peer), "×")
	if b.waiting == 0 {
		return nil
	}
	return b.memory(ctx)
}

// consume fills the streams and has a process consume all messages, or so many. It
// returns what the process reported, and how many seconds Redis worked meanwhile.
func (b *deliveryBench) consume(ctx context.Context, messages, most int, args ...string) (c consumed, redisCPU float64, err error) {
	defer func() {
		if err == nil {
			err = flush(b.server)
		}
	}()
	_, written, err := fillStreams(ctx, b.server, "consumed", messages)
	if err != nil {
		return c, 0, fmt.Errorf("fill: %w", err)
	}
	before, err := usedCPU(b.server)
	if err != nil {
		return c, 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return c, 0, err
	}
	args = append([]string{"consume", "--redis", b.redis.URL(), "--namespace", "consumed", "--messages", strconv.FormatInt(min(written, int64(most)), 10)}, args...)
	if err := runJSON(exec.CommandContext(ctx, self, args...), &c); err != nil {
		return c, 0, err
	}
	after, err := usedCPU(b.server)
	return c, after - before, err
}

// memory measures what a consumer takes while very many messages wait.
func (b *deliveryBench) memory(ctx context.Context) error {
	c, _, err := b.consume(ctx, b.waiting, memoryTakes, "--plain")
	if err != nil {
		return err
	}
	// The consumer ends when it has taken memoryTakes: all others waited all the time.
	left := b.waiting - int(c.Done)
	if left < 0 {
		return fmt.Errorf("waiting: must be more than the %d that are taken", memoryTakes)
	}
	b.report.figure("waiting_messages", float64(b.waiting), "messages that waited when the consumer began")
	b.report.figure("waiting_messages_left", float64(left), "messages that still waited when it ended")
	b.report.figure("consumer_peak_rss_mb", c.PeakRSS/1e6, "MB")
	b.report.figure("consumer_peak_data_kb", float64(c.BytesMax)/1e3, "kB of messages' data in handlers at once")
	return nil
}

// runJSON runs a program and decodes what it prints.
func runJSON(cmd *exec.Cmd, into any) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd.Path, err)
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("%s: %w: %q", cmd.Path, err, out.String())
	}
	return nil
}
