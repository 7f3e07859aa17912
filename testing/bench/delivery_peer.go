package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// asynqSettings are the settings that the peer runs with.
type asynqSettings struct{ servers, queues, workers int }

// asynqGrid is what is tried for it. Workers are those of one server.
func asynqGrid() []asynqSettings {
	var all []asynqSettings
	for _, servers := range []int{1, 4, 8} {
		for _, queues := range []int{1, 8} {
			for _, workers := range []int{32, 128, 256} {
				all = append(all, asynqSettings{servers, queues, workers})
			}
		}
	}
	return all
}

// tryAsynq builds the peer's program and returns the settings with which it is fastest.
func (b *deliveryBench) tryAsynq(ctx context.Context) (best asynqSettings, err error) {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return best, err
	}
	dir := filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "testing", "bench", "peers")
	b.peer = filepath.Join(b.redis.Dir, "asynq")
	build := exec.CommandContext(ctx, "go", "build", "-C", dir, "-o", b.peer, "./asynq")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return best, err
	}
	fastest := 0.0
	for _, s := range asynqGrid() {
		c, err := b.asynq(ctx, max(1, b.messages/10), s)
		if err != nil {
			return best, err
		}
		if rate := float64(c.Done) / c.Seconds; rate > fastest {
			fastest, best = rate, s
		}
	}
	b.report.figure("asynq_settings_tried", float64(len(asynqGrid())), fmt.Sprintf(
		"settings, the fastest %d servers in its process, %d queues, %d workers each", best.servers, best.queues, best.workers))
	return best, nil
}

// asynq has the peer process tasks in a process of its own.
func (b *deliveryBench) asynq(ctx context.Context, tasks int, s asynqSettings) (c consumed, err error) {
	err = runJSON(exec.CommandContext(ctx, b.peer, "--redis", b.redis.Addr(), "--tasks", strconv.Itoa(tasks),
		"--servers", strconv.Itoa(s.servers), "--queues", strconv.Itoa(s.queues), "--concurrency", strconv.Itoa(s.workers)), &c)
	if err == nil {
		err = flush(b.server)
	}
	return c, err
}
