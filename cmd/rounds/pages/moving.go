package pages

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	movingPath  = "/accounts/moving"
	routeImport = "POST /v1/accounts:import"
	routeExport = "GET /v1/accounts:export"

	// maxList is the most bytes of a list that a page takes. Longer ones are for the command line.
	maxList = 4 << 20
	// listWithin is how long a list may take to come.
	listWithin = 2 * time.Minute
	// linesShown is how many lines are shown one by one.
	linesShown = 50
)

// listFormats are the formats of lists, for people who know better than the contents.
var listFormats = []string{"records", "opml", "miniflux", "uptime-kuma", "csv"}

// moving is what the page shows that takes lists of accounts: first what an import would do, and
// then what it did.
//
// The list travels from the preview to the import in the form, so that what is imported is what was
// shown, whichever process answers, and nothing is left behind by those who go away.
type moving struct {
	Format, From string // as the form has them
	Formats      []string
	MayImport    bool
	MayExport    bool

	Preview bool

	Name   string // of the file
	List   string // the file in base64, for the form that imports it; empty: there is nothing to import
	Wrong  string // why the file was not read
	Failed string // why the import stopped
	End    *api.ImportEnd

	Refused, Noted             []listLine
	MoreRefused, MoreNoted     int // that are not shown
	refusedLines, notedOfLines int
}

// listLine is a line of a list, and what is said about it.
type listLine struct {
	Line int
	ID   string
	Said []string
}

// Recognised returns the format of the list that was read.
func (m *moving) Recognised() string {
	if m.End.Format == "" {
		return listFormats[0]
	}
	return m.End.Format
}

func movingPage() *page {
	p := &page{name: "moving", path: movingPath, menu: "accounts", data: func(v *visit) (any, error) { return newMoving(v) }}
	p.raw = map[string]func(*visit, http.ResponseWriter){"POST " + movingPath: func(v *visit, w http.ResponseWriter) { v.runMoving(w, p) }}
	return p
}

// MayMove reports whether the visitor may import or export accounts.
func (v *visit) MayMove() bool { return v.May(routeImport) || v.May(routeExport) }

func newMoving(v *visit) (*moving, error) {
	if !v.MayMove() {
		return nil, refusal(http.StatusForbidden, v.lang.text("bulk.forbidden"))
	}
	return &moving{Formats: listFormats, From: "backfill", MayImport: v.May(routeImport), MayExport: v.May(routeExport)}, nil
}

