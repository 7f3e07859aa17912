package group

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	// lookoutBlock is the longest that one wait for messages lasts.
	lookoutBlock = time.Second
	// lookoutShort is how long the first wait lasts that leaves a shard out: a caller
	// that returns to that shard has to wait for its end. Each such wait in a row lasts
	// twice as long, up to lookoutShortMax.
	lookoutShort    = 10 * time.Millisecond
	lookoutShortMax = 160 * time.Millisecond
	// lookoutPause follows a wait that failed.
	lookoutPause = 250 * time.Millisecond
	// lookoutMemory is how long a shard that nobody watches is still waited for. So a
	// caller that returns to it turn after turn is woken at once.
	lookoutMemory = 15 * time.Second
)

// lookouts are the lookouts of a ring, by node.
type lookouts struct {
	mu    sync.Mutex
	nodes map[string]*lookout
}

func (o *lookouts) of(g *Groups, node string) *lookout {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.nodes[node]
	if l == nil {
		l = &lookout{groups: g, streams: make(map[int]*watchedStream), changed: make(chan struct{}, 1)}
		if o.nodes == nil {
			o.nodes = make(map[string]*lookout)
		}
		o.nodes[node] = l
	}
	return l
}

func (o *lookouts) all() []*lookout {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]*lookout, 0, len(o.nodes))
	for _, l := range o.nodes {
		all = append(all, l)
	}
	return all
}

// lookout waits for the messages of one node's shards, for all watches in this process.
// It has a goroutine while there is a watch.
type lookout struct {
	groups *Groups

	mu      sync.Mutex
	streams map[int]*watchedStream // by shard
	short   time.Duration          // length of the last wait that left a shard out
	resting chan struct{}          // closed when the goroutine ends; nil: there is none
	changed chan struct{}          // has a value after something was expected or left
}

// watchedStream is the messages of one shard.
type watchedStream struct {
	watches   int
	left      time.Time // when the last watch ended
	tail      string    // the last known message; empty: none is known
	expecting map[*expectation]struct{}
	muted     bool // it has messages, and no watch expects any
}

type expectation struct {
	watch *Watch
	after string
	wake  func()
}

func (l *lookout) enter(shard int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream(shard).watches++
	if l.resting == nil {
		l.resting = make(chan struct{})
		go l.run(l.resting)
	}
}

// stream returns the messages of a shard. The caller holds mu.
func (l *lookout) stream(shard int) *watchedStream {
	s := l.streams[shard]
	if s == nil {
		s = &watchedStream{expecting: make(map[*expectation]struct{})}
		l.streams[shard] = s
	}
	return s
}

func (l *lookout) exit(shard int) {
	l.mu.Lock()
	s := l.stream(shard)
	s.watches--
	s.left = time.Now()
	l.mu.Unlock()
	l.signal()
}

func (l *lookout) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// atRest returns a channel that is closed when no wait is under way, or while there is a
// watch.
func (l *lookout) atRest() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resting != nil && !l.watched() {
		return l.resting
	}
	now := make(chan struct{})
	close(now)
	return now
}

// watched reports whether a shard has a watch. The caller holds mu.
func (l *lookout) watched() bool {
	for _, s := range l.streams {
		if s.watches > 0 {
			return true
		}
	}
	return false
}

// expect calls wake once the watch's shard has a message after a position, unless leave is called
// first.
func (l *lookout) expect(w *Watch, after string, wake func()) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stream(w.shard)
	switch c := circulate.ComparePositions(after, s.tail); {
	case s.tail == "" || c > 0:
		s.tail = after
	case c < 0 && (w.told != s.tail || w.from != after):
		w.told, w.from = s.tail, after
		wake()
		return func() {}
	case c < 0:
		// The watch was woken for that message and did not find it: Redis has lost it.
		s.tail = after
	}
	p := &expectation{watch: w, after: after, wake: wake}
	s.expecting[p] = struct{}{}
	if s.muted {
		s.muted, l.short = false, 0
	}
	l.signal()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(s.expecting, p)
	}
}

func (l *lookout) run(resting chan struct{}) {
	defer close(resting)
	for {
		after, block, goOn := l.next()
		switch {
		case !goOn:
			return
		case len(after) == 0:
			<-l.changed
			continue
		}
		arrived, err := l.groups.await(context.Background(), after, block)
		if err != nil {
			// All the same, each watcher looks by itself from time to time.
			l.groups.wire.Log().Debug("waiting for messages failed", "error", err)
			l.pause()
			continue
		}
		for _, a := range arrived {
			l.arrive(a)
		}
	}
}

// pause waits a little, unless no watch is left.
func (l *lookout) pause() {
	timer := time.NewTimer(lookoutPause)
	defer timer.Stop()
	for {
		l.mu.Lock()
		watched := l.watched()
		l.mu.Unlock()
		if !watched {
			return
		}
		select {
		case <-timer.C:
			return
		case <-l.changed:
		}
	}
}

