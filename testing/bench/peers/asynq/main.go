// Command asynq measures how fast one asynq server processes tasks that wait in a queue,
// and prints it as JSON:
//
//	go run ./asynq --redis 127.0.0.1:6379 --tasks 40000 --concurrency 64 --servers 4 --queues 8
//
// The handler does nothing, nothing is retained, and all tasks are enqueued before the
// clock starts. Servers share the process and the queues.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

const (
	taskType = "message"
	payload  = `{"account":"account000000","id":"1","type":"text","data":{"text":"hello"}}`
	fillers  = 16
)

// result is what is printed.
type result struct {
	Done    int64   `json:"done"`
	Seconds float64 `json:"seconds"`
}

func main() {
	addr := flag.String("redis", "127.0.0.1:6379", "address of Redis")
	tasks := flag.Int("tasks", 40_000, "how many tasks to process")
	concurrency := flag.Int("concurrency", 64, "workers of each server")
	servers := flag.Int("servers", 1, "servers in the process")
	queues := flag.Int("queues", 1, "queues that the tasks are spread over")
	flag.Parse()
	r, err := measure(asynq.RedisClientOpt{Addr: *addr}, *tasks, *concurrency, *servers, *queues)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "asynq:", err)
		os.Exit(1)
	}
}

func queue(n, queues int) string { return fmt.Sprintf("queue%d", n%queues) }

func measure(redis asynq.RedisClientOpt, tasks, concurrency, servers, queues int) (result, error) {
	if err := fill(redis, tasks, queues); err != nil {
		return result{}, err
	}
	var done atomic.Int64
	all := make(chan struct{})
	weights := make(map[string]int)
	for n := range queues {
		weights[queue(n, queues)] = 1
	}
	began := time.Now()
	for range servers {
		server := asynq.NewServer(redis, asynq.Config{Concurrency: concurrency, Queues: weights, LogLevel: asynq.ErrorLevel})
		err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			if done.Add(1) == int64(tasks) {
				close(all)
			}
			return nil
		}))
		if err != nil {
			return result{}, err
		}
		defer server.Shutdown()
	}
	<-all
	took := time.Since(began)
	return result{Done: done.Load(), Seconds: took.Seconds()}, nil
}

func fill(redis asynq.RedisClientOpt, tasks, queues int) error {
	client := asynq.NewClient(redis)
	defer client.Close()
	var next atomic.Int64
	var workers sync.WaitGroup
	errs := make(chan error, fillers)
	for range fillers {
		workers.Go(func() {
			for n := next.Add(1); n <= int64(tasks); n = next.Add(1) {
				if _, err := client.Enqueue(asynq.NewTask(taskType, []byte(payload)), asynq.Queue(queue(int(n), queues))); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	workers.Wait()
	close(errs)
	return <-errs
}
