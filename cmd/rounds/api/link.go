package api

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

// fileLinks is what links to files are signed for.
const fileLinks = "links to files"

// FileLink returns a path at which everybody reads a file of a message until a time. It has a
// signature of the service in place of a key.
func FileLink(ctx context.Context, keys *key.Keyring, found *circulate.Found, place int, until time.Time) (string, error) {
	at := link{ref: refOf(found), place: place, file: fileID(found, place), until: until.Unix()}
	signature, err := at.sign(ctx, keys)
	if err != nil {
		return "", err
	}
	query := url.Values{"file": {at.file}, "until": {strconv.FormatInt(at.until, 10)}, "signature": {signature}}
	return fmt.Sprintf("/v1/links/%s/%d?%s", at.ref, at.place, query.Encode()), nil
}

func refOf(found *circulate.Found) string { return strconv.Itoa(found.Shard) + ":" + found.Position }

// link is what a link says. The file's id finds the file after its message has moved or gone, and
// the message finds a file that is not kept yet.
type link struct {
	ref   string
	place int
	file  string
	until int64 // unix seconds
}

func (l *link) sign(ctx context.Context, keys *key.Keyring) (string, error) {
	sum, err := keys.Sign(ctx, fileLinks, fmt.Sprintf("%s %d %s %d", l.ref, l.place, l.file, l.until))
	return base64.RawURLEncoding.EncodeToString(sum), err
}

// readLink returns what a request's link says, or the reply to one that is not valid.
func (s *Server) readLink(r *http.Request) (*link, error) {
	query := r.URL.Query()
	l := &link{ref: r.PathValue("ref"), file: query.Get("file")}
	var errs [2]error
	l.place, errs[0] = strconv.Atoi(r.PathValue("n"))
	l.until, errs[1] = strconv.ParseInt(query.Get("until"), 10, 64)
	want, err := l.sign(r.Context(), s.options.Keys)
	switch {
	case err != nil:
		return nil, err
	case errors.Join(errs[:]...) != nil, !hmac.Equal([]byte(want), []byte(query.Get("signature"))):
		return nil, newErrorReply(http.StatusForbidden, "the link is not one of this service, or was cut off")
	case !time.Now().Before(time.Unix(l.until, 0)):
		return nil, newErrorReply(http.StatusForbidden, "the link has ended")
	}
	return l, nil
}

// getLinked returns the file of a link.
func (s *Server) getLinked(w http.ResponseWriter, r *http.Request) {
	l, err := s.readLink(r)
	if err != nil {
		s.replyFile(w, r, nil, 0, err)
		return
	}
	rows, err := s.options.Ring.Files().Look(r.Context(), r.Method == http.MethodGet, l.file)
	if err == nil && rows[0].State == circulate.FileKept {
		s.serveFile(w, r, &rows[0])
		return
	}
	if err == nil && rows[0].State == circulate.FileLost {
		lostFile(rows[0].Reason).write(w, r)
		return
	}
	var found *circulate.Found
	if err == nil {
		found, err = s.messageAt(r)
	}
	if err == nil && fileID(found, l.place) != l.file { // the number of shards has changed
		err = newErrorReply(http.StatusNotFound, noSuchFile)
	}
	s.replyFile(w, r, found, l.place, err)
}

// linked describes the route of links.
func (d describer) linked() *huma.Operation {
	text := &huma.Schema{Type: huma.TypeString}
	o := d.file()
	o.OperationID, o.Path, o.Summary = "get-linked-file", "/v1/links/{ref}/{n}", "Read a file by a link"
	o.Description = "Webhooks and streams bring such links with their messages. A link needs no key, and ends after some time: then 403. Otherwise the reply is that of the file's own path."
	o.Security = []map[string][]string{{}} // open to all
	for _, name := range []string{"file", "until", "signature"} {
		o.Parameters = append(o.Parameters, &huma.Param{Name: name, In: "query", Required: true, Schema: text, Description: "As the link has it."})
	}
	delete(o.Responses, strconv.Itoa(http.StatusUnauthorized))
	return d.problems(o, http.StatusForbidden)
}
