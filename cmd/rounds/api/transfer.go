package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/backup"
	"github.com/rounds-dev/rounds/cmd/rounds/moving"
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
	o, err := readImport(r)
	if err != nil {
		badQuery(err).write(w, r)
		return
	}
	draft := trail.Of(r.Context())
	if o.dry {
		draft.LookOnly()
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
	// What a list has beside its records is told in between, from the same goroutine.
	report := func(line BadLine) error { return reply.write(line) }
	format, in := o.format, moving.Plain(body)
	if format == "" {
		format = moving.Recognise(in)
	}
	options := accounts.Importing{
		From: o.from, DryRun: o.dry,
		Bad: func(bad accounts.BadLine) error {
			return reply.write(BadLine{Line: bad.Line, ID: bad.ID, Errors: bad.Faults})
		},
		Repeated: func(again accounts.RepeatedLine) error {
			return reply.write(BadLine{Line: again.Line, ID: again.ID, Repeats: again.Before})
		},
	}
	var summary accounts.Summary
	if format == moving.Records {
		summary, err = s.registry(ctx).ImportWith(ctx, in, options)
	} else {
		summary, err = s.registry(ctx).ImportLines(ctx, s.linesOf(ctx, moving.Read(format, in), report), options)
	}
	if !o.dry {
		noteImport(draft, summary, err)
	}
	last := ImportEnd{Summary: ImportSummary(summary), DryRun: o.dry}
	if format != moving.Records {
		last.Format = string(format)
	}
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
	_, unreadable := errors.AsType[*moving.UnreadableError](err)
	draft.Counts(map[string]int{"lines": done.Lines, "created": done.Created, "updated": done.Updated, "unchanged": done.Unchanged, "failed": done.Failed})
	switch {
	case errors.Is(err, accounts.ErrNotLines), unreadable && done.Lines == 0:
		draft.End(trail.Refused)
	case circulate.Unknown(err) && !errors.Is(err, accounts.ErrInput):
		draft.End(trail.Unknown)
	case err != nil, done.Failed > 0:
		draft.End(trail.Failed)
	}
}

// importing is what the parameters of an import say.
type importing struct {
	from   accounts.BeginFrom
	format moving.Format // empty: recognised by what comes
	dry    bool
}

func readImport(r *http.Request) (importing, error) {
	q := readQuery(r, false, "from", "format", "dry_run")
	o := importing{from: accounts.BeginFrom(q.values["from"]), format: moving.Format(q.values["format"]), dry: q.flag("dry_run")}
	if o.format != "" && !slices.Contains(moving.Formats(), o.format) {
		q.faults.Add("format", "must be records, opml, miniflux, uptime-kuma or csv")
	}
	if len(q.faults) > 0 {
		return o, q.faults
	}
	return o, o.from.Validate()
}

func (s *Server) importError(ctx context.Context, done accounts.Summary, err error) string {
	if errors.Is(err, accounts.ErrNotLines) {
		return "nothing was imported: " + strings.ReplaceAll(err.Error(), "accounts: ", "")
	}
	unreadable, ok := errors.AsType[*moving.UnreadableError](err)
	if ok && done.Lines == 0 {
		return "nothing was imported: " + unreadable.Error()
	}
	why := "the request ended early"
	if ok {
		why = unreadable.Error()
	} else if !errors.Is(err, accounts.ErrInput) || cutOff(ctx) {
		why = s.errorReply(ctx, "import accounts", err).Detail
	}
	return fmt.Sprintf("import stopped: %d of the %d lines that were read are done; importing everything again is safe: %s", done.Done(), done.Lines, why)
}

