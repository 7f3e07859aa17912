package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller/delivery"
)

// countEffect is the least that a user's effect would do: it counts messages by account.
var countEffect = delivery.NewEffect("count", `redis.call('HINCRBY', KEYS[1], message.account, 1)`)

// consumed is what a consuming process prints.
type consumed struct {
	Done     int64   `json:"done"`
	Seconds  float64 `json:"seconds"`
	CPU      float64 `json:"cpu"`       // seconds of its own processor time
	PeakRSS  float64 `json:"peak_rss"`  // bytes
	BytesMax int64   `json:"bytes_max"` // of data in handlers at once
}

// consume runs a process that consumes waiting messages until so many are done.
func consume(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("consume", flag.ContinueOnError)
	url := flags.String("redis", "", "URL of Redis")
	namespace := flags.String("namespace", "", "of the ring")
	messages := flags.Int64("messages", 0, "end after this many")
	plain := flags.Bool("plain", false, "a handler that does nothing, instead of an effect in Redis")
	profile := flags.String("profile", "", "write a CPU profile to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server, err := connect.Open(*url, connect.Options{})
	if err != nil {
		return err
	}
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{Namespace: *namespace})
	if err != nil {
		return err
	}
	endProfile, err := startProfile(*profile)
	if err != nil {
		return err
	}
	defer endProfile()
	consuming, end := context.WithCancel(ctx)
	defer end()
	var took time.Duration
	began := time.Now()
	counter := &counting{Handler: delivery.Each(func(context.Context, delivery.Delivery) error { return nil }), all: func() {
		took = time.Since(began)
		end()
	}}
	counter.left.Store(*messages)
	if !*plain {
		counter.Handler = &delivery.Effect{Ring: ring, Effect: countEffect, Keys: func(tag string) []string { return []string{tag + ":counts"} }}
	}
	if err := (delivery.Consumer{Ring: ring, Group: "bench", Handler: counter}).Run(consuming); err != nil {
		return err
	}
	own, err := ownCPU()
	if err != nil {
		return err
	}
	peak, err := peakMemory()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(consumed{Done: *messages - counter.left.Load(), Seconds: took.Seconds(), CPU: own, PeakRSS: peak, BytesMax: counter.max.Load()})
}

// counting counts what another handler has handled.
type counting struct {
	delivery.Handler
	all       func() // called when none is left
	left      atomic.Int64
	held, max atomic.Int64 // bytes
}

// Handle passes the batch on and counts it.
func (c *counting) Handle(ctx context.Context, batch []delivery.Delivery) []error {
	var bytes int64
	for i := range batch {
		bytes += int64(len(batch[i].Message.Data))
	}
	for held := c.held.Add(bytes); ; {
		if m := c.max.Load(); held <= m || c.max.CompareAndSwap(m, held) {
			break
		}
	}
	defer c.held.Add(-bytes)
	errs := c.Handler.Handle(ctx, batch)
	done := int64(len(batch))
	for _, err := range errs {
		if err != nil && !errors.Is(err, delivery.ErrAcknowledged) {
			done--
		}
	}
	if left := c.left.Add(-done); left <= 0 && left+done > 0 {
		c.all()
	}
	return errs
}

// peakMemory returns the most memory that this process has had, in bytes.
func peakMemory() (float64, error) { return peakMemoryOf("self") }

// peakMemoryOf returns the same of a process by its id.
func peakMemoryOf(pid string) (float64, error) {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%s/status: no VmHWM", pid)
}
