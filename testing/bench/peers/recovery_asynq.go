package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

const holderCommand = "asynq-holder"

// asynqKilling is two asynq servers in separate processes: the handler of the first never
// returns, that of the second returns at once.
type asynqKilling struct {
	redis   *server
	pair    int
	holder  *exec.Cmd
	second  *asynq.Server
	mu      sync.Mutex
	checked map[string]time.Time
}

func (k *asynqKilling) queue() string { return fmt.Sprintf("killed%d", k.pair) }

func (k *asynqKilling) prepare(ctx context.Context) error {
	redis := asynq.RedisClientOpt{Addr: k.redis.Addr()}
	client := asynq.NewClient(redis)
	defer client.Close()
	for n := range victimHolds {
		if _, err := client.EnqueueContext(ctx, asynq.NewTask(asynqTask, payload(n, 0)), asynq.Queue(k.queue())); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	k.holder = exec.CommandContext(ctx, self, holderCommand, k.redis.Addr(), k.queue())
	k.holder.Stderr = os.Stderr
	out, err := k.holder.StdoutPipe()
	if err != nil {
		return err
	}
	if err := k.holder.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for range victimHolds {
		if !lines.Scan() {
			return errors.Join(errors.New("the first process ended early"), lines.Err())
		}
	}
	k.checked = make(map[string]time.Time)
	k.second = asynq.NewServer(redis, asynqDefaults(k.queue()))
	err = k.second.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if _, ok := k.checked[string(t.Payload())]; !ok {
			k.checked[string(t.Payload())] = time.Now()
		}
		return nil
	}))
	if err != nil {
		k.second = nil
		return err
	}
	return pause(ctx, asynqStart)
}

// asynqDefaults are asynq's, except that it takes enough at once and logs nothing.
func asynqDefaults(queue string) asynq.Config {
	return asynq.Config{Concurrency: 2 * victimHolds, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel}
}

func (k *asynqKilling) kill(ctx context.Context) (time.Duration, error) {
	killed := time.Now()
	if err := k.holder.Process.Kill(); err != nil {
		return 0, err
	}
	err := await(ctx, "the other server has processed all", func() (bool, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.checked) == victimHolds, nil
	})
	if err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var last time.Time
	for _, at := range k.checked {
		if at.After(last) {
			last = at
		}
	}
	return last.Sub(killed), nil
}

func (k *asynqKilling) close() {
	if k.second != nil {
		k.second.Shutdown()
	}
	if k.holder != nil && k.holder.Process != nil {
		_ = k.holder.Process.Kill() // it may be gone
		_ = k.holder.Wait()
	}
}

// holdTasks is the first process: it reports each further task that it holds.
func holdTasks(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: " + holderCommand + " ADDRESS QUEUE")
	}
	var mu sync.Mutex
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: args[0]}, asynqDefaults(args[1]))
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		mu.Lock()
		_, err := fmt.Fprintln(out, "held")
		mu.Unlock()
		if err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	if err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}