// exportAccounts writes the records of all selected accounts.
func (s *Server) exportAccounts(w http.ResponseWriter, r *http.Request) {
	q := readQuery(r, true, "with_state", "format")
	export := accounts.Exporting{Selector: q.selector, State: q.flag("with_state")}
	format, given := q.values["format"]
	switch moving.Format(format) {
	case moving.OPML:
		if export.State {
			q.faults.Add("with_state", "must be false: OPML has no states")
		}
	case moving.Records:
	default:
		if given {
			q.faults.Add("format", "must be records or opml")
		}
	}
	if len(q.faults) > 0 {
		badQuery(q.faults).write(w, r)
		return
	}
	if format == string(moving.OPML) {
		s.exportOPML(w, r, export)
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
	options := backup.Options{Program: s.options.Version, Traced: s.options.Spans != nil}
	if withSecrets {
		if options.Secrets = s.sealer(); options.Secrets == nil {
			noSealer().write(w, r)
			return
		}
	}
	s.send(w, r, "back up", func(ctx context.Context, out io.Writer) error {
		written, err := backup.Write(ctx, s.options.Ring, out, options)
		if err == nil {
			s.noteBackup(ctx, written, withSecrets)
		}
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
// reply to the error, or errorReply if refuse is nil.
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

// BulkProgress is how far a change of many accounts has got, or its result.
type BulkProgress struct {
	Seen      int `json:"seen" doc:"Accounts that were looked at."`
	Matched   int `json:"matched" doc:"Selected accounts."`
	Changed   int `json:"changed" doc:"Accounts that were changed, or would be in a dry run."`
	Unchanged int `json:"unchanged" doc:"Accounts that needed no change, are parked for another reason, or were deleted meanwhile."`
	Failed    int `json:"failed" doc:"Accounts that were not changed, because Redis refused or could not be reached."`
	Unknown   int `json:"unknown" doc:"Accounts whose step was cut off: they may have been changed. Repeating the request is safe, and shows whether they were."`
}

// BulkLine is a line of the reply to a change of many accounts: progress, or in the last line
// the summary.
type BulkLine struct {
	Progress *BulkProgress `json:"progress,omitempty" doc:"The progress, twice a second."`
	Error    string        `json:"error,omitempty" doc:"With the summary: why the change stopped before its end. Repeating the request is safe."`
	Summary  *BulkProgress `json:"summary,omitempty" doc:"The last line: the result."`
	Reasons  []JobReason   `json:"reasons,omitempty" doc:"With the summary: why accounts were not changed, the most frequent first. Their sum is unchanged."`
}

// bulkRoute returns the route of an action.
func bulkRoute(action accounts.Action) string { return "POST /v1/accounts:" + string(action) }

// bulk applies an action to all accounts that the query selects, and replies with its progress.
func (s *Server) bulk(action accounts.Action) http.HandlerFunc {
	doing := string(action) + " accounts"
	return func(w http.ResponseWriter, r *http.Request) {
		job, asJob, err := readBulk(action, r)
		if err != nil {
			badQuery(err).write(w, r)
			return
		}
		draft := trail.Of(r.Context())
		draft.Select(selection(r))
		if asJob {
			s.startJob(w, r, job)
			return
		}
		if job.DryRun {
			draft.LookOnly()
		}
		ctx, end := s.stream(r)
		defer end()
		// Once the reply has begun its status cannot change.
		if _, err := s.options.Ring.Now(ctx, 0); err != nil {
			s.errorReply(ctx, doing, err).write(w, r)
			return
		}
		connection := http.NewResponseController(w)
		_ = connection.SetReadDeadline(time.Time{}) // nothing more is read, and a deadline must not end the request
		w.Header().Set("Content-Type", "application/x-ndjson")
		reply := newLineWriter(w, connection)
		reply.flush()
		var reasons accounts.Reasons
		job.Reasons = func(all accounts.Reasons) { reasons = all }
		done, err := s.registry(ctx).Bulk(ctx, job, func(p accounts.Progress) error {
			progress := BulkProgress(p)
			if err := reply.write(BulkLine{Progress: &progress}); err != nil {
				return err
			}
			reply.flush()
			return reply.out.err
		})
		noteBulk(draft, done, err)
		if reply.out.err != nil {
			return // the caller has gone
		}
		summary := BulkProgress(done)
		last := BulkLine{Summary: &summary, Reasons: reasonsOf(reasons)}
		if err != nil {
			last.Error = fmt.Sprintf("%s stopped; repeating it is safe: %s", action, s.errorReply(ctx, doing, err).Detail)
		}
		_ = reply.write(last) // a caller that has gone needs no answer
		reply.flush()
	}
}

// noteBulk adds the result of a change of many accounts to its entry in the trail.
func noteBulk(draft *trail.Draft, done accounts.Progress, err error) {
	draft.Counts(map[string]int{"matched": done.Matched, "changed": done.Changed, "unchanged": done.Unchanged, "failed": done.Failed, "unknown": done.Unknown})
	switch {
	case done.Unknown > 0:
		draft.End(trail.Unknown)
	case err != nil:
		draft.End(trail.Failed)
	}
}

// readBulk reads a Bulk from the query alone, and whether it is to be a job. It refuses a body,
// because a selector in a body would be ignored.
func readBulk(action accounts.Action, r *http.Request) (job accounts.Bulk, asJob bool, err error) {
	others := []string{"all", "dry_run", "job"}
	switch action {
	case accounts.NudgeAll, accounts.RetryAll:
		others = append(others, "rate")
	case accounts.SetAll:
		others = append(others, "cadence", "priority", setLabel, removeLabel)
	}
	q := readQuery(r, true, others...)
	job = accounts.Bulk{Action: action, Selector: q.selector, All: q.flag("all"), DryRun: q.flag("dry_run")}
	if asJob = q.flag("job"); asJob && job.DryRun {
		q.faults.Add("dry_run", "must not be true for a job: it changes accounts")
	}
	if text, ok := q.values["rate"]; ok {
		// Once parsed, 0 and a missing parameter would look the same.
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || rate == 0 {
			q.faults.Add("rate", "must be a number of accounts a second, more than 0")
		}
		job.Rate = rate
	}
	if action == accounts.SetAll {
		job.Set = q.set()
	}
	if r.ContentLength != 0 {
		q.faults.Add(accounts.RecordField, "must have everything: the route takes no body")
	}
	if len(q.faults) > 0 {
		return job, asJob, q.faults
	}
	return job, asJob, job.Validate()
}

// The parameters that set and remove labels, which may be repeated.
const setLabel, removeLabel = "set_label", "remove_label"

// set returns the merge patch that the parameters of a set describe. An empty value stands for
// the default.
func (q *query) set() json.RawMessage {
	patch, labels := make(map[string]any), make(map[string]any)
	for _, name := range []string{"cadence", "priority"} {
		if text, ok := q.values[name]; ok {
			if patch[name] = text; text == "" {
				patch[name] = nil
			}
		}
	}
	for _, pair := range q.lists[setLabel] {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			q.faults.Add(setLabel, fmt.Sprintf("must be NAME=VALUE, is %q", pair))
		}
		labels[name] = value
	}
	for _, name := range q.lists[removeLabel] {
		if _, ok := labels[name]; ok {
			q.faults.Add(removeLabel, fmt.Sprintf("must not name %q, which "+setLabel+" sets", name))
		}
		labels[name] = nil
	}
	if len(labels) > 0 {
		patch["labels"] = labels
	}
	text, _ := json.Marshal(patch) // never fails for texts
	return text
}

// bulk describes one of the routes.
func (d describer) bulk(action accounts.Action) *huma.Operation {
	flag := func(name, description string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean, Default: false}, Description: description}
	}
	summary := map[accounts.Action]string{
		accounts.PauseAll:  "Take many accounts out of circulation",
		accounts.ResumeAll: "Bring many paused accounts back",
		accounts.DeleteAll: "Delete many accounts",
		accounts.NudgeAll:  "Check many accounts sooner",
		accounts.RetryAll:  "Try many accounts again",
		accounts.SetAll:    "Set cadence, priority and labels of many accounts",
	}[action]
	about := map[accounts.Action]string{
		accounts.PauseAll:  "An account that is parked for another reason stays so, unless state=parked or a reason selects it.",
		accounts.ResumeAll: "Paused accounts, and others that are parked if state=parked or a reason selects them. Each is due at its next phase slot, so that they do not all start together, and its failures are forgotten.",
		accounts.DeleteAll: "For good. Their messages stay.",
		accounts.NudgeAll:  "One after the other, at a rate, so that they do not all start together. No check comes later than it would. A parked account stays as it is.",
		accounts.RetryAll:  "Parked accounts are resumed with their failures forgotten, and the others nudged, one after the other, at a rate. A paused account stays as it is.",
		accounts.SetAll:    "Everything else in the records stays. An account is due next as its cadence says, and a parked one stays parked.",
	}[action]
	parameters := selecting(flag("all", "Select every account. A request that selects nothing is refused without it."), flag("dry_run", "Only count."), flag("job", "Reply at once with 202 and a job, which goes on when the caller goes away. See GET /v1/jobs/{id}."))
	switch action {
	case accounts.SetAll:
		text := func(name, about string) *huma.Param {
			return &huma.Param{Name: name, In: "query", Description: about, Schema: &huma.Schema{Type: huma.TypeString}}
		}
		explode := true
		list := func(name, about string) *huma.Param {
			return &huma.Param{Name: name, In: "query", Explode: &explode, Description: about, Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}}
		}
		parameters = append(parameters, text("cadence", "The new cadence; empty: the default."), text("priority", "The new priority; empty: the default."),
			list(setLabel, "A label to set, NAME=VALUE."), list(removeLabel, "The name of a label to remove."))
	case accounts.NudgeAll, accounts.RetryAll:
		least, most := accounts.MinReviveRate, float64(accounts.MaxReviveRate)
		parameters = append(parameters, &huma.Param{
			Name: "rate", In: "query", Description: "How many accounts become due in a second.",
			Schema: &huma.Schema{Type: huma.TypeNumber, Minimum: &least, Maximum: &most, Default: accounts.NudgeRate},
		})
	}
	replies := lines(d.media(reflect.TypeFor[BulkLine]()))
	replies["202"] = &huma.Response{Description: "With job=true: the job.", Content: map[string]*huma.MediaType{"application/json": d.media(reflect.TypeFor[Job]())}}
	return d.problems(&huma.Operation{
		OperationID: string(action) + "-accounts", Method: http.MethodPost, Path: "/v1/accounts:" + string(action), Tags: []string{"transfer"},
		Summary: summary,
		Description: about + " The parameters select accounts by their state at the moment when each is looked at. An account must match all parameters. There is no body.\n\n" +
			"The reply begins at once: lines with the progress, and a summary as the last line. If the summary has an error, or is missing, the change stopped. Repeating the request is safe. The change stops when the caller goes away.",
		Parameters: parameters,
		Responses:  replies,
	}, http.StatusUnauthorized, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusServiceUnavailable)
}

