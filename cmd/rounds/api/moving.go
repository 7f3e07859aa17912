package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/moving"
)

// listed is the record of a list's entry, with a state as in an export.
type listed struct {
	accounts.Account
	State *listedState `json:"state,omitempty"`
}

type listedState struct {
	Parked string `json:"parked"`
}

// linesOf returns the entries of another program's list as lines of an import. It reports what has
// no counterpart. Secrets are stored when their record was found valid, before it is written: a
// record that is refused leaves none behind.
func (s *Server) linesOf(ctx context.Context, entries iter.Seq2[moving.Entry, error], report func(BadLine) error) iter.Seq2[accounts.Line, error] {
	return func(yield func(accounts.Line, error) bool) {
		for e, err := range entries {
			if _, unreadable := errors.AsType[*moving.UnreadableError](err); err != nil && !unreadable {
				err = fmt.Errorf("%w: %w", accounts.ErrInput, err) // the request broke off
			}
			line := accounts.Line{Number: e.Line, ID: e.Account.ID, Faults: e.Faults}
			if e.Again > 0 {
				if err := report(BadLine{Line: e.Line, ID: e.Account.ID, Left: e.Left}); err != nil {
					yield(line, err)
					return
				}
				continue
			}
			if err == nil && line.Faults == nil && len(e.Secrets) > 0 {
				line.Faults = s.refuseListed(ctx, e.Secrets)
				line.Taken = func() error { return s.storeListed(ctx, e.Secrets, e.Account.Kind) }
			}
			if err == nil && line.Faults == nil {
				line.Record, err = recordOf(&e)
			}
			if err == nil && line.Faults == nil && len(e.Left) > 0 {
				err = report(BadLine{Line: e.Line, ID: e.Account.ID, Left: e.Left})
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// recordOf returns the record of an entry as one line.
func recordOf(e *moving.Entry) ([]byte, error) {
	record := listed{Account: e.Account}
	if e.Paused {
		record.State = &listedState{Parked: circulate.ReasonPaused}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(record)
	return bytes.TrimSpace(text.Bytes()), err
}

// refuseListed returns why the secrets that a list has in plain text cannot be stored. That needs
// what the route for secrets needs.
func (s *Server) refuseListed(ctx context.Context, found []moving.Secret) accounts.Faults {
	caller, _ := access.From(ctx)
	switch {
	case !May(caller, "PUT /v1/secrets/{name}"):
		return accounts.Faults{{Field: "password", Reason: "would be stored as a secret, which needs the role admin without labels; or remove it from the list, and add the secret to the account later"}}
	case s.sealer() == nil:
		return accounts.Faults{{Field: "password", Reason: noSealer().Detail}}
	}
	for _, one := range found {
		switch {
		case one.Value == "":
			return accounts.Faults{{Field: "password", Reason: "is missing beside the user"}}
		case len(one.Value) > secret.MaxValue:
			return accounts.Faults{{Field: "password", Reason: "must be at most 65536 bytes"}}
		}
	}
	return nil
}

// storeListed stores the secrets of an account of this kind, each for its host alone.
func (s *Server) storeListed(ctx context.Context, found []moving.Secret, kind string) error {
	for _, one := range found {
		if err := s.storeFor(ctx, one.Name, one.Value, secret.Binding{Hosts: []string{one.Host}, Kinds: []string{kind}}); err != nil {
			return err
		}
	}
	return nil
}

// exportOPML writes the feeds among the selected accounts.
func (s *Server) exportOPML(w http.ResponseWriter, r *http.Request, export accounts.Exporting) {
	ctx, end := s.stream(r)
	defer end()
	var found feedCollector
	_, err := s.registry(ctx).ExportWith(ctx, export, &found)
	switch {
	case errors.Is(err, errManyFeeds):
		newErrorReply(http.StatusUnprocessableEntity, err.Error()).write(w, r)
		return
	case err != nil:
		s.errorReply(ctx, "export accounts", err).write(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/x-opml; charset=utf-8")
	h.Set("Rounds-Left-Out", strconv.Itoa(found.others))
	if r.Method != http.MethodHead {
		out := &patientWriter{out: w, connection: http.NewResponseController(w)}
		_, _ = out.Write(moving.WriteOPML(found.feeds)) // a caller that has gone needs no answer
	}
}

// feedCollector collects the feeds of an export, which writes whole lines.
type feedCollector struct {
	feeds  []moving.Outline
	others int
}

var errManyFeeds = fmt.Errorf("more than %d feeds are no list for a feed reader: select some, such as with label", moving.MaxEntries)

// Write reads lines.
func (c *feedCollector) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		var record struct {
			accounts.Account
			Config struct {
				URL string `json:"url"`
			} `json:"config"`
		}
		// A config that has no text as its url is not that of a feed.
		if err := json.Unmarshal(line, &record); err != nil || record.Kind != "feed" || record.Config.URL == "" {
			c.others++
			continue
		}
		if len(c.feeds) == moving.MaxEntries {
			return 0, errManyFeeds
		}
		c.feeds = append(c.feeds, moving.Outline{
			ID: record.ID, URL: record.Config.URL, Title: record.Labels["title"], Folder: record.Labels["folder"], Cadence: record.Cadence,
		})
	}
	return len(lines), nil
}
