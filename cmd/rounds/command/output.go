package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rounds-dev/rounds/cmd/rounds/backup"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
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
	now  func() time.Time

	mu    sync.Mutex
	lines int
	shown time.Time
	dirty bool // a line must be cleared
}

func newProgress(env environment, what string) *progress {
	p := &progress{what: what, now: time.Now}
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
	if now := p.now(); p.w != nil && now.Sub(p.shown) >= progressPause {
		p.shown, p.dirty = now, true
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

// newTable returns a table whose columns are as wide as their texts.
func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// printTable prints items as rows under a header. row returns the columns of an item, with tabs between.
func printTable[T any](out io.Writer, header string, items []T, row func(T) string) error {
	return newListing(out, false, header, row).print(items)
}

// listing prints items: as rows under a header, or as JSON, one a line.
type listing[T any] struct {
	out   io.Writer
	table *tabwriter.Writer
	json  bool
	row   func(T) string // its columns, with tabs between
}

func newListing[T any](out io.Writer, asJSON bool, header string, row func(T) string) *listing[T] {
	l := &listing[T]{out: out, table: newTable(out), json: asJSON, row: row}
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

// showing makes a command ask for something and show it: as JSON with --json, or else by print.
func showing[T any](env environment, cmd *cobra.Command, jsonUsage string, ask func(ctx context.Context, calls *client.Client, args []string) (T, error), print func(T) error) *cobra.Command {
	jsonOutput := cmd.Flags().Bool("json", false, jsonUsage)
	cmd.RunE = withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
		found, err := ask(cmd.Context(), calls, args)
		if err != nil {
			return err
		}
		if *jsonOutput {
			return printJSON(env.stdout, found)
		}
		return print(found)
	})
	return cmd
}

// list is what a command lists.
type list[T any] struct {
	header string
	row    func(T) string // its columns, with tabs between
	none   string         // what is said in place of an empty table; empty: the table is printed
	limit  *int           // the default of --limit; nil: there is no such flag

	// page returns the items after a cursor, at most so many, and the next cursor, which is empty at the
	// end.
	page func(ctx context.Context, calls *client.Client, cursor string, most int) (items []T, next string, err error)
}

// listingCommand makes a command list items: as rows under a header, or as JSON, one a line.
func listingCommand[T any](env environment, cmd *cobra.Command, l list[T]) *cobra.Command {
	limit := new(int)
	if l.limit != nil {
		limit = l.limit
		cmd.Flags().IntVar(limit, "limit", *limit, "at most this many; 0: all")
	}
	jsonOutput := cmd.Flags().Bool("json", false, "print them as JSON, one a line")
	cmd.Args = cobra.NoArgs
	cmd.RunE = withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
		out, listed := newListing(env.stdout, *jsonOutput, l.header, l.row), 0
		for cursor := ""; ; {
			most := pageSize
			if *limit > 0 {
				most = min(most, *limit-listed)
			}
			items, next, err := l.page(cmd.Context(), calls, cursor, most)
			if err != nil {
				return err
			}
			listed += len(items)
			if listed == 0 && next == "" && l.none != "" && !*jsonOutput {
				return env.tell("%s", l.none)
			}
			if err := out.print(items); err != nil {
				return err
			}
			if cursor = next; cursor == "" || *limit > 0 && listed >= *limit {
				return nil
			}
		}
	})
	return cmd
}

// whole makes a page of everything that a call returns.
func whole[L, T any](ask func(*client.Client, context.Context) (L, error), items func(L) []T) func(context.Context, *client.Client, string, int) ([]T, string, error) {
	return func(ctx context.Context, calls *client.Client, _ string, _ int) ([]T, string, error) {
		all, err := ask(calls, ctx)
		return items(all), "", err
	}
}

// joined returns the texts of items with commas between them.
func joined[T any](items []T, text func(T) string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = text(item)
	}
	return strings.Join(texts, ", ")
}

