package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

// progressPause is the least time between two updates of a progress line. A terminal must not slow
// the work down.
const progressPause = 100 * time.Millisecond

// progress counts lines and shows the count on a line of a terminal. If standard error is not a
// terminal, it only counts.
type progress struct {
	w    io.Writer // nil: silent
	what string

	mu    sync.Mutex
	lines int
	shown time.Time
	dirty bool // a line must be cleared
}

func newProgress(env environment, what string) *progress {
	p := &progress{what: what}
	if env.terminal(env.stderr) {
		p.w = bare(env.stderr)
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

// add counts n more.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines += n
	p.showLocked(fmt.Sprintf("%d %s", p.lines, p.what))
}

// show shows the progress of something that does not count lines.
func (p *progress) show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.showLocked(text)
}

func (p *progress) showLocked(text string) {
	if p.w != nil && time.Since(p.shown) >= progressPause {
		p.shown, p.dirty = time.Now(), true
		fmt.Fprintf(p.w, "\r\x1b[K%s", oneLine(text))
	}
}

// clear clears the line for other output, which may be on the same terminal.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dirty {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.dirty = false
	}
}

// done ends the line. Nothing is shown after that.
func (p *progress) done() {
	p.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w = nil
}

// pageSize is how many items a listing asks for at once.
const pageSize = 100

// listing prints items: as rows under a header, or as JSON, one a line.
type listing[T any] struct {
	out   io.Writer
	table *tabwriter.Writer
	json  bool
	row   func(T) string // its columns, with tabs between
}

func newListing[T any](out io.Writer, asJSON bool, header string, row func(T) string) *listing[T] {
	l := &listing[T]{out: out, table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), json: asJSON, row: row}
	if !asJSON {
		fmt.Fprintln(l.table, header)
	}
	return l
}

// print prints the given items. It prints page by page, because a listing may be very long.
func (l *listing[T]) print(items []T) error {
	for _, item := range items {
		if l.json {
			if err := printJSON(l.out, item); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(l.table, terminal.Row(l.row(item)))
	}
	return l.table.Flush()
}

// pages prints up to limit items, or all if it is 0. read returns a page of at most that many items
// after a cursor, and the next cursor, which is empty at the end.
func (l *listing[T]) pages(limit int, read func(cursor string, most int) (items []T, next string, err error)) error {
	cursor := ""
	for listed := 0; ; {
		most := pageSize
		if limit > 0 {
			most = min(most, limit-listed)
		}
		items, next, err := read(cursor, most)
		if err != nil {
			return err
		}
		if err := l.print(items); err != nil {
			return err
		}
		listed, cursor = listed+len(items), next
		if cursor == "" || limit > 0 && listed >= limit {
			return nil
		}
	}
}

// printJSON prints a value on one line.
func printJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