// runMoving previews the list of a form with a file, and imports that of a form with a list.
func (v *visit) runMoving(w http.ResponseWriter, p *page) {
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(listWithin)) // a recorder in a test has none
	defer func() { v.fileForm.abandon(w) }()
	m, list, err := v.readList()
	status := http.StatusOK
	switch {
	case err != nil:
	case m.Wrong != "":
		status = http.StatusUnprocessableEntity
	default:
		_ = connection.SetReadDeadline(time.Time{}) // everything was read, and a deadline must not end the import
		if err = m.send(v, list); err == nil && m.Failed != "" && m.Preview {
			status = http.StatusUnprocessableEntity
		}
	}
	_ = connection.SetWriteDeadline(time.Now().Add(stepWithin))
	if err != nil {
		v.fail(w, v, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store") // a list may have passwords
	v.write(w, v, status, p, p.shown(v, m, false))
}

// readList reads the form.
func (v *visit) readList() (*moving, []byte, error) {
	m, err := newMoving(v)
	if err == nil && !m.MayImport {
		err = refusal(http.StatusForbidden, v.lang.text("bulk.forbidden"))
	}
	if err != nil {
		return nil, nil, err
	}
	const most = int64(maxList)/3*4 + maxForm // in base64
	if v.r.ContentLength > most {
		m.Wrong = v.tooLong()
		return m, nil, nil
	}
	if err := v.readFileForm(most); err != nil {
		return nil, nil, v.unreadable()
	}
	form := v.r.PostForm
	m.Format, m.From, m.Name = form.Get("format"), form.Get("from"), form.Get("name")
	var list []byte
	if file := v.fileForm.file; file != nil {
		m.Name, m.Preview = file.FileName(), true
		if list, err = io.ReadAll(io.LimitReader(file, maxList+1)); err == nil && len(list) <= maxList {
			err = v.fileForm.fields(form)
		}
	} else {
		list, err = base64.RawURLEncoding.DecodeString(form.Get("list"))
	}
	switch {
	case len(list) > maxList:
		m.Wrong = v.tooLong()
	case err != nil:
		return nil, nil, v.unreadable()
	case len(list) == 0:
		m.Wrong = v.lang.text("moving.nofile")
	case m.Preview:
		m.List = base64.RawURLEncoding.EncodeToString(list)
	}
	return m, list, nil
}

// tooLong says that a list is too long for a page.
func (v *visit) tooLong() string { return v.lang.text("moving.long", maxList>>20) }

// send has the API import the list, or say what that would do.
func (m *moving) send(v *visit, list []byte) error {
	preview := ""
	if m.Preview {
		preview = "true"
	}
	to := link("/v1/accounts:import", "format", m.Format, "from", m.From, "dry_run", preview)
	w := &lineWriter{replyWriter: replyWriter{header: make(http.Header), status: http.StatusOK}, each: func(line []byte) error { return m.line(v, line) }}
	if err := v.site.serve(v.r.Context(), w, v.r.RemoteAddr, http.MethodPost, to, nil, bytes.NewReader(list)); err != nil {
		return err
	}
	if w.err != nil {
		return w.err
	}
	if _, err := w.reply(to); err != nil {
		return v.said(err)
	}
	if m.End == nil {
		m.End, m.Failed = &api.ImportEnd{}, v.lang.text("bulkrun.cut")
	}
	m.MoreRefused, m.MoreNoted = m.refusedLines-len(m.Refused), m.notedOfLines-len(m.Noted)
	if m.Failed != "" || m.End.Summary.Lines == m.End.Summary.Failed {
		m.List = ""
	}
	return nil
}

// line reads a line of the API's reply.
func (m *moving) line(v *visit, text []byte) error {
	var line struct {
		api.BadLine
		api.ImportEnd
		Summary *api.ImportSummary `json:"summary"`
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return fmt.Errorf("a line of an import: %w", err)
	}
	if line.Summary != nil {
		m.End = &line.ImportEnd
		m.End.Summary = *line.Summary
		m.Failed = v.lang.spoken().Translate(line.Error)
		return nil
	}
	shown, count, faults := &m.Noted, &m.notedOfLines, line.Left
	if len(line.Errors) > 0 {
		shown, count, faults = &m.Refused, &m.refusedLines, line.Errors
	}
	if *count++; len(*shown) == linesShown {
		return nil
	}
	one := listLine{Line: line.Line, ID: line.ID}
	if line.Repeats > 0 {
		one.Said = append(one.Said, v.lang.text("moving.repeats", line.Repeats))
	}
	for _, f := range faults[:min(len(faults), linesShown)] {
		one.Said = append(one.Said, cut(v.lang.spoken().Translate(f.Field+": "+f.Reason), talkText))
	}
	*shown = append(*shown, one)
	return nil
}

// lineWriter passes the lines of a reply on, unless it is a refusal.
type lineWriter struct {
	replyWriter
	each func(line []byte) error
	err  error // the error of each
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.begun = true
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.replyWriter.Write(p)
	if err != nil || w.status >= 300 {
		return n, err
	}
	for {
		line, rest, whole := bytes.Cut(w.body.Bytes(), []byte("\n"))
		if !whole {
			return n, nil
		}
		if w.err = w.each(line); w.err != nil {
			return n, w.err
		}
		w.body = *bytes.NewBuffer(bytes.Clone(rest))
	}
}
