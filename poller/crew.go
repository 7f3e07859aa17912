package poller

import "sync"

// This file runs short tasks in goroutines that are used again. The stack of such a goroutine has
// already grown to what the tasks need; a new one would grow it anew, copy by copy.

// crewWorker does tasks, one after the other, in one goroutine.
type crewWorker[T any] interface {
	Do(task T)
	Close() // called at last
}

// crew has the workers. A task never waits for one: if none is idle, the crew hires another.
type crew[T any] struct {
	hire func() crewWorker[T]
	most int // the most workers that stay idle

	mu     sync.Mutex
	idle   []chan T // the worker that was busy last is at the end, and gets the next task
	closed bool
}

// newCrew returns a crew of which at most that many workers stay idle.
func newCrew[T any](most int, hire func() crewWorker[T]) *crew[T] {
	return &crew[T]{hire: hire, most: most}
}

// Do gives a task to a worker, and does not wait for its end.
func (c *crew[T]) Do(task T) {
	c.mu.Lock()
	if last := len(c.idle) - 1; last >= 0 {
		next := c.idle[last]
		c.idle[last] = nil
		c.idle = c.idle[:last]
		c.mu.Unlock()
		next <- task
		return
	}
	c.mu.Unlock()
	go c.work(task)
}

// Close ends idle workers now, and busy ones after their tasks. Tasks may still come after that.
func (c *crew[T]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, next := range c.idle {
		close(next)
	}
	c.idle, c.closed = nil, true
}

func (c *crew[T]) work(task T) {
	w := c.hire()
	defer w.Close()
	tasks := make(chan T, 1) // so that nobody waits for the worker to wake up
	for more := true; more; task, more = <-tasks {
		w.Do(task)
		if !c.rest(tasks) {
			return
		}
	}
}

// rest reports whether a worker may wait for its next task.
func (c *crew[T]) rest(tasks chan T) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= c.most {
		return false
	}
	c.idle = append(c.idle, tasks)
	return true
}
