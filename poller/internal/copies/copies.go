// Package copies has what a process has lately read of values that are stored elsewhere.
package copies

import "sync"

// Copies are the values by name. If one more is too many, all others are dropped: each can be
// read again. It is safe for concurrent use.
type Copies[K comparable, V any] struct {
	most, mostBytes int
	size            func(V) int

	mu    sync.Mutex
	all   map[K]V
	bytes int
}

// New returns no copies yet, and has at most so many later, which together have at most so many
// bytes by size. A nil size counts none.
func New[K comparable, V any](most, mostBytes int, size func(V) int) *Copies[K, V] {
	if size == nil {
		size = func(V) int { return 0 }
	}
	return &Copies[K, V]{most: most, mostBytes: mostBytes, size: size, all: make(map[K]V)}
}

// Get returns the copy of a name, if there is one.
func (c *Copies[K, V]) Get(name K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.all[name]
	return v, ok
}

// Put replaces the copy of a name.
func (c *Copies[K, V]) Put(name K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(name)
	size := c.size(v)
	if len(c.all) >= c.most || c.bytes+size > c.mostBytes {
		c.dropAll()
	}
	c.bytes += size
	c.all[name] = v
}

// Drop drops the copy of a name if it is the one that is meant.
func (c *Copies[K, V]) Drop(name K, meant func(V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.all[name]; ok && meant(v) {
		c.drop(name)
	}
}

// DropAll drops all copies.
func (c *Copies[K, V]) DropAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropAll()
}

func (c *Copies[K, V]) drop(name K) {
	if v, ok := c.all[name]; ok {
		c.bytes -= c.size(v)
		delete(c.all, name)
	}
}

func (c *Copies[K, V]) dropAll() {
	clear(c.all)
	c.bytes = 0
}
