package delivery_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with counts the lines that contain a text.
func (l *lines) with(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// A new group is logged in one line, however many shards there are.
func TestGroupMadeIsOneLine(t *testing.T) {
	inFakeTime(t, 33, func(w *world) {
		var j journal
		var log lines
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error, 1)
		go func() {
			done <- delivery.Consumer{Ring: w.Ring, Group: "g", Handler: j.handler(), Log: slog.New(slog.NewTextHandler(&log, nil))}.Run(ctx)
		}()
		time.Sleep(time.Minute)
		log.expect(t, 1, "consumer group created")
		log.expect(t, 1, "consumer group created", "shards=33")
		// The group is removed while the consumer runs. The consumer creates it again.
		for shard := range w.shards {
			w.Do("XGROUP", "DESTROY", w.Ring.Tag(shard)+":messages", "g")
		}
		w.add(1, "a", "b", "c", "d", "e", "f", "g", "h")
		time.Sleep(5 * time.Minute)
		if n := log.with("consumer group created"); n < 2 || n > 3 {
			t.Errorf("%d lines:\n%s", n, log.text.String())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
