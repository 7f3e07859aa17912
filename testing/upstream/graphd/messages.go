package graphd

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// state is what a state token stands for. It never changes.
type state struct {
	box     *mailbox
	folder  string
	fields  []string
	since   time.Time // of the filter
	pending []*mail   // of the round
	arrived int       // arrivals that the round has had
	ended   bool      // the round is over
}

// folderOf returns the folder of a request: by its name, or by its id.
func folderOf(r *http.Request) (string, bool) {
	name := strings.ToLower(r.PathValue("folder"))
	for _, known := range []string{"inbox", "junkemail", "sentitems", "archive", "deleteditems", "drafts"} {
		if name == known || r.PathValue("folder") == FolderID(known) {
			return known, true
		}
	}
	return "", false
}

// FolderID returns the id of a folder with a name of Graph's.
func FolderID(name string) string { return identifier("AQMkADNk", name, 0) }

// delta answers with changes of a folder.
func (g *Graph) delta(rw http.ResponseWriter, r *http.Request, b *mailbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	folder, ok := folderOf(r)
	if !ok {
		refuse(rw, r, http.StatusNotFound, "ErrorItemNotFound")
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		refuse(rw, r, http.StatusBadRequest, "BadRequest")
		return
	}
	var s state
	token := query.Get("$skiptoken") + query.Get("$deltatoken")
	switch {
	case token == "":
		if s, ok = g.begin(b, folder, query); !ok {
			refuse(rw, r, http.StatusBadRequest, "ErrorInvalidUrlQuery")
			return
		}
	case len(query) != 1:
		refuse(rw, r, http.StatusBadRequest, "ErrorInvalidUrlQuery")
		return
	default:
		s, ok = g.states[token]
		if !ok || s.box != b || s.folder != folder || s.ended != query.Has("$deltatoken") {
			rw.Header().Set("Location", g.base+r.URL.Path)
			refuse(rw, r, http.StatusGone, "SyncStateNotFound")
			return
		}
	}
	// What has come since is part of the round, or of the next one.
	s.pending = slices.Clone(s.pending)
	for _, a := range b.arrived[s.arrived:] {
		if a.folder == folder && a.mail.folder == folder && !a.mail.at.Before(s.since) && !slices.Contains(s.pending, a.mail) {
			s.pending = append(s.pending, a.mail)
		}
	}
	s.arrived = len(b.arrived)
	size := pageOf(r)
	rows := []map[string]any{}
	for _, m := range s.pending[:min(size, len(s.pending))] {
		rows = append(rows, m.row(b, r, s.fields))
	}
	s.pending = s.pending[min(size, len(s.pending)):]
	s.ended = len(s.pending) == 0
	answer := map[string]any{"@odata.context": g.base + "/v1.0/$metadata#Collection(message)", "value": rows}
	name, link := "$skiptoken", "@odata.nextLink"
	if s.ended {
		name, link = "$deltatoken", "@odata.deltaLink"
	}
	next := rand.Text() + "_." + rand.Text() + "-"
	g.states[next] = s
	answer[link] = fmt.Sprintf("%s/v1.0/me/mailFolders('%s')/messages/delta?%s=%s", g.base, FolderID(folder), name, next)
	reply(rw, http.StatusOK, answer)
}

// begin begins the first round. It is not ok if the query has an option that the real one refuses.
func (g *Graph) begin(b *mailbox, folder string, query url.Values) (s state, ok bool) {
	s = state{box: b, folder: folder, arrived: len(b.arrived)}
	for name, values := range query {
		switch {
		case len(values) != 1:
			return s, false
		case name == "changeType":
			if values[0] != "created" {
				return s, false
			}
		case name == "$select":
			s.fields = strings.Split(values[0], ",")
		case name == "$filter":
			text, cut := strings.CutPrefix(values[0], "receivedDateTime ge ")
			at, err := time.Parse(time.RFC3339, text)
			if !cut || err != nil {
				return s, false
			}
			s.since = at
		default:
			return s, false
		}
	}
	for _, m := range b.mails {
		if m.folder == folder && !m.deleted && !m.at.Before(s.since) {
			s.pending = append(s.pending, m)
		}
	}
	slices.SortStableFunc(s.pending, func(a, b *mail) int { return b.at.Compare(a.at) })
	if query.Has("$filter") {
		s.pending = s.pending[:min(len(s.pending), mostSelected)]
	}
	if !g.options.NewestFirst {
		slices.SortStableFunc(s.pending, func(a, b *mail) int { return a.at.Compare(b.at) })
	}
	return s, true
}

