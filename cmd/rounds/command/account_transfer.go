package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/locale"
)

func newExportCommand(env environment) *cobra.Command {
	var chosen selectorFlags
	export := accounts.Exporting{}
	format := "records"
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write the records of accounts, one a line",
		Long: `Write the record of every account, or of those that the flags select, one a line,
in the form of "account import": to a file, or to standard output if FILE is missing
or -. The file appears only once it is complete.

--with-state also writes how far each account has got: its cursor, its failures in a
row, what its cadence remembers, and why it is parked. An import into another
namespace continues from there. Stop the pollers first, or pause the accounts: messages
that are found after the export are found again in the other namespace. Messages, consumer groups,
nudges and the history of checks are never exported. Without --with-state, standard
error says what is left out.

--format opml writes the feeds among them for a feed reader, in the folders that their
label folder names; an import takes that, too.`,
		Example: `  rounds account export accounts.ndjson
  rounds account export --kind feed --label team=news feeds.ndjson
  rounds account export --with-state moved.ndjson
  rounds account export --format opml feeds.opml
  rounds account export | wc -l`,
		Args: cobra.MaximumNArgs(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			var err error
			if export.Selector, err = chosen.read(); err != nil {
				return err
			}
			switch {
			case format == "opml" && export.State:
				return errors.New("--with-state is for records: OPML has no states")
			case format == "opml":
				return exportOPML(cmd.Context(), env, calls, export.Selector, args)
			case format != "records":
				return errors.New("--format must be records or opml")
			}
			if !export.State {
				fmt.Fprintln(env.stderr, env.says("records only: cursors, failures, and which accounts are paused or parked are left out; --with-state writes them too"))
			}
			toStdout, lines := len(args) == 0 || args[0] == "-", 0
			if toStdout {
				_, err = calls.Export(cmd.Context(), export, env.stdout)
			} else {
				err = writeWhole(args[0], func(w io.Writer) (err error) {
					bar := newProgress(env, "lines written")
					defer bar.done()
					lines, err = calls.Export(cmd.Context(), export, io.MultiWriter(w, bar))
					return err
				})
			}
			if err != nil {
				return fmt.Errorf("export: %w", err)
			}
			if toStdout {
				return nil
			}
			return env.tell("%d accounts written to %s", lines, args[0])
		}),
	}
	chosen.declare(env, cmd)
	cmd.Flags().StringVar(&format, "format", format, "what is written: `records`, or opml")
	offer(cmd, "format", "records", "opml")
	cmd.Flags().BoolVar(&export.State, "with-state", false, "also write how far each account has got")
	return cmd
}

// exportOPML writes feeds to a file, or to standard output.
func exportOPML(ctx context.Context, env environment, calls *client.Client, selector accounts.Selector, args []string) error {
	leftOut := ""
	write := func(w io.Writer) (err error) {
		leftOut, err = calls.ExportOPML(ctx, selector, w)
		return err
	}
	var err error
	if len(args) == 0 || args[0] == "-" {
		err = write(env.stdout)
	} else {
		err = writeWhole(args[0], write)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	fmt.Fprintln(env.stderr, env.says("left out, because they are no feeds: %s", leftOut))
	return nil
}

// writeWhole writes a file beside its final path, and moves it there once it is
// complete. If the path exists and is not a regular file, such as /dev/null, it is
// written directly.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	if target, linkErr := filepath.EvalSymlinks(path); linkErr == nil {
		path = target
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = os.Remove(file.Name())
		}
	}()
	if err := write(file); err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func newImportCommand(env environment) *cobra.Command {
	jsonOutput, from := false, ""
	var o client.Importing
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Register or change many accounts, or move in from another program",
		Long: `Register or change many accounts: one for each line of a file, or of standard input
if FILE is -. A line is a record, in the form of "account export":

  {"id":"news","kind":"feed","config":{"url":"https://example.com/feed.xml"},"cadence":"every 1m"}

A bad line is reported and left out; the others are accepted. The exit code is 1 if
any line was bad. Of lines with the same id the last one counts, and both are
reported. Importing the same lines again changes nothing.

Lists of other programs are recognised by their content: OPML of feed readers, the
feeds of Miniflux (GET /v1/feeds), a backup of Uptime Kuma, and CSV whose first line
names the columns: id, kind, url, cadence, priority, paused, title, folder,
label.NAME and config.NAME. Folders and titles become labels, and a feed gets an id
that is computed from its URL. --dry-run says what would be done. What such a list
says and no account can say is reported after "not taken".

New accounts begin with everything that their third parties still have. With --from
now they skip everything from before their registration.`,
		Example: `  rounds account import accounts.ndjson
  rounds account import mailboxes.ndjson --from now
  rounds account import subscriptions.opml --dry-run
  rounds account export | jq -c 'select(.kind == "feed") | .cadence = "every 5m"' | rounds account import -`,
		Args: exactly(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if o.From = accounts.BeginFrom(from); o.From.Validate() != nil {
				return errors.New("--from must be backfill or now")
			}
			records := env.stdin
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer func() { _ = file.Close() }() // it is only read
				records = file
			}
			bar := newProgress(env, "lines sent")
			faults := &badLines{out: env.stdout, in: locale.OfEnvironment(env.lookup)}
			end, err := calls.ImportWith(cmd.Context(), bar.counting(records), o, func(bad api.BadLine) error {
				bar.clear()
				if jsonOutput {
					return printJSON(env.stdout, bad)
				}
				return faults.print(bad)
			})
			bar.done()
			if more := faults.printMore(); err == nil {
				err = more
			}
			if err != nil {
				return err
			}
			if err := printSummary(env, end, jsonOutput); err != nil {
				return err
			}
			if summary := end.Summary; summary.Failed > 0 {
				return fmt.Errorf("%d of %d lines were not accepted", summary.Failed, summary.Lines)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "where new accounts begin: `backfill`, with everything there is, or now; default: backfill")
	offer(cmd, "from", string(accounts.BeginBackfill), string(accounts.BeginNow))
	cmd.Flags().StringVar(&o.Format, "format", "", "what the file is, if it must not be recognised: `records`, opml, miniflux, uptime-kuma or csv")
	offer(cmd, "format", "records", "opml", "miniflux", "uptime-kuma", "csv")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only say what would be done")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print bad lines and summary as JSON, one a line")
	return cmd
}

