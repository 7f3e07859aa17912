package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Write prints a report for people: a line for each check, and then what to do. plain
// makes others' texts printable.
func (r *Report) Write(w io.Writer, plain func(string) string) error {
	var b strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-8s %-13s %s\n", c.Status, c.Part, plain(c.Text))
	}
	b.WriteByte('\n')
	if len(r.Todo) == 0 {
		b.WriteString("Nothing to do.\n")
	} else {
		b.WriteString("What to do:\n")
	}
	for i, do := range r.Todo {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, plain(do))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
