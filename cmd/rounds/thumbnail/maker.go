package thumbnail

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

const (
	// keptBytes is roughly how many bytes of thumbnails and refusals a Maker remembers.
	keptBytes = 16 << 20
	// besides is roughly what one of them takes besides the bytes of the thumbnail.
	besides = 512
)

// Maker makes thumbnails, one at a time, and remembers the latest. Its methods may be called by any
// goroutine.
type Maker struct {
	turn chan struct{}

	mu     sync.Mutex
	latest list.List // of *entry, the one that was asked for last in front
	by     map[string]*list.Element
	bytes  int
}

// entry is what became of an image.
type entry struct {
	hash    string
	image   *Image
	refusal *Refusal // if there is no thumbnail
}

func (e *entry) size() int {
	if e.image == nil {
		return besides
	}
	return besides + len(e.image.Bytes)
}

// NewMaker returns a Maker.
func NewMaker() *Maker {
	return &Maker{turn: make(chan struct{}, 1), by: make(map[string]*list.Element)}
}

// Of returns the thumbnail of the image with a hash. If it is not remembered, read returns the
// image's bytes, at most MaxBytes + 1 of them. Its error is a *Refusal, or that of read or ctx.
func (m *Maker) Of(ctx context.Context, hash string, read func(context.Context) ([]byte, error)) (*Image, error) {
	if one := m.remembered(hash); one != nil {
		return one.result()
	}
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if one := m.remembered(hash); one != nil { // made meanwhile
		return one.result()
	}
	data, err := read(ctx)
	if err != nil {
		return nil, err
	}
	one := &entry{hash: hash}
	if one.image, err = Make(ctx, data); err != nil && !errors.As(err, &one.refusal) {
		return nil, err
	}
	m.remember(one)
	return one.result()
}

func (e *entry) result() (*Image, error) {
	if e.refusal != nil {
		return nil, e.refusal
	}
	return e.image, nil
}

func (m *Maker) remembered(hash string) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.by[hash]
	if e == nil {
		return nil
	}
	m.latest.MoveToFront(e)
	return e.Value.(*entry)
}

func (m *Maker) remember(one *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.by[one.hash] = m.latest.PushFront(one)
	for m.bytes += one.size(); m.bytes > keptBytes; {
		last := m.latest.Remove(m.latest.Back()).(*entry)
		delete(m.by, last.hash)
		m.bytes -= last.size()
	}
}
