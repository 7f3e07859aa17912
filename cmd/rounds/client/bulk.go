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

	"github.com/rounds-dev/rounds/accounts/api"
)

// importLine is one line of the answer to an import: a bad line, the summary at
// the end, or what ended it early.
type importLine struct {
	api.BadLine
	Summary *api.ImportSummary `json:"summary"`
	Error   string             `json:"error"`
}

// ErrCutOff reports that an answer ended before it was complete.
var ErrCutOff = errors.New("the API's answer was cut off")

// Import registers or changes an account for each line of records, and calls bad
// for each that was not taken, while the rest is still being sent. Without an
// error every line was answered for.
func (c *Client) Import(ctx context.Context, records io.Reader, bad func(api.BadLine) error) (api.ImportSummary, error) {
	header := http.Header{"Content-Type": {"application/x-ndjson"}, "Accept": {"application/x-ndjson"}}
	// The reader is wrapped so that nothing guesses a length from its type.
	answer, err := c.send(ctx, http.MethodPost, "/v1/accounts:import", header, io.MultiReader(records))
	if err != nil {
		return api.ImportSummary{}, err
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	for {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(text)) == 0 {
			return api.ImportSummary{}, fmt.Errorf("%w before its summary: some lines may have been taken, import again", ErrCutOff)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return api.ImportSummary{}, fmt.Errorf("%w: %w", ErrCutOff, err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var line importLine
		if err := json.Unmarshal(text, &line); err != nil {
			return api.ImportSummary{}, fmt.Errorf("the answer to the import cannot be read: %w", err)
		}
		switch {
		case line.Summary != nil && line.Error != "":
			return *line.Summary, errors.New(line.Error)
		case line.Summary != nil:
			return *line.Summary, nil
		case line.Error != "":
			return api.ImportSummary{}, errors.New(line.Error)
		}
		if err := bad(line.BadLine); err != nil {
			return api.ImportSummary{}, err
		}
	}
}

// Export writes every account's record, one a line, as Import takes them.
func (c *Client) Export(ctx context.Context, w io.Writer) (lines int, err error) {
	answer, err := c.send(ctx, http.MethodGet, "/v1/accounts:export", http.Header{"Accept": {"application/x-ndjson"}}, nil)
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
				return lines, fmt.Errorf("%w in record %d", ErrCutOff, lines+1)
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
			return lines, fmt.Errorf("%w: %w", ErrCutOff, err)
		}
	}
}
