// Package admin has the commands for administrators: keys, secrets, and the trail of who
// changed what.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

// Env has what the commands get from the program.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Lookup finds variables of the environment.
	Lookup func(name string) (value string, ok bool)
	// Terminal reports whether a stream is a terminal.
	Terminal func(stream any) bool
	// Ask asks the person at the terminal a yes-or-no question. Otherwise is the flag that
	// answers it without a terminal.
	Ask func(calls *client.Client, question, otherwise string) (bool, error)
	// NeedsCommand makes a command that only has subcommands refuse an unknown subcommand.
	NeedsCommand func(*cobra.Command)
	// Calls returns the function of a command that calls the API. The command's flags and
	// settings say where the API is.
	Calls func(fn func(cmd *cobra.Command, args []string, calls *client.Client) error) func(*cobra.Command, []string) error
	// IDs completes the ids of accounts. If it is nil, they are not completed.
	IDs cobra.CompletionFunc
	// Labels completes labels of accounts, and Keys the names of keys. Those that are nil are
	// not completed.
	Labels, Keys cobra.CompletionFunc
	// RedisFlags adds the flags that say where Redis is. Keyring calls a function with the
	// keys in the Redis that a command's flags and settings name.
	RedisFlags func(flags *pflag.FlagSet)
	// Restore calls a function with a new ring where a backup goes, and keeps programs from
	// using it meanwhile. It fails where something is already.
	Restore func(cmd *cobra.Command, where Restoring, use func(ctx context.Context, ring *circulate.Ring) error) error
	Keyring func(cmd *cobra.Command, use func(ctx context.Context, keys *key.Keyring) error) error
}

// pageSize is how many items a listing asks for at once.
const pageSize = 100

// table prints items as rows under a header, or as JSON, one item a line.
type table[T any] struct {
	out  io.Writer
	rows *tabwriter.Writer
	json bool
	row  func(T) string // an item's columns, with tabs between them
}

func newTable[T any](out io.Writer, asJSON bool, header string, row func(T) string) *table[T] {
	t := &table[T]{out: out, rows: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), json: asJSON, row: row}
	if !asJSON {
		fmt.Fprintln(t.rows, header)
	}
	return t
}

// print prints some items. It may be called for each page of a listing.
func (t *table[T]) print(items []T) error {
	for _, item := range items {
		if t.json {
			if err := printJSON(t.out, item); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(t.rows, terminal.Row(t.row(item)))
	}
	return t.rows.Flush()
}

// printJSON prints a value on one line.
func printJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// oneLine returns a text as one printable line, so that it cannot change the output around it.
func oneLine(text string) string { return terminal.OneLine(text) }

// clockTime returns a time as text, in the local time zone.
func clockTime(t time.Time) string { return t.Local().Format(time.DateTime) }