// next returns the positions to wait after, and for how long. If no watch is left, it
// ends the goroutine and clears its state.
func (l *lookout) next() (after map[int]string, block time.Duration, goOn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.watched() {
		clear(l.streams)
		l.resting = nil
		return nil, 0, false
	}
	after, block = make(map[int]string, len(l.streams)), lookoutBlock
	muted := false
	for shard, s := range l.streams {
		switch {
		case s.watches == 0 && time.Since(s.left) > lookoutMemory:
			delete(l.streams, shard)
		case s.muted:
			muted = muted || s.watches > 0
		case s.tail != "":
			after[shard] = s.tail
		}
	}
	if muted {
		l.short = min(lookoutShortMax, max(lookoutShort, 2*l.short))
		block = l.short
	}
	return after, block, true
}

// arrive wakes the watches that expect a message.
func (l *lookout) arrive(a arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.streams[a.shard]
	if s == nil {
		return
	}
	if a.position != "" && circulate.ComparePositions(a.position, s.tail) > 0 {
		s.tail = a.position
	}
	if len(s.expecting) == 0 {
		s.muted = true
		return
	}
	for p := range s.expecting {
		if a.position == "" || circulate.ComparePositions(p.after, a.position) < 0 {
			delete(s.expecting, p)
			p.watch.told, p.watch.from = a.position, p.after
			p.wake()
		}
	}
}

// Watch is an interest in the messages of one shard. However many watches a process has,
// of however many groups, it waits for their messages with one command for each node of
// Redis. A watch only wakes: it delivers nothing. If a wake-up is lost with its
// connection, the next wait, from the same positions, repeats it.
//
// A Watch is for one goroutine at a time. Close it.
type Watch struct {
	groups *Groups
	shard  int
	at     *lookout // of the node that serves the shard
	told   string   // the position that it was last woken for
	from   string   // the position after which it expected one then
}

// Watch begins to watch a shard.
func (g *Groups) Watch(shard int) *Watch {
	w := &Watch{groups: g, shard: shard, at: g.lookouts.of(g, g.ring.Node(shard))}
	w.at.enter(shard)
	return w
}

// Expect calls wake once, when the shard has a message after a position, which may be at
// once, unless leave is called first. Wake must not block. It may be called without a
// message.
func (w *Watch) Expect(after string, wake func()) (leave func()) {
	if at := w.groups.lookouts.of(w.groups, w.groups.ring.Node(w.shard)); at != w.at {
		w.at.exit(w.shard)
		w.at = at
		at.enter(w.shard)
	}
	return w.at.expect(w, after, wake)
}

// Close ends the watch. It must expect nothing.
func (w *Watch) Close() { w.at.exit(w.shard) }

// Unwatched returns when no wait for messages is under way. While there is a [Watch] it
// returns at once, because the wait then belongs to that watch.
func (g *Groups) Unwatched(ctx context.Context) {
	for _, l := range g.lookouts.all() {
		select {
		case <-l.atRest():
		case <-ctx.Done():
			return
		}
	}
}

const (
	// gatherFor is the least time that a question waits for others.
	gatherFor = 20 * time.Millisecond
	// gatherMax is the most questions that are asked together.
	gatherMax = 256
	// gatherAtOnce is how many steps are under way at once, over all shards. The longer
	// they take, the more questions share one.
	gatherAtOnce = 8
)

// gathering answers questions about a shard in one step, when many groups of a process
// ask at about the same time.
type gathering[Q, A any] struct {
	mu      sync.Mutex
	waiting map[int][]*asked[Q, A] // by shard
	slots   chan struct{}
}

// asked is a question, and its answer or error.
type asked[Q, A any] struct {
	question Q
	answer   A
	err      error
	done     chan struct{}
}

// ask asks a question and waits. Answer is soon called with a batch of questions that
// includes it.
func (g *gathering[Q, A]) ask(ctx context.Context, shard int, question Q, answer func(shard int, all []*asked[Q, A])) (A, error) {
	one := &asked[Q, A]{question: question, done: make(chan struct{})}
	g.add(shard, one, answer)
	select {
	case <-one.done:
		return one.answer, one.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

// add lets a question wait with others about the same shard, until all are asked together.
func (g *gathering[Q, A]) add(shard int, one *asked[Q, A], answer func(shard int, all []*asked[Q, A])) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == nil {
		g.waiting, g.slots = make(map[int][]*asked[Q, A]), make(chan struct{}, gatherAtOnce)
	}
	g.waiting[shard] = append(g.waiting[shard], one)
	if len(g.waiting[shard]) > 1 {
		return // the first question takes the others along
	}
	time.AfterFunc(gatherFor, func() {
		g.slots <- struct{}{}
		defer func() { <-g.slots }()
		g.mu.Lock()
		all := g.waiting[shard]
		delete(g.waiting, shard)
		g.mu.Unlock()
		for some := range slices.Chunk(all, gatherMax) {
			answer(shard, some)
			for _, one := range some {
				close(one.done)
			}
		}
	})
}
