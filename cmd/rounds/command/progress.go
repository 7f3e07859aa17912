package command

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// progressPause is how long a progress line stays as it is: a terminal must not
// slow the work down.
const progressPause = 100 * time.Millisecond

// progress counts lines that go by and says so on a line of a terminal. Where
// standard error is no terminal it only counts.
type progress struct {
	w    io.Writer // nil: silent
	what string

	mu    sync.Mutex
	lines int
	shown time.Time
	dirty bool // there is a line to be cleared
}

func newProgress(env environment, what string) *progress {
	p := &progress{what: what}
	if env.terminal(env.stderr) {
		p.w = env.stderr
	}
	return p
}

// counting counts the lines that are read from r.
func (p *progress) counting(r io.Reader) io.Reader { return io.TeeReader(r, p) }

// Write counts the lines of text. It never fails.
func (p *progress) Write(text []byte) (int, error) {
	p.add(bytes.Count(text, []byte{'\n'}))
	return len(text), nil
}

// add counts so many more.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines += n
	p.showLocked(fmt.Sprintf("%d %s", p.lines, p.what))
}

// show says how far something is that does not count lines.
func (p *progress) show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.showLocked(text)
}

func (p *progress) showLocked(text string) {
	if p.w != nil && time.Since(p.shown) >= progressPause {
		p.shown, p.dirty = time.Now(), true
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
	}
}

// clear makes room for other output, which may be on the same terminal.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dirty {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.dirty = false
	}
}

// done ends the line; nothing is said any more.
func (p *progress) done() {
	p.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w = nil
}