// query is the parameters of a request that no handler of huma reads, and what is wrong with them.
type query struct {
	selector accounts.Selector
	values   map[string]string   // of the others
	lists    map[string][]string // of those that may be repeated
	faults   accounts.Faults
}

// readQuery reads the parameters that a route knows, each at most once, and those that select accounts
// if the route selects.
func readQuery(r *http.Request, selects bool, names ...string) *query {
	q := &query{values: make(map[string]string), lists: make(map[string][]string)}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q.faults.Add(accounts.RecordField, "must be parameters, percent-encoded")
		return q
	}
	var fields []string
	if selects {
		fields = accounts.SelectorFields()
		q.selector, err = accounts.ParseSelector(given)
		errors.As(err, &q.faults)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case slices.Contains(fields, name):
		case !slices.Contains(names, name):
			// If a misspelt parameter were ignored, more accounts would be selected.
			q.faults.Add(name, "is not a parameter of this route")
		case name == setLabel, name == removeLabel:
			q.lists[name] = given[name]
		case len(given[name]) > 1:
			q.faults.Add(name, "must be given once")
		default:
			q.values[name] = given[name][0]
		}
	}
	return q
}

// flag returns a parameter that is true or false. It is false if it is not given.
func (q *query) flag(name string) bool {
	text, ok := q.values[name]
	if !ok {
		return false
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		q.faults.Add(name, "must be true or false")
	}
	return on
}

