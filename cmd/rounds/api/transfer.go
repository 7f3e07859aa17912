package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/backup"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

const (
	// readPatience is how long a stream may bring nothing, and writePatience how long a
	// caller may take to accept something. A connection that died silently must not stay
	// open for ever.
	readPatience  = 5 * time.Minute
	writePatience = 30 * time.Second
)

// importAccounts reads records and replies while it does so, with a line for each bad
// record and the summary at the end.
func (s *Server) importAccounts(w http.ResponseWriter, r *http.Request) {
	from, err := importFrom(r)
	if err != nil {
		badQuery(err).write(w, r)
		return
	}
	ctx, end := s.stream(r)
	defer end()
	// Once the reply has begun its status cannot change.
	if _, err := s.options.Ring.Now(ctx, 0); err != nil {
		s.errorReply(ctx, "import accounts", err).write(w, r)
		return
	}
	connection := http.NewResponseController(w)
	_ = connection.EnableFullDuplex() // HTTP/2 always has it
	defer context.AfterFunc(ctx, func() { _ = connection.SetReadDeadline(time.Unix(1, 0)) })()

	w.Header().Set("Content-Type", "application/x-ndjson")
	reply := newLineWriter(w, connection)
	reply.flush()
	body := &promptReader{ctx: ctx, in: r.Body, connection: connection, before: reply.flush}
	defer body.abandon(r.Body)
	summary, err := s.registry(ctx).ImportWith(ctx, body, accounts.Importing{
		From: from,
		Bad: func(bad accounts.BadLine) error {
			return reply.write(BadLine{Line: bad.Line, ID: bad.ID, Errors: bad.Faults})
		},
		Repeated: func(again accounts.RepeatedLine) error {
			return reply.write(BadLine{Line: again.Line, ID: again.ID, Repeats: again.Before})
		},
	})
	noteImport(trail.Of(r.Context()), summary, err)
	last := ImportEnd{Summary: ImportSummary(summary)}
	if reply.out.err != nil {
		return // the caller has gone
	}
	if err != nil {
		last.Error = s.importError(ctx, summary, err)
	}
	_ = reply.write(last) // a caller that has gone needs no answer
	reply.flush()
}

// noteImport adds the result of an import to its entry in the trail.
func noteImport(draft *trail.Draft, done accounts.Summary, err error) {
	draft.Counts(map[string]int{"lines": done.Lines, "created": done.Created, "updated": done.Updated, "unchanged": done.Unchanged, "failed": done.Failed})
	switch {
	case errors.Is(err, accounts.ErrNotLines):
		draft.End(trail.Refused)
	case circulate.Unknown(err) && !errors.Is(err, accounts.ErrInput):
		draft.End(trail.Unknown)
	case err != nil, done.Failed > 0:
		draft.End(trail.Failed)
	}
}

// importFrom reads where new accounts begin, the one parameter of an import.
func importFrom(r *http.Request) (accounts.BeginFrom, error) {
	q := readQuery(r, false, "from")
	from := accounts.BeginFrom(q.values["from"])
	if len(q.faults) > 0 {
		return from, q.faults
	}
	return from, from.Validate()
}

func (s *Server) importError(ctx context.Context, done accounts.Summary, err error) string {
	if errors.Is(err, accounts.ErrNotLines) {
		return "nothing was imported: " + strings.ReplaceAll(err.Error(), "accounts: ", "")
	}
	why := "the request ended early"
	if !errors.Is(err, accounts.ErrInput) || cutOff(ctx) {
		why = s.errorReply(ctx, "import accounts", err).Detail
	}
	return fmt.Sprintf("import stopped: %d of the %d lines that were read are done; importing everything again is safe: %s", done.Done(), done.Lines, why)
}

// exportAccounts writes the records of all selected accounts.
func (s *Server) exportAccounts(w http.ResponseWriter, r *http.Request) {
	q := readQuery(r, true, "with_state")
	export := accounts.Exporting{Selector: q.selector, State: q.flag("with_state")}
	if len(q.faults) > 0 {
		badQuery(q.faults).write(w, r)
		return
	}
	s.send(w, r, "export accounts", func(ctx context.Context, out io.Writer) error {
		done, err := s.registry(ctx).ExportWith(ctx, export, out)
		if err == nil && done.Unreadable > 0 {
			s.options.Log.WarnContext(ctx, "records that are not JSON were left out of an export", "count", done.Unreadable)
		}
		return err
	}, nil)
}