// badLines prints the lines that an import did not accept. A file whose lines are all wrong in the
// same way would fill a screen many times over, so only the first of the same faults are printed,
// and the rest are counted.
type badLines struct {
	out  io.Writer
	in   locale.Language
	seen map[string]*sameFaults
	more []*sameFaults // faults of which some were not printed, in the order of their first line
}

// sameFaults are faults that differ only in numbers.
type sameFaults struct {
	first string
	n     int
}

const (
	shownOfSame = 20   // how many of the same faults are printed
	mostKinds   = 1000 // how many different faults are distinguished
)

// fault prints one fault, unless the same fault was printed often enough.
func (l *badLines) fault(b *bytes.Buffer, line int, id, what string) {
	same, what := l.sameAs(what)
	same.n++
	if same.n > shownOfSame {
		if same.n == shownOfSame+1 {
			l.more = append(l.more, same)
		}
		return
	}
	fmt.Fprintf(b, "line %d", line)
	if id != "" {
		fmt.Fprintf(b, ", %s", oneLine(id))
	}
	fmt.Fprintf(b, ": %s\n", what)
}

// sameAs returns the faults that count as the same as a fault, and the fault's text. Once mostKinds
// are distinguished, all further faults are "other faults".
func (l *badLines) sameAs(what string) (*sameFaults, string) {
	if l.seen == nil {
		l.seen = make(map[string]*sameFaults)
	}
	kind := withoutNumbers(what)
	if same := l.seen[kind]; same != nil {
		return same, what
	}
	if len(l.seen) >= mostKinds {
		kind, what = "", "other faults"
	}
	same := l.seen[kind]
	if same == nil {
		same = &sameFaults{first: what}
		l.seen[kind] = same
	}
	return same, what
}

func (l *badLines) print(bad api.BadLine) error {
	var b bytes.Buffer
	if bad.Repeats > 0 {
		l.fault(&b, bad.Line, bad.ID, fmt.Sprintf("has the id of line %d; the later one counts", bad.Repeats))
	}
	for _, fault := range bad.Errors {
		l.fault(&b, bad.Line, bad.ID, oneLine(fault.Field)+": "+oneLine(fault.Reason))
	}
	for _, left := range bad.Left {
		l.fault(&b, bad.Line, bad.ID, "not taken: "+oneLine(left.Field)+" "+oneLine(left.Reason))
	}
	_, err := io.WriteString(l.out, l.in.Translate(b.String()))
	return err
}

// printMore prints how many faults were not printed.
func (l *badLines) printMore() error {
	var b bytes.Buffer
	for _, same := range l.more {
		fmt.Fprintf(&b, "and %d more such as: %s\n", same.n-shownOfSame, same.first)
	}
	_, err := io.WriteString(l.out, l.in.Translate(b.String()))
	return err
}

// withoutNumbers returns a text with one sign in place of each number.
func withoutNumbers(text string) string {
	var b strings.Builder
	within := false
	for _, c := range text {
		digit := c >= '0' && c <= '9'
		if !digit {
			b.WriteRune(c)
		} else if !within {
			b.WriteByte('#')
		}
		within = digit
	}
	return b.String()
}

func printSummary(env environment, end api.ImportEnd, jsonOutput bool) error {
	if jsonOutput {
		return printJSON(env.stdout, end)
	}
	s := end.Summary
	if end.DryRun {
		fmt.Fprintln(env.stdout, env.says("nothing was written: this is what an import would do"))
	}
	repeated := ""
	if s.Repeated > 0 {
		repeated = fmt.Sprintf("; %d have the id of an earlier line", s.Repeated)
	}
	if s.Lines == 1 {
		return env.tell("1 line: %d created, %d updated, %d unchanged, %d failed%s", s.Created, s.Updated, s.Unchanged, s.Failed, repeated)
	}
	return env.tell("%d lines: %d created, %d updated, %d unchanged, %d failed%s", s.Lines, s.Created, s.Updated, s.Unchanged, s.Failed, repeated)
}