// badQuery is the reply for parameters with faults.
func badQuery(err error) *errorReply {
	var faults accounts.Faults
	if !errors.As(err, &faults) {
		faults = accounts.Faults{{Reason: err.Error()}}
	}
	return newErrorReply(http.StatusUnprocessableEntity, "validation failed", detailsOf(faults, "query.")...)
}

// selecting describes the parameters of a route that selects.
func selecting(others ...*huma.Param) []*huma.Param {
	explode := true
	param := func(name, description string, words ...any) *huma.Param {
		return &huma.Param{
			Name: name, In: "query", Explode: &explode, Description: description,
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Enum: words}},
		}
	}
	var states []any
	for _, state := range accounts.States() {
		states = append(states, state)
	}
	return append([]*huma.Param{
		param("id", "Only the account with this id, or with one of several, at most 100."),
		param("kind", "Only accounts of this kind, or of one of several."),
		param("state", "Only accounts in this state, or in one of several. active: in circulation; parked: out of it, paused ones among them; failing: in circulation, and the last check failed; never_succeeded: in circulation and checked, but never with complete success; late: in circulation, and three slots of its cadence or more, and at least three minutes, have passed since a check last succeeded completely. None of the three has parked ones, as in all figures.", states...),
		param("label", "Only accounts that have this label, NAME=VALUE; of several, all."),
		param("prefix", "Only accounts whose id begins so, or with one of several."),
		param("part", "Only accounts whose id has this part, or one of several. Capitals and small letters are the same."),
		param("reason", "Only parked accounts whose reason begins so, or with one of several."),
		param("error", "Only accounts whose last check failed with this code or kind, or with one of several."),
		param("cause", "Only accounts that fail, or are parked for a failure, because of this, or of one of several: the field cause of a group of /v1/problems. Paused accounts are not among them."),
		param("host", "Only accounts whose config names this host, at any port or at that of HOST:PORT, or this corporation, or one of several."),
		param("except_host", "Only accounts whose config does not name this host or corporation, or any of several."),
		param("secret", "Only accounts whose config refers to this secret, or to one of several."),
		{Name: "since", In: "query", Description: "Only accounts of which for at least so long no check has succeeded completely.", Schema: &huma.Schema{Type: huma.TypeString, Examples: []any{"1h"}}},
		{Name: "until", In: "query", Description: "Only accounts with a complete success within this time, or that were registered in it.", Schema: &huma.Schema{Type: huma.TypeString, Examples: []any{"2h"}}},
	}, others...)
}

// selection returns the parameters by which a request selects accounts, as they were given.
func selection(r *http.Request) map[string][]string {
	query := r.URL.Query()
	maps.DeleteFunc(query, func(name string, _ []string) bool { return !slices.Contains(accounts.SelectorFields(), name) })
	return query
}
