package poller

import "sync"

// A crew runs short tasks in goroutines that are used again: the stack of one has grown to
// what the tasks need, and a new one would grow it anew, copy by copy.

// crewWorker does tasks, one after the other, in one goroutine.
type crewWorker[T any] interface {
	Do(task T)
	Close() // called at last
}

// crew is the workers. A task never waits for one: if none is idle, another is hired.
type crew[T any] struct {
	hire func() crewWorker[T]
	most int // workers that stay although they have nothing to do

	mu     sync.Mutex
	idle   []chan T // who was busy last comes last, and first in turn
	closed bool
}

// newCrew returns a crew of which so many workers may stay idle.
func newCrew[T any](most int, hire func() crewWorker[T]) *crew[T] {
	return &crew[T]{hire: hire, most: most}
}

// Do has a task done, and does not wait for that.
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

// Close ends idle workers now, and others after their tasks. Tasks may come after that.
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
