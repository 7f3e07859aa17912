package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// Upload is a file that somebody uploads, for sends of an account to name.
type Upload struct {
	Account string
	Kind    string // the account's
	Name    string
	Type    string // the media type
	SHA256  string // of the bytes, in hex; empty: unknown
}

// FileRefused reports that an uploaded file is at fault.
type FileRefused struct {
	Reason string
	Err    error // the cause; nil: none
}

// Error returns the reason.
func (e *FileRefused) Error() string { return e.Reason }

// Unwrap returns the cause.
func (e *FileRefused) Unwrap() error { return e.Err }

// UploadedFile is a file that was uploaded.
type UploadedFile struct {
	ID      string    `json:"id" doc:"Names it in a send's data: {\"file\": \"ID\"}."`
	Account string    `json:"account" doc:"Only sends of this account may name it."`
	Name    string    `json:"name,omitempty"`
	Type    string    `json:"type,omitempty" doc:"The media type."`
	Size    int64     `json:"size" doc:"Bytes."`
	SHA256  string    `json:"sha256" doc:"Of the bytes, in hex."`
	Until   time.Time `json:"until" doc:"It is removed then. A send that names it before keeps the bytes for itself."`
}

// createFile stores the body of a request.
func (s *Server) createFile(w http.ResponseWriter, r *http.Request) {
	ctx, end := s.stream(r)
	defer end()
	connection := http.NewResponseController(w)
	body := &promptReader{ctx: ctx, in: r.Body, connection: connection, before: func() {}}
	defer body.abandon(r.Body)
	f, err := s.upload(ctx, r, body)
	_ = connection.SetWriteDeadline(time.Now().Add(writePatience)) // the upload may have taken any time
	if err != nil {
		trail.Of(r.Context()).End(trail.Refused)
		s.errorReply(ctx, "upload file", err).write(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	writeJSON(w, f)
}

func (s *Server) upload(ctx context.Context, r *http.Request, body *promptReader) (*UploadedFile, error) {
	u, err := uploadOf(r)
	if err != nil {
		return nil, err
	}
	view, err := s.registry(ctx).Get(ctx, u.Account)
	if err != nil {
		return nil, err
	}
	trail.Of(ctx).Account(view.ID)
	u.Kind = view.Kind
	come := &countedBody{from: body}
	row, err := s.options.Files.Upload(ctx, u, come)
	refused, isRefused := errors.AsType[*FileRefused](err)
	switch {
	case come.brokeOff && r.ContentLength > 0:
		return nil, invalid("body", fmt.Sprintf("broke off before its end: only %d of %d bytes came", come.size, r.ContentLength))
	case come.brokeOff:
		return nil, invalid("body", "broke off before its end")
	case cutOff(ctx):
		return nil, context.Cause(ctx)
	case isRefused:
		return nil, invalid("body", refused.Reason)
	case errors.Is(err, circulate.ErrFilesFull), errors.Is(err, circulate.ErrAccountFilesFull):
		return nil, filesFull(err)
	case err != nil && circulate.Unknown(err):
		return nil, err
	case err != nil:
		s.options.Log.ErrorContext(ctx, "a file was not stored", "account", view.ID, "error", err)
		return nil, unavailable("the store of files does not answer")
	}
	trail.Of(ctx).Subject("file", row.ID)
	return &UploadedFile{
		ID: row.ID, Account: row.Account, Name: row.Name, Type: row.Type, Size: row.Size, SHA256: row.Hash, Until: inUTC(row.Found.Truncate(time.Millisecond).Add(circulate.UploadLasts)),
	}, nil
}

// countedBody counts the bytes that are read, and notes whether they broke off. A caller whose body broke
// off may still read the answer, although net/http cancels the request then.
type countedBody struct {
	from     io.Reader
	size     int64
	brokeOff bool
}

// Read implements io.Reader.
func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.size += int64(n)
	c.brokeOff = c.brokeOff || errors.Is(err, io.ErrUnexpectedEOF)
	return n, err
}

// uploadOf reads what a request says of its file. Its error is a reply.
func uploadOf(r *http.Request) (Upload, error) {
	q := readQuery(r, false, "account", "name", "type", "sha256")
	u := Upload{Account: q.values["account"], Name: q.values["name"], Type: q.values["type"], SHA256: strings.ToLower(q.values["sha256"])}
	faults := q.faults
	if u.Account == "" {
		faults.Add("account", "missing: say for which account the file is")
	}
	if u.Type == "" {
		said, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err == nil && !slices.Contains([]string{"application/octet-stream", "application/x-www-form-urlencoded"}, said) { // what programs say by themselves
			u.Type = said
		}
	}
	u.Type = cmp.Or(u.Type, MediaTypeOf(u.Name))
	if sum, err := hex.DecodeString(u.SHA256); u.SHA256 != "" && (err != nil || len(sum) != sha256.Size) {
		faults.Add("sha256", "must be 64 hex digits")
	}
	if err := faults.Err(); err != nil {
		return u, badQuery(err)
	}
	// A part of a file, or a compressed one, would be stored as if it was the file.
	for _, name := range []string{"Content-Range", "Content-Encoding"} {
		if said := r.Header.Get(name); said != "" && !strings.EqualFold(said, "identity") {
			return u, invalid("header."+name, "must be left out: the body is the whole file, as it is")
		}
	}
	for _, name := range []string{"Content-Digest", "Repr-Digest"} {
		sum, err := digestIn(r.Header.Values(name))
		switch {
		case err != nil:
			return u, invalid("header."+name, err.Error())
		case sum == "":
		case u.SHA256 != "" && u.SHA256 != sum:
			return u, invalid("header."+name, "must be the same SHA-256 as the others of the request")
		default:
			u.SHA256 = sum
		}
	}
	return u, nil
}

// errDigest reports a digest that nobody can compare.
var errDigest = errors.New("must have one sha-256=:…: with the base64 of 32 bytes")

// digestIn returns the SHA-256 in the fields of a Content-Digest or Repr-Digest (RFC 9530), in hex; empty:
// there is none. Other digests are passed over, as the RFC allows.
func digestIn(fields []string) (sum string, err error) {
	for one := range strings.SplitSeq(strings.Join(fields, ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(one), "=")
		if !strings.EqualFold(name, "sha-256") {
			continue
		}
		text, opened := strings.CutPrefix(value, ":")
		text, closed := strings.CutSuffix(text, ":")
		raw, err := base64.StdEncoding.DecodeString(text)
		if !opened || !closed || err != nil || len(raw) != sha256.Size || sum != "" {
			return "", errDigest
		}
		sum = hex.EncodeToString(raw)
	}
	return sum, nil
}

// filesFull is the reply where a quota of files is reached.
func filesFull(err error) *errorReply {
	detail := "the quota of files is reached: see ROUNDS_FILES_QUOTA"
	if errors.Is(err, circulate.ErrAccountFilesFull) {
		detail = "the account's quota of files is reached: see ROUNDS_FILES_ACCOUNT_QUOTA"
	}
	return newErrorReply(http.StatusInsufficientStorage, detail)
}

// namedFile returns the row of the file that a send's data names; nil: the kind judges the data. Only
// files of the same account may be named: nobody sends what somebody else was sent.
func (s *Server) namedFile(ctx context.Context, account string, data []byte) (*circulate.File, error) {
	fields, ok := strict.Members(data)
	id, isText := strict.TextIn(fields, "file")
	if !ok || !isText || id == "" {
		return nil, nil
	}
	if s.options.Files == nil {
		return nil, accounts.Faults{{Field: "data.file", Reason: "this server keeps no files: see ROUNDS_FILES"}}
	}
	rows, err := s.options.Ring.Files().Look(ctx, false, id)
	if err != nil {
		return nil, err
	}
	if rows[0].State != circulate.FileKept || rows[0].Account != account {
		return nil, noFile()
	}
	return &rows[0], nil
}

func noFile() accounts.Faults {
	return accounts.Faults{{Field: "data.file", Reason: "must be a kept file of the account: one that was uploaded for it within the last day, or one of its messages"}}
}

// holdFile gives a send the bytes of the file that it names, before it is queued.
func (s *Server) holdFile(ctx context.Context, send *circulate.Send, named *circulate.File) error {
	now, err := s.options.Ring.Files().Now(ctx)
	if err != nil {
		return err
	}
	row := circulate.File{
		ID: sendFileID(send.Account, send.ID), Account: send.Account, Kind: send.Kind,
		Holder: circulate.FileOfSend, Of: send.ID, Name: named.Name, Type: named.Type, Found: now,
	}
	shared, err := s.options.Files.Share(ctx, row, named.ID)
	switch {
	case errors.Is(err, circulate.ErrAccountFilesFull):
		return filesFull(err)
	case err == nil && !shared:
		return noFile()
	}
	return err
}

// letFileGo removes the file of a send that was not queued. If it cannot, a collector does.
func (s *Server) letFileGo(ctx context.Context, send *circulate.Send) {
	list := s.options.Ring.Files()
	rows, err := list.Look(ctx, false, sendFileID(send.Account, send.ID))
	if err == nil && rows[0].ID != "" {
		_, _, err = list.End(ctx, "", rows...)
	}
	if err != nil {
		s.options.Log.DebugContext(ctx, "the file of a send that was not queued stays for now", "send", send.ID, "error", err)
	}
}

// upload describes the route by which files are uploaded.
func (d describer) upload() *huma.Operation {
	text := func(name, about string, required bool) *huma.Param {
		return &huma.Param{Name: name, In: "query", Required: required, Schema: &huma.Schema{Type: huma.TypeString}, Description: about}
	}
	return d.problems(&huma.Operation{
		OperationID: "upload-file", Method: http.MethodPost, Path: "/v1/files", Tags: []string{"sends"},
		Summary: "Upload a file for a send",
		Description: fmt.Sprintf("The body is the file, whole and as it is. Sends of the account name it within %d hours, as {\"file\": \"ID\"}. With its SHA-256, as sha256, Content-Digest or Repr-Digest, nothing but the whole file is taken. "+
			"A request whose reply was lost may be repeated: the same file has the same id. 422 if the file is too large, broke off before the end of which Content-Length tells, or is another one; nothing is stored then. 507 if a quota is reached.", int(circulate.UploadLasts.Hours())),
		Parameters: []*huma.Param{
			text("account", "The id of the account.", true),
			text("name", "The file's name, for people and for third parties.", false),
			text("type", "Its media type. Left out: that of Content-Type, or else what the name's ending says.", false),
			text("sha256", "Of its bytes, in hex. Left out: that of Content-Digest or Repr-Digest (RFC 9530), if there is one.", false),
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}},
		Responses: map[string]*huma.Response{
			"201": {Description: "Stored.", Content: map[string]*huma.MediaType{"application/json": d.media(reflect.TypeFor[UploadedFile]())}},
		},
	}, http.StatusUnauthorized, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusServiceUnavailable, http.StatusInsufficientStorage)
}