// pageOf returns how many messages a request prefers on a page.
func pageOf(r *http.Request) int {
	for one := range strings.SplitSeq(r.Header.Get("Prefer"), ",") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(one), "odata.maxpagesize="); ok {
			if n, err := strconv.Atoi(text); err == nil && n > 0 {
				return n
			}
		}
	}
	return usualPage
}

// row returns the fields of a mail that a request selects.
func (m *mail) row(b *mailbox, r *http.Request, fields []string) map[string]any {
	status := "notFlagged"
	if m.flagged {
		status = "flagged"
	}
	all := map[string]any{
		"receivedDateTime": m.at.Format("2006-01-02T15:04:05Z"), "isRead": m.read, "isDraft": m.draft,
		"flag": map[string]any{"flagStatus": status}, "internetMessageId": m.internet,
	}
	row := map[string]any{"@odata.type": "#microsoft.graph.message", "@odata.etag": fmt.Sprintf(`W/"CQAAAB%d"`, m.n), "id": m.idFor(b.account, r)}
	for _, field := range fields {
		if value, ok := all[field]; ok {
			row[field] = value
		}
	}
	return row
}

// list answers with messages of a folder.
func (g *Graph) list(rw http.ResponseWriter, r *http.Request, b *mailbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	folder, ok := folderOf(r)
	if !ok {
		refuse(rw, r, http.StatusNotFound, "ErrorItemNotFound")
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	top, skip, wanted := usualPage, 0, ""
	for name, values := range query {
		var wrong error
		switch name {
		case "$select":
		case "$top":
			top, wrong = strconv.Atoi(values[0])
		case "$skip":
			skip, wrong = strconv.Atoi(values[0])
		case "$orderby":
			ok = ok && values[0] == "receivedDateTime desc"
		case "$filter":
			var cut bool
			wanted, cut = strings.CutPrefix(values[0], "internetMessageId eq '")
			ok = ok && cut && strings.HasSuffix(wanted, "'")
			wanted = strings.ReplaceAll(strings.TrimSuffix(wanted, "'"), "''", "'")
		default:
			ok = false
		}
		ok = ok && wrong == nil
	}
	if err != nil || !ok || top < 1 || top > 1000 || skip < 0 {
		refuse(rw, r, http.StatusBadRequest, "ErrorInvalidUrlQuery")
		return
	}
	var found []*mail
	for _, m := range b.mails {
		if m.folder == folder && !m.deleted && (wanted == "" || m.internet == wanted) {
			found = append(found, m)
		}
	}
	slices.SortStableFunc(found, func(a, b *mail) int { return b.at.Compare(a.at) })
	found = found[min(skip, len(found)):]
	rows := []map[string]any{}
	for _, m := range found[:min(top, len(found))] {
		rows = append(rows, m.row(b, r, strings.Split(query.Get("$select"), ",")))
	}
	answer := map[string]any{"@odata.context": g.base + "/v1.0/$metadata#users('x')/messages", "value": rows}
	if len(found) > top {
		answer["@odata.nextLink"] = fmt.Sprintf("%s%s?%s", g.base, r.URL.Path, "$skip="+strconv.Itoa(skip+top))
	}
	reply(rw, http.StatusOK, answer)
}

// value answers with a mail as it came. As the real one, it does not say how long the mail is.
func (g *Graph) value(rw http.ResponseWriter, r *http.Request, b *mailbox) {
	g.mu.Lock()
	var found *mail
	for _, m := range b.mails {
		if !m.deleted && m.idFor(b.account, r) == r.PathValue("id") {
			found = m
		}
	}
	g.mu.Unlock()
	if found == nil {
		refuse(rw, r, http.StatusNotFound, "ErrorItemNotFound")
		return
	}
	rw.Header().Set("Content-Type", "text/plain")
	if flusher, ok := rw.(http.Flusher); ok {
		flusher.Flush()
	}
	_, _ = rw.Write(found.raw)
}

const maxMIME = 4 << 20 // bytes of a request

// send sends a mail: it puts it into the sent items.
func (g *Graph) send(rw http.ResponseWriter, r *http.Request, b *mailbox) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxMIME))
	if err != nil {
		refuse(rw, r, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge")
		return
	}
	raw, err := base64.StdEncoding.DecodeString(string(body))
	if err != nil || r.Header.Get("Content-Type") != "text/plain" {
		refuse(rw, r, http.StatusBadRequest, "ErrorMimeContentInvalidBase64String")
		return
	}
	g.mu.Lock()
	b.add("sentitems", string(raw), g.options.Now()).read = true
	g.mu.Unlock()
	rw.WriteHeader(http.StatusAccepted)
	_, _ = rw.Write(nil)
}
