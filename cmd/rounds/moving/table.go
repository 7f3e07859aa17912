package moving

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/accounts"
)

const maxColumns = 256

// columns are those of a table besides label.NAME and config.NAME, with what sets them.
var columns = map[string]func(*row, string){
	"id":       func(r *row, text string) { r.e.Account.ID = text },
	"kind":     func(r *row, text string) { r.e.Account.Kind = text },
	"cadence":  func(r *row, text string) { r.e.Account.Cadence = text },
	"priority": func(r *row, text string) { r.e.Account.Priority = text },
	"url":      func(r *row, text string) { r.url = text },
	"title":    func(r *row, text string) { r.e.label(titleLabel, text) },
	"folder":   func(r *row, text string) { r.e.label(folderLabel, text) },
	"paused":   (*row).pause,
}

// row is a line of a table while it is read.
type row struct {
	e      Entry
	url    string
	config map[string]any
}

// isTable reports whether a line is the head of a table.
func isTable(head string) bool {
	names, err := newTable(strings.NewReader(head), separatorOf(head)).Read()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(names, func(name string) bool {
		name = columnName(name)
		return name == "id" || name == "url"
	})
}

func columnName(text string) string {
	name := strings.TrimSpace(text)
	if lower := strings.ToLower(name); columns[lower] != nil {
		return lower
	}
	return name
}

// separatorOf returns what is between the columns of a head: a comma, a semicolon, as Excel writes
// it in many countries, or a tab.
func separatorOf(head string) rune {
	best, most := ',', strings.Count(head, ",")
	for _, separator := range []rune{';', '\t'} {
		if n := strings.Count(head, string(separator)); n > most {
			best, most = separator, n
		}
	}
	return best
}

func newTable(in io.Reader, separator rune) *csv.Reader {
	table := csv.NewReader(in)
	table.Comma, table.FieldsPerRecord, table.ReuseRecord = separator, -1, true
	return table
}

// readTable returns the entries of a table. A bad head is an *UnreadableError.
func readTable(in io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		budget := &budget{in: in, left: rowBudget}
		plain := Plain(budget)
		head, _ := plain.Peek(look) // as much as there is
		line, _, _ := strings.Cut(strings.TrimLeft(string(head), "\r\n"), "\n")
		table := newTable(plain, separatorOf(line))
		names, err := table.Read()
		if err != nil {
			yield(Entry{}, tableError(err, "there is no first line that names the columns"))
			return
		}
		setters, err := readHead(names)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for {
			budget.left = rowBudget
			cells, err := table.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			var bad *csv.ParseError
			switch {
			case errors.As(err, &bad):
				e := Entry{Line: bad.StartLine, Faults: accounts.Faults{{Field: accounts.RecordField, Reason: fmt.Sprintf("line %d, column %d: a quote is out of place; a cell with one stands in quotes, and the quote in it twice", bad.Line, bad.Column)}}}
				if !yield(e, nil) {
					return
				}
				continue
			case err != nil:
				yield(Entry{}, tableError(err, ""))
				return
			}
			at, _ := table.FieldPos(0)
			if e, blank := readRow(at, cells, setters); !blank && !yield(e, nil) {
				return
			}
		}
	}
}

func tableError(err error, without string) error {
	switch {
	case errors.Is(err, errRow):
		return unreadable("%v", err)
	case errors.Is(err, io.EOF):
		return unreadable("%s", without)
	}
	var bad *csv.ParseError
	if errors.As(err, &bad) {
		return unreadable("line %d, column %d: a quote is out of place", bad.Line, bad.Column)
	}
	return err
}

// setter sets what a column says.
type setter struct {
	name string
	set  func(*row, string)
}