// printJSON prints a value on one line.
func printJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// numberOf returns a number of things, with the right form for one.
func numberOf(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "s"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

const (
	// gaugeWidth is the width of a terminal that does not report one.
	gaugeWidth = 80
	// gaugeSure is how long work goes on before the remaining time is estimated.
	gaugeSure = 2 * time.Second
)

// gauge shows on a line of a terminal how far a backup or a restore has got. It shows nothing if
// standard error is not a terminal.
type gauge struct {
	line  *progress
	width func() int

	doing string
	began time.Time
}

func newGauge(env environment) *gauge {
	g := &gauge{line: newProgress(env, ""), width: func() int { return gaugeWidth }}
	if file, ok := g.line.w.(*os.File); ok {
		g.width = func() int {
			if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
				return columns
			}
			return gaugeWidth
		}
	}
	return g
}

// begin begins a piece of work, whose name the line shows.
func (g *gauge) begin(doing string) {
	g.doing, g.began, g.line.shown = doing, g.line.now(), time.Time{}
}

// show shows how much of about how much is done, as far as that is known, and how many bytes that
// was, unless 0.
func (g *gauge) show(done, about backup.Counts, size int64) {
	texts := []string{counted(done.Accounts, about.Accounts, "accounts"), counted(done.Messages, about.Messages, "messages")}
	if size > 0 {
		texts = append(texts, megabytes(size))
	}
	if left := g.left(g.line.now(), done, about); left > 0 {
		texts = append(texts, "about "+left.String()+" left")
	}
	line := g.doing + ": " + strings.Join(texts, ", ")
	// The last column stays free: some terminals begin a new line after it.
	g.line.show(line[:min(len(line), max(0, g.width()-1))])
}

// left estimates how long the rest takes, in whole seconds. It returns 0 if it cannot tell.
func (g *gauge) left(now time.Time, done, about backup.Counts) time.Duration {
	all, so := about.Accounts+about.Messages, done.Accounts+done.Messages
	took := now.Sub(g.began)
	if took < gaugeSure || so <= 0 || so >= all {
		return 0
	}
	left := time.Duration(float64(took) * float64(all-so) / float64(so))
	return max(time.Second, left.Round(time.Second))
}

// end removes the line.
func (g *gauge) end() { g.line.clear() }

func counted(n, of int, what string) string {
	if of <= 0 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d of %d %s", n, max(n, of), what)
}

// megabytes returns a size for people.
func megabytes(size int64) string {
	switch {
	case size < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(size)/1e3)
	case size < 10_000_000:
		return fmt.Sprintf("%.1f MB", float64(size)/1e6)
	}
	return fmt.Sprintf("%.0f MB", float64(size)/1e6)
}

// metered is a writer to a meter that also shows the progress.
type metered struct {
	backup.Meter
	gauge *gauge
}

// Write counts and shows.
func (m *metered) Write(text []byte) (int, error) {
	n, err := m.Meter.Write(text)
	m.gauge.show(m.Counts, m.About, m.Bytes)
	return n, err
}

// contents describes a backup's content for people.
func contents(c backup.Counts) string {
	texts := []string{
		numberOf(c.Accounts, "account"), numberOf(c.Messages, "message"), numberOf(c.Dead, "dead letter"),
	}
	for _, more := range []struct {
		n    int
		what string
	}{{c.Keys, "key"}, {c.Webhooks, "disabled webhook"}, {c.Secrets, "sealed secret"}, {c.Credentials, "sealed credential"}, {c.Files, "file in the list"}, {c.Terms, "window or silence"}, {c.Endpoints, "endpoint"}} {
		if more.n > 0 {
			texts = append(texts, numberOf(more.n, more.what))
		}
	}
	return strings.Join(texts[:len(texts)-1], ", ") + " and " + texts[len(texts)-1]
}

// took returns for people how long something took.
func took(d time.Duration) string {
	if d < time.Second {
		return "less than a second"
	}
	return d.Round(time.Second).String()
}
