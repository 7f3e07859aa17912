package message

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// commandsOf counts a world's commands from now on, by name.
func commandsOf(w *faketime.World) func(name string) int64 {
	var mu sync.Mutex
	counts := make(map[string]int64)
	w.Server.Set(func(s faketime.Step) faketime.Fate {
		if s.At == faketime.Call || s.At == faketime.Send {
			mu.Lock()
			counts[s.Command]++
			counts[""]++
			mu.Unlock()
		}
		return faketime.Healthy
	})
	return func(name string) int64 {
		mu.Lock()
		defer mu.Unlock()
		return counts[name]
	}
}

func writeFound(w *faketime.World, shard int, id, data string) {
	w.Helper()
	w.Do("XADD", w.Key(shard, "messages"), "*", "account", "a", "kind", "feed", "id", id, "type", "text", "time", "", "data", data)
}

// TestTailsShareWaitsAndReads lets 200 callers follow. They are idle at first, and then all
// get the same messages.
func TestTailsShareWaitsAndReads(t *testing.T) {
	faketime.Run(t, 8, func(w *faketime.World) {
		const tails, messages = 200, 5
		r := New(w.Ring)
		ctx, cancel := context.WithCancel(w.Context())
		var got atomic.Int64
		var all sync.WaitGroup
		for range tails {
			tail, err := r.Tail(r.atStart(), Filter{})
			if err != nil {
				w.Fatal(err)
			}
			all.Go(func() {
				defer tail.Close()
				for last := ""; ctx.Err() == nil; tail.Await(ctx, time.Hour) {
					found, _, err := tail.Page(ctx)
					if err != nil && ctx.Err() == nil {
						w.Error(err)
					}
					for _, f := range found {
						if f.Message.ID <= last {
							w.Errorf("%s after %s", f.Message.ID, last)
						}
						last = f.Message.ID
						got.Add(1)
					}
				}
			})
		}
		time.Sleep(10 * time.Second)
		count := commandsOf(w)
		time.Sleep(time.Minute)
		if n := count(""); n > 61 {
			w.Errorf("%d commands in an idle minute", n)
		}
		for i := range messages {
			writeFound(w, i, fmt.Sprint(i), "{}")
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			if n := got.Load(); n != int64(tails*(i+1)) {
				w.Fatalf("message %d: %d were given of %d", i, n, tails*(i+1))
			}
		}
		if n := count("XRANGE"); n > 2*messages {
			w.Errorf("%d reads of %d messages", n, messages)
		}
		cancel()
		all.Wait()
	})
}

// TestTailsAreBounded reads 20 MB for several callers at different places. No page is
// large, and little is kept.
func TestTailsAreBounded(t *testing.T) {
	faketime.Run(t, 4, func(w *faketime.World) {
		const messages, size = 100, 200 << 10
		for i := range messages {
			writeFound(w, i%4, fmt.Sprintf("%03d", i), `"`+strings.Repeat("x", size)+`"`)
			time.Sleep(time.Millisecond)
		}
		r := New(w.Ring)
		for range 3 {
			tail, err := r.Tail(r.atStart(), Filter{})
			if err != nil {
				w.Fatal(err)
			}
			var ids []string
			for more := true; more; {
				var found []circulate.Found
				if found, more, err = tail.Page(w.Context()); err != nil {
					w.Fatal(err)
				}
				bytes := 0
				for _, f := range found {
					ids = append(ids, f.Message.ID)
					bytes += len(f.Message.Data)
				}
				if bytes > tailBytes+size+2 {
					w.Errorf("a page has %d bytes", bytes)
				}
				if r.tails.bytes > sharedBytes {
					w.Errorf("%d bytes are kept", r.tails.bytes)
				}
			}
			if len(ids) != messages || ids[0] != "000" || ids[messages-1] != "099" {
				w.Errorf("%d messages, from %s to %s", len(ids), ids[0], ids[len(ids)-1])
			}
			tail.Close()
		}
	})
}