// readHead returns what sets each column.
func readHead(names []string) ([]setter, error) {
	if len(names) > maxColumns {
		return nil, unreadable("line 1: there are more than %d columns", maxColumns)
	}
	setters := make([]setter, len(names))
	seen := make(map[string]bool)
	for i, text := range names {
		name := columnName(text)
		s := setter{name: name, set: columns[name]}
		if label, ok := strings.CutPrefix(name, "label."); ok && label != "" {
			s.set = func(r *row, text string) { r.e.label(label, text) }
		}
		if field, ok := strings.CutPrefix(name, "config."); ok && field != "" {
			s.set = func(r *row, text string) { r.configure(strings.Split(field, "."), name, text) }
		}
		switch {
		case s.set == nil:
			return nil, unreadable("line 1, column %d: %.40q is not a column: there are %s, label.NAME and config.NAME", i+1, name, strings.Join(slices.Sorted(maps.Keys(columns)), ", "))
		case seen[name]:
			return nil, unreadable("line 1, column %d: there are two columns %.40q", i+1, name)
		}
		seen[name], setters[i] = true, s
	}
	return setters, nil
}

// readRow reads a line. An empty cell says nothing.
func readRow(line int, cells []string, setters []setter) (e Entry, blank bool) {
	r := &row{e: Entry{Line: line}}
	blank = true
	for i, cell := range cells {
		cell = strings.Clone(strings.TrimSpace(cell))
		if cell == "" {
			continue
		}
		blank = false
		if i >= len(setters) {
			r.e.Faults.Add(accounts.RecordField, fmt.Sprintf("has %d columns, and the first line names %d", len(cells), len(setters)))
			break
		}
		setters[i].set(r, cell)
	}
	r.finish()
	return r.e, blank
}

// finish makes the account of what the columns said.
func (r *row) finish() {
	a := &r.e.Account
	if a.Kind == "" && r.url != "" {
		a.Kind = feedKind
	}
	if a.Kind == feedKind && r.url != "" && len(r.e.Faults) == 0 {
		one := feed{url: r.url}
		made := one.entry(r.e.Line)
		if r.e.Faults = made.Faults; made.Faults == nil {
			// The secrets of the address keep the names that its own id gives them.
			var config map[string]any
			_ = json.Unmarshal(made.Account.Config, &config) // just made
			for name, value := range config {
				if _, given := r.config[name]; !given {
					r.setConfig(name, value)
				}
			}
			r.e.Secrets = made.Secrets
			if a.ID == "" {
				a.ID = made.Account.ID
			}
		}
	} else if r.url != "" {
		r.setConfig("url", r.url)
	}
	if r.config != nil {
		a.Config = mustJSON(r.config)
	}
}

func (r *row) setConfig(name string, value any) {
	if r.config == nil {
		r.config = make(map[string]any)
	}
	r.config[name] = value
}

// configure sets a field of the config, and creates the objects around it. What is JSON other than
// a bare word is read as JSON, as with --set.
func (r *row) configure(path []string, column, text string) {
	if r.config == nil {
		r.config = make(map[string]any)
	}
	at := r.config
	for _, name := range path[:len(path)-1] {
		inner, ok := at[name].(map[string]any)
		if !ok {
			if at[name] != nil {
				r.e.Faults.Add(column, "is within a field that has another value")
				return
			}
			inner = make(map[string]any)
			at[name] = inner
		}
		at = inner
	}
	var value any = text
	if json.Valid([]byte(text)) {
		value = json.RawMessage(text)
	}
	at[path[len(path)-1]] = value
}

func (r *row) pause(text string) {
	switch strings.ToLower(text) {
	case "true", "yes", "1":
		r.e.Paused = true
	case "false", "no", "0":
	default:
		r.e.Faults.Add("paused", "must be true or false")
	}
}

// rowBudget is the most bytes of a line, with what is read ahead.
const rowBudget = accounts.MaxRecord + 64<<10

// errRow reports a line that does not end, such as one with an open quote.
var errRow = fmt.Errorf("a line has more than %d bytes: a quote may be open", accounts.MaxRecord)

// budget is a reader of which only so much may be read at a time.
type budget struct {
	in   io.Reader
	left int
}

// Read reads within the budget.
func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 && len(p) > 0 {
		return 0, errRow
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
