package poller

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

// overrun counts its calls.
type overrun struct {
	told  atomic.Int64
	takes time.Duration
}

func (o *overrun) Overrun() {
	time.Sleep(o.takes)
	o.told.Add(1)
}

// box returns a box that is closed when the test ends.
func testBox(parent context.Context, t *testing.T) *box {
	t.Helper()
	b := newBox(parent)
	t.Cleanup(b.Close)
	return b
}

// A call behaves like a context of context.WithTimeout: it has the same deadline, values and end,
// and so do contexts that derive from it.
func TestCallIsAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := context.WithValue(t.Context(), key{}, "parent's")
		b := testBox(parent, t)
		began := time.Now()
		c := b.Begin(callLimits{Timeout: time.Second, Grace: time.Minute}, "ours", 7)
		if at, ok := c.Deadline(); !ok || !at.Equal(began.Add(time.Second)) {
			t.Errorf("deadline: %v, %t", at, ok)
		}
		if c.Value(key{}) != "parent's" || c.Value("ours") != 7 || c.Value("other") != nil || c.Err() != nil {
			t.Errorf("values: %v, %v, %v; %v", c.Value(key{}), c.Value("ours"), c.Value("other"), c.Err())
		}
		derived, cancel := context.WithCancel(context.WithValue(c, key{}, "derived"))
		defer cancel()
		shorter, cancel := context.WithTimeout(c, time.Hour)
		defer cancel()
		var after, stopped atomic.Bool
		context.AfterFunc(c, func() { after.Store(true) })
		stop := context.AfterFunc(c, func() { stopped.Store(true) })
		if !stop() || stop() {
			t.Error("a function is stopped once")
		}
		for _, ctx := range []context.Context{c, derived, shorter} {
			<-ctx.Done()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				t.Errorf("%v, because %v", ctx.Err(), context.Cause(ctx))
			}
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		if !after.Load() || stopped.Load() {
			t.Errorf("after: %t, stopped: %t", after.Load(), stopped.Load())
		}
		late, cancel := context.WithCancel(c)
		defer cancel()
		<-late.Done()
		b.End(c)
		if !errors.Is(c.Err(), context.DeadlineExceeded) {
			t.Errorf("after its end: %v", c.Err())
		}
	})
}

// Calls of one box do not end each other, whatever the timer was set to before. Each ends at its
// own time.
func TestCallsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testBox(t.Context(), t)
		for i, test := range []struct{ timeout, takes time.Duration }{
			{time.Minute, time.Second}, {time.Minute, 59 * time.Second}, {time.Minute, 59 * time.Second}, {time.Second, time.Minute}, {time.Minute, 2 * time.Minute},
			{2 * time.Second, time.Second}, {time.Hour, 30 * time.Minute}, {time.Second, time.Second / 2}, {time.Second, time.Second + 1},
		} {
			began := time.Now()
			c := b.Begin(callLimits{Timeout: test.timeout, Grace: time.Hour}, nil, nil)
			select {
			case <-c.Done():
				if took := time.Since(began); took != test.timeout || test.takes <= test.timeout {
					t.Errorf("call %d ended after %v", i, took)
				}
			case <-time.After(test.takes):
				if test.takes > test.timeout || c.Err() != nil {
					t.Errorf("call %d did not end: %v", i, c.Err())
				}
			}
			b.End(c)
			if c.Err() == nil {
				t.Errorf("call %d goes on after its end", i)
			}
		}
	})
}

// Overrun is called once for a call that goes on after its grace, and End waits until it has
// returned.
func TestOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := testBox(t.Context(), t)
		for _, test := range []struct {
			takes time.Duration
			told  int64
			ends  time.Duration
		}{{time.Second, 0, time.Second}, {10*time.Second + 1, 0, 10*time.Second + 1}, {12 * time.Second, 1, 14 * time.Second}, {time.Hour, 1, time.Hour}, {9 * time.Second, 0, 9 * time.Second}} {
			o, began := &overrun{takes: 3 * time.Second}, time.Now()
			c := b.Begin(callLimits{Timeout: 10 * time.Second, Grace: time.Second, Overrun: o}, nil, nil)
			time.Sleep(test.takes)
			b.End(c)
			if took := time.Since(began); o.told.Load() != test.told || took != test.ends {
				t.Errorf("a call of %v: told %d times, ended after %v", test.takes, o.told.Load(), took)
			}
		}
	})
}

// When the parent ends, so does the call under way, and so does each call that begins later.
func TestParentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		b, o := testBox(parent, t), &overrun{}
		limits := callLimits{Timeout: time.Minute, Grace: time.Second, Overrun: o}
		c := b.Begin(limits, nil, nil)
		time.AfterFunc(time.Second, cancel)
		<-c.Done()
		if !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("got %v", c.Err())
		}
		b.End(c)
		if c = b.Begin(limits, nil, nil); !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("a call of a parent that has ended: %v", c.Err())
		}
		<-c.Done()
		time.Sleep(2 * time.Minute) // it does not heed its end
		b.End(c)
		if o.told.Load() != 1 {
			t.Errorf("told %d times of a call that went on", o.told.Load())
		}
	})
}

// Closing a box ends its call without calling Overrun.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBox(t.Context()), &overrun{}
		c := b.Begin(callLimits{Timeout: time.Second, Grace: time.Second, Overrun: o}, nil, nil)
		b.Close()
		if !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("got %v", c.Err())
		}
		time.Sleep(time.Minute)
		b.End(c)
		if o.told.Load() != 0 {
			t.Error("it was told")
		}
	})
}

// A call allocates its context and nothing else. A context that derives from it needs no goroutine.
func TestCost(t *testing.T) {
	b := testBox(t.Context(), t)
	limits := callLimits{Timeout: time.Hour, Grace: time.Hour, Overrun: &overrun{}}
	value := &limits
	if n := testing.AllocsPerRun(100, func() { b.End(b.Begin(limits, key{}, value)) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	before := runtime.NumGoroutine()
	c := b.Begin(limits, key{}, value)
	defer b.End(c)
	for range 100 {
		_, cancel := context.WithCancel(c)
		defer cancel()
	}
	if more := runtime.NumGoroutine() - before; more > 10 {
		t.Errorf("%d goroutines for 100 contexts", more)
	}
}
