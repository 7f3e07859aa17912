package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// importLine is one line of the answer to an import: a bad line, the summary at the end,
// or the error that ended it early.
type importLine struct {
	api.BadLine
	Summary *api.ImportSummary `json:"summary"`
	Error   string             `json:"error"`
	Format  string             `json:"format"`
	DryRun  bool               `json:"dry_run"`
}

// Importing says how to import lines. The zero value imports what is recognised, with everything
// that third parties still have.
type Importing struct {
	From   accounts.BeginFrom // where new accounts begin
	Format string             // as the API names it; empty: recognised
	DryRun bool               // nothing is written
}

// errCutOff reports that an answer ended before it was complete.
var errCutOff = errors.New("the API's answer was cut off")

// Import registers or changes an account for each line of records. New accounts begin at from;
// empty: with everything that there is. It calls bad for each line that was not accepted, while the
// rest is still being sent. Without an error every line was answered.
func (c *Client) Import(ctx context.Context, records io.Reader, from accounts.BeginFrom, bad func(api.BadLine) error) (api.ImportSummary, error) {
	end, err := c.ImportWith(ctx, records, Importing{From: from}, bad)
	return end.Summary, err
}

// ImportWith is Import with options. The lines may be the list of another program. It also calls bad
// for each line of which something was not taken.
func (c *Client) ImportWith(ctx context.Context, records io.Reader, o Importing, bad func(api.BadLine) error) (api.ImportEnd, error) {
	header := http.Header{"Content-Type": {"application/x-ndjson"}, "Accept": {"application/x-ndjson"}}
	// The reader is wrapped so that nothing guesses a length from its type.
	dry := ""
	if o.DryRun {
		dry = "true"
	}
	path := queryPath("/v1/accounts:import", "from", string(o.From), "format", o.Format, "dry_run", dry)
	answer, err := c.send(ctx, http.MethodPost, path, header, io.MultiReader(records))
	if err != nil {
		return api.ImportEnd{}, err
	}
	defer answer.Body.Close()
	lines := answerLines{bufio.NewReader(answer.Body)}
	for {
		var line importLine
		err := lines.next(&line)
		switch {
		case errors.Is(err, io.EOF):
			return api.ImportEnd{}, fmt.Errorf("%w before its summary: some lines may have been accepted, import again", errCutOff)
		case err != nil:
			return api.ImportEnd{}, err
		case line.Summary != nil:
			lines.end()
			if line.Error != "" {
				err = errors.New(line.Error)
			}
			return api.ImportEnd{Summary: *line.Summary, Format: line.Format, DryRun: line.DryRun}, err
		case line.Error != "":
			return api.ImportEnd{}, errors.New(line.Error)
		}
		if err := bad(line.BadLine); err != nil {
			return api.ImportEnd{}, err
		}
	}
}

// Bulk applies an action to all selected accounts, and calls progress from time to
// time. Without an error everything was done. With one, the returned progress says how
// far it came, and repeating it is safe.
func (c *Client) Bulk(ctx context.Context, b accounts.Bulk, progress func(api.BulkProgress)) (api.BulkProgress, error) {
	pairs := ordered(b)
	if b.DryRun {
		pairs = append(pairs, "dry_run", "true")
	}
	path := queryPath("/v1/accounts:"+string(b.Action), pairs...)
	answer, err := c.send(ctx, http.MethodPost, path, http.Header{"Accept": {"application/x-ndjson"}}, nil)
	if err != nil {
		return api.BulkProgress{}, err
	}
	defer answer.Body.Close()
	lines := answerLines{bufio.NewReader(answer.Body)}
	var last api.BulkProgress
	for {
		var line api.BulkLine
		err := lines.next(&line)
		switch {
		case errors.Is(err, io.EOF):
			return last, fmt.Errorf("%w before its summary: more accounts may have been changed, run it again", errCutOff)
		case err != nil && context.Cause(ctx) != nil:
			return last, context.Cause(ctx)
		case err != nil:
			return last, err
		case line.Summary != nil:
			lines.end()
			if line.Error != "" {
				err = errors.New(line.Error)
			}
			return *line.Summary, err
		case line.Error != "":
			return last, errors.New(line.Error)
		case line.Progress != nil:
			last = *line.Progress
			progress(last)
		}
	}
}

// answerLines reads an answer line by line.
type answerLines struct{ in *bufio.Reader }

// next decodes the next line that is not blank. At the end it returns io.EOF.
func (l answerLines) next(into any) error {
	for {
		text, err := l.in.ReadBytes('\n')
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("%w: %w", errCutOff, err)
		case len(bytes.TrimSpace(text)) > 0:
			if err := json.Unmarshal(text, into); err != nil {
				return fmt.Errorf("the answer cannot be read: %w", err)
			}
			return nil
		case err != nil:
			return io.EOF
		}
	}
}

// end waits for the end of an answer after its last line. The API writes its trail in between.
func (l answerLines) end() { _, _ = io.CopyN(io.Discard, l.in, 1<<10) }

// Export writes the record of every selected account, one a line, in the form that Import
// reads, and the accounts' states as well if they are asked for.
func (c *Client) Export(ctx context.Context, o accounts.Exporting, w io.Writer) (lines int, err error) {
	pairs := selection(o.Selector)
	if o.State {
		pairs = append(pairs, "with_state", "true")
	}
	answer, err := c.send(ctx, http.MethodGet, queryPath("/v1/accounts:export", pairs...), http.Header{"Accept": {"application/x-ndjson"}}, nil)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	out := bufio.NewWriter(w)
	records := bufio.NewReader(answer.Body)
	for {
		text, err := records.ReadBytes('\n')
		if err == nil || errors.Is(err, io.EOF) && len(text) > 0 {
			if !json.Valid(text) {
				return lines, fmt.Errorf("%w in record %d", errCutOff, lines+1)
			}
			lines++
			if _, err := out.Write(append(bytes.TrimSpace(text), '\n')); err != nil {
				return lines, err
			}
		}
		if errors.Is(err, io.EOF) {
			return lines, out.Flush()
		}
		if err != nil {
			return lines, fmt.Errorf("%w: %w", errCutOff, err)
		}
	}
}

// ExportOPML writes the feeds among the selected accounts as OPML, and returns how many accounts are
// left out because they are none.
func (c *Client) ExportOPML(ctx context.Context, selector accounts.Selector, w io.Writer) (leftOut string, err error) {
	pairs := append(selection(selector), "format", "opml")
	answer, err := c.send(ctx, http.MethodGet, queryPath("/v1/accounts:export", pairs...), http.Header{"Accept": {"text/x-opml"}}, nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(w, answer.Body); err != nil {
		return "", fmt.Errorf("%w: %w", errCutOff, err)
	}
	return answer.Header.Get("Rounds-Left-Out"), nil
}

// Backup writes a backup of everything, with secrets if asked for, which stay sealed. A backup that
// was cut off has no trailer, and backup.Verify notices that.
func (c *Client) Backup(ctx context.Context, withSecrets bool, w io.Writer) error {
	path := "/v1/backup"
	if withSecrets {
		path += "?with_secrets=true"
	}
	answer, err := c.send(ctx, http.MethodGet, path, http.Header{"Accept": {"application/x-ndjson"}}, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(w, answer.Body); err != nil {
		return fmt.Errorf("%w: %w", errCutOff, err)
	}
	return nil
}
