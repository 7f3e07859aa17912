package poller

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// staff counts workers.
type staff struct{ hired, left, done atomic.Int64 }

type task struct{ takes time.Duration }

func (s *staff) Do(t task) {
	time.Sleep(t.takes)
	s.done.Add(1)
}

func (s *staff) Close() { s.left.Add(1) }

func (s *staff) hire() crewWorker[task] {
	s.hired.Add(1)
	return s
}

func (s *staff) want(t *testing.T, hired, left, done int64) {
	t.Helper()
	synctest.Wait()
	if s.hired.Load() != hired || s.left.Load() != left || s.done.Load() != done {
		t.Errorf("%d hired, %d left, %d done; want %d, %d, %d", s.hired.Load(), s.left.Load(), s.done.Load(), hired, left, done)
	}
}

// Tasks never wait for a worker, idle workers are used again, and only so many stay.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s staff
		c := newCrew(2, s.hire)
		for range 5 {
			c.Do(task{time.Second})
		}
		s.want(t, 5, 0, 0)
		time.Sleep(time.Second)
		s.want(t, 5, 3, 5)
		for range 10 {
			c.Do(task{})
			c.Do(task{})
			synctest.Wait()
		}
		s.want(t, 5, 3, 25)
		c.Do(task{time.Hour}) // one that hangs
		c.Do(task{})
		c.Do(task{})
		s.want(t, 6, 3, 27)
		c.Close()
		s.want(t, 6, 5, 27)
		c.Do(task{}) // somebody may come late
		s.want(t, 7, 6, 28)
		time.Sleep(time.Hour)
		s.want(t, 7, 7, 29)
	})
}

// Each task is done once, whichever workers come and go.
func TestCrewUnderLoad(t *testing.T) {
	var s staff
	c := newCrew(3, s.hire)
	var all sync.WaitGroup
	const callers, each = 8, 500
	for range callers {
		all.Go(func() {
			for range each {
				c.Do(task{})
			}
		})
	}
	all.Wait()
	c.Close()
	for s.done.Load() < callers*each || s.left.Load() < s.hired.Load() {
		time.Sleep(time.Millisecond)
	}
	if s.done.Load() != callers*each || s.left.Load() != s.hired.Load() {
		t.Errorf("%d done, %d hired, %d left", s.done.Load(), s.hired.Load(), s.left.Load())
	}
}
