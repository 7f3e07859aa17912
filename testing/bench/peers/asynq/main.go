// Command asynq measures how fast one asynq server processes tasks that wait in a
// queue, and prints it as JSON:
//
//	go run ./asynq --redis 127.0.0.1:6379 --tasks 40000 --concurrency 64
//
// The handler does nothing, nothing is retained, and all tasks are enqueued before
// the clock starts.
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
	concurrency := flag.Int("concurrency", 64, "workers")
	flag.Parse()
	r, err := measure(asynq.RedisClientOpt{Addr: *addr}, *tasks, *concurrency)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "asynq:", err)
		os.Exit(1)
	}
}

func measure(redis asynq.RedisClientOpt, tasks, concurrency int) (result, error) {
	if err := fill(redis, tasks); err != nil {
		return result{}, err
	}
	var done atomic.Int64
	all := make(chan struct{})
	server := asynq.NewServer(redis, asynq.Config{Concurrency: concurrency, LogLevel: asynq.ErrorLevel})
	began := time.Now()
	err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if done.Add(1) == int64(tasks) {
			close(all)
		}
		return nil
	}))
	if err != nil {
		return result{}, err
	}
	<-all
	took := time.Since(began)
	server.Shutdown()
	return result{Done: done.Load(), Seconds: took.Seconds()}, nil
}

func fill(redis asynq.RedisClientOpt, tasks int) error {
	client := asynq.NewClient(redis)
	defer client.Close()
	var next atomic.Int64
	var workers sync.WaitGroup
	errs := make(chan error, fillers)
	for range fillers {
		workers.Go(func() {
			for next.Add(1) <= int64(tasks) {
				if _, err := client.Enqueue(asynq.NewTask(taskType, []byte(payload))); err != nil {
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