// getBackup streams a backup of everything.
func (s *Server) getBackup(w http.ResponseWriter, r *http.Request) {
	q := readQuery(r, false, "with_secrets")
	withSecrets := q.flag("with_secrets")
	if len(q.faults) > 0 {
		badQuery(q.faults).write(w, r)
		return
	}
	options := backup.Options{Program: s.options.Version}
	if withSecrets {
		if options.Secrets = s.sealer(); options.Secrets == nil {
			noSealer().write(w, r)
			return
		}
	}
	s.send(w, r, "back up", func(ctx context.Context, out io.Writer) error {
		_, err := backup.Write(ctx, s.options.Ring, out, options)
		return err
	}, func(ctx context.Context, err error) *errorReply {
		if errors.Is(err, circulate.ErrResharding) || errors.Is(context.Cause(ctx), circulate.ErrResharding) {
			return s.underWay(r.Context(), "no backup can be taken now")
		}
		return s.errorReply(ctx, "back up", err)
	})
}

// send streams the lines of JSON that write writes. If that fails half way, the connection is cut,
// because a reply that ended properly would look complete. If nothing was sent yet, refuse makes the
// reply to the error; nil: errorReply.
func (s *Server) send(w http.ResponseWriter, r *http.Request, doing string, write func(context.Context, io.Writer) error, refuse func(context.Context, error) *errorReply) {
	ctx, end := s.stream(r)
	defer end()
	w.Header().Set("Content-Type", "application/x-ndjson")
	if r.Method == http.MethodHead {
		return
	}
	out := &patientWriter{out: w, connection: http.NewResponseController(w)}
	_ = out.connection.SetReadDeadline(time.Time{}) // nothing more is read, and a read deadline must not end the reply
	err := write(ctx, out)
	switch {
	case out.err != nil: // the caller has gone
		panic(http.ErrAbortHandler)
	case err != nil && out.begun:
		_ = s.errorReply(ctx, doing, err) // logs
		panic(http.ErrAbortHandler)
	case err != nil && refuse != nil:
		refuse(ctx, err).write(w, r)
	case err != nil:
		s.errorReply(ctx, doing, err).write(w, r)
	}
}

// lineWriter writes values, one a line, and sends them when flush is called.
type lineWriter struct {
	out        *patientWriter
	buffer     *bufio.Writer
	encoder    *json.Encoder
	connection *http.ResponseController
}

func newLineWriter(w http.ResponseWriter, connection *http.ResponseController) *lineWriter {
	out := &patientWriter{out: w, connection: connection}
	buffer := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	w.WriteHeader(http.StatusOK)
	return &lineWriter{out, buffer, encoder, connection}
}

func (w *lineWriter) write(v any) error { return w.encoder.Encode(v) }

// flush sends what was written. If that fails, the next write reports it.
func (w *lineWriter) flush() {
	_ = w.buffer.Flush()
	_ = w.connection.Flush()
}

// promptReader calls a function before it waits for more, and waits neither for ever
// nor past its context.
type promptReader struct {
	ctx        context.Context
	in         io.Reader
	connection *http.ResponseController
	before     func()
	ended      bool // everything has been read
}

// Read reads what has come, or waits for it.
func (r *promptReader) Read(p []byte) (int, error) {
	r.before()
	_ = r.connection.SetReadDeadline(time.Now().Add(readPatience)) // a recorder in a test has none
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	n, err := r.in.Read(p)
	r.ended = r.ended || errors.Is(err, io.EOF)
	return n, err
}

// abandon closes a body that was not read to its end, without waiting for the rest. A body that
// stays open makes net/http panic when it reads the next request (golang/go#68560).
func (r *promptReader) abandon(body io.Closer) {
	if !r.ended {
		_ = r.connection.SetReadDeadline(time.Unix(1, 0)) // a recorder in a test has none
		_ = body.Close()                                  // the connection ends with the reply
	}
}

// patientWriter sets a deadline for each write, and stores the error of a failed one. The caller
// caused that error, so it is not logged.
type patientWriter struct {
	out        io.Writer
	connection *http.ResponseController
	begun      bool
	err        error
}

// Write writes, within the time that a caller may take.
func (w *patientWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	w.begun = true
	written := 0
	for part := range slices.Chunk(p, patientPart) {
		_ = w.connection.SetWriteDeadline(time.Now().Add(writePatience)) // a recorder in a test has none
		n, err := w.out.Write(part)
		if written += n; err != nil {
			w.err = err
			return written, err
		}
	}
	return written, nil
}

// patientPart is how much a caller must accept within writePatience.
const patientPart = 32 << 10
