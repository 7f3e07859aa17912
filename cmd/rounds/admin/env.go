// Package admin has the commands for those who look after the service: who changed what, and
// who may.
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

	"github.com/rounds-dev/rounds/accounts/access/key"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

// Env is what the program lends its commands.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Lookup finds variables of the environment.
	Lookup func(name string) (value string, ok bool)
	// Terminal reports whether a person sits at a stream.
	Terminal func(stream any) bool
	// Ask asks the person there whether to go on; otherwise is the flag that answers.
	Ask func(question, otherwise string) (bool, error)
	// NeedsCommand has a command that only holds others refuse what is none of them.
	NeedsCommand func(*cobra.Command)
	// Calls has a command call the API that its flags and settings name.
	Calls func(fn func(cmd *cobra.Command, args []string, calls *client.Client) error) func(*cobra.Command, []string) error
	// IDs completes the ids of accounts; nil: nothing does.
	IDs cobra.CompletionFunc
	// Labels completes labels of accounts, and Keys names of keys; nil: nothing does.
	Labels, Keys cobra.CompletionFunc
	// RedisFlags adds the flags that say where Redis is, and Keyring has a function use the
	// keys that are there, in the Redis that a command's flags and settings name.
	RedisFlags func(flags *pflag.FlagSet)
	Keyring    func(cmd *cobra.Command, use func(ctx context.Context, keys *key.Keyring) error) error
}

// pageSize is how many items a listing asks for at once.
const pageSize = 100

// table prints rows under a header, or as JSON, one a line.
type table[T any] struct {
	out  io.Writer
	rows *tabwriter.Writer
	json bool
	row  func(T) string // its columns, with tabs between
}

func newTable[T any](out io.Writer, asJSON bool, header string, row func(T) string) *table[T] {
	t := &table[T]{out: out, rows: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), json: asJSON, row: row}
	if !asJSON {
		fmt.Fprintln(t.rows, header)
	}
	return t
}

// print prints what there is now.
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

// oneLine keeps a text from moving what stands around it.
func oneLine(text string) string { return terminal.OneLine(text) }

// clockTime is a time as people here write it.
func clockTime(t time.Time) string { return t.Local().Format(time.DateTime) }
