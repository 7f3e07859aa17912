package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
)

// FileStore is where the files of messages are, and how those that are not there yet are fetched.
type FileStore interface {
	// Carried returns the files that a message of a kind carries, in their order.
	Carried(kind string, m *circulate.Message) []CarriedFile
	// When returns when files of a kind are fetched: FilesAll, FilesDemand or FilesNone.
	When(ctx context.Context, kind string) string
	// Fetch fetches a file of a message now. Its error is a *FileLost, or a *FileLater.
	Fetch(ctx context.Context, found *circulate.Found, place int) error
	// Upload stores a file for sends to name. Its error is a *FileRefused if the file is at fault,
	// circulate.ErrFilesFull or circulate.ErrAccountFilesFull, or one of the store or of Redis.
	Upload(ctx context.Context, u Upload, from io.Reader) (circulate.File, error)
	// Share is circulate.Files.Share within the account's quota.
	Share(ctx context.Context, row circulate.File, from string) (bool, error)
	// Most returns how many bytes a file may have.
	Most() int64
	// Open returns the bytes of a kept file, or ErrNoFile if the store does not have them.
	Open(ctx context.Context, object string) (io.ReadSeekCloser, error)
}

// These are the answers of FileStore.When.
const (
	FilesAll    = "all"
	FilesDemand = "demand"
	FilesNone   = "none"
)

// ErrNoFile reports bytes that the store should have and does not.
var ErrNoFile = errors.New("api: the store does not have the file")

// FileLost reports that a file will never be there.
type FileLost struct{ Reason string }

// Error returns the reason.
func (e *FileLost) Error() string { return e.Reason }

// FileLater reports that a file cannot be fetched now.
type FileLater struct {
	After  time.Duration
	Reason string
}

// Error returns the reason.
func (e *FileLater) Error() string { return e.Reason }

// CarriedFile is a file that a message carries, as the message tells it.
type CarriedFile struct {
	Name string
	Type string
	Size int64 // bytes; 0: unknown
}

// File is a file of a message.
type File struct {
	N      int    `json:"n" doc:"Its place in the message, from 0."`
	ID     string `json:"id,omitempty" doc:"Names it in a send of the same account, if it is kept."`
	Name   string `json:"name,omitempty" doc:"As the sender named it; nothing of it is to be trusted."`
	Type   string `json:"type,omitempty" doc:"The media type, as the sender or the third party says."`
	Size   int64  `json:"size,omitempty" doc:"Bytes; until it is kept, as the message says."`
	State  string `json:"state" enum:"kept,lost,waiting,demand,none" doc:"kept: it can be read at the url. lost: it never will be, and the reason says why. waiting: it is being fetched. demand: reading the url fetches it. none: files of this kind are not fetched."`
	Reason string `json:"reason,omitempty" doc:"Why it is lost."`
	URL    string `json:"url,omitempty" doc:"Where it is read, unless it is lost or not fetched: a path of this API."`

	Link  string    `json:"link,omitempty" doc:"In streams and to groups: where it is read without a key, until a time: a path of this API."`
	Until time.Time `json:"link_until,omitzero" doc:"When the link ends."`

	Thumbnail string `json:"thumbnail,omitempty" doc:"Where a small image of it is read, if it is kept and may be an image: a path of this API."`
}

// The states of a File.
const (
	fileKept    = "kept"
	fileLost    = "lost"
	fileWaiting = "waiting"
	fileDemand  = "demand"
	fileNone    = "none"
)

// carrying is a message of which a reply tells the files.
type carrying struct {
	found  *circulate.Found
	into   *Message
	at     string // the path of its files; empty: that of the message
	linked bool   // with links that need no key
}

// tellFiles tells the files of messages, with one look at the list.
func (s *Server) tellFiles(ctx context.Context, all ...carrying) error {
	if s.options.Files == nil {
		return nil
	}
	carried := make([][]CarriedFile, len(all))
	var ids []string
	for i, c := range all {
		if c.found.Event {
			continue
		}
		carried[i] = s.options.Files.Carried(c.found.Kind, &c.found.Message)
		for place := range carried[i] {
			ids = append(ids, fileID(c.found, place))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []circulate.File
	for from := 0; from < len(ids); from += filesAtOnce {
		some, err := s.options.Ring.Files().Look(ctx, false, ids[from:min(from+filesAtOnce, len(ids))]...)
		if err != nil {
			return err
		}
		rows = append(rows, some...)
	}
	for i, c := range all {
		for place, one := range carried[i] {
			f := s.fileOf(ctx, c, place, one, &rows[0])
			rows = rows[1:]
			if c.linked && f.URL != "" && s.options.FileLinks > 0 {
				f.Until = time.Now().Add(s.options.FileLinks).UTC().Truncate(time.Second)
				var err error
				if f.Link, err = FileLink(ctx, s.options.Keys, c.found, place, f.Until); err != nil {
					return err
				}
			}
			c.into.Files = append(c.into.Files, f)
		}
	}
	return nil
}

// filesAtOnce is how many rows one step looks at.
const filesAtOnce = 1024

func fileID(found *circulate.Found, place int) string {
	return circulate.NewFileID(found.Account, circulate.FileOfMessage, found.Message.ID, place)
}

// fileOf returns a file as its row, or else its kind's policy, says.
func (s *Server) fileOf(ctx context.Context, c carrying, place int, carried CarriedFile, row *circulate.File) File {
	f := File{N: place, Name: carried.Name, Type: carried.Type, Size: carried.Size}
	switch {
	case row.State == circulate.FileKept:
		f.State, f.ID, f.Name, f.Type, f.Size = fileKept, row.ID, row.Name, row.Type, row.Size
	case row.State == circulate.FileLost:
		f.State, f.Reason = fileLost, row.Reason
		return f
	default:
		switch s.options.Files.When(ctx, c.found.Kind) {
		case FilesNone:
			f.State = fileNone
			return f
		case FilesDemand:
			f.State = fileDemand
		default:
			f.State = fileWaiting
		}
	}
	f.URL = fmt.Sprintf("%s/%d", cmp.Or(c.at, "/v1/messages/"+refOf(c.found)+"/files"), place)
	if f.State == fileKept && c.at == "" && mayBeImage(f.Type, f.Size) {
		f.Thumbnail = f.URL + "/thumbnail"
	}
	return f
}

// FilePending is the reply for a file that is not there yet.
type FilePending struct {
	File
	After int `json:"retry_after" doc:"After how many seconds to ask again."`
}

// fileRetry is after what time to ask again for a file that the group fetches.
const fileRetry = 5 * time.Second

// noSuchFile says that a message has no file at a place.
const noSuchFile = "the message has no such file"

func lostFile(reason string) *errorReply {
	return newErrorReply(http.StatusGone, "the file is lost: "+reason)
}

// getFile returns a file of a message: its bytes if it is kept.
func (s *Server) getFile(w http.ResponseWriter, r *http.Request) {
	found, place, err := s.messageOfFile(r)
	s.replyFile(w, r, found, place, err)
}

// getDeadFile returns a file of a dead letter's message.
func (s *Server) getDeadFile(w http.ResponseWriter, r *http.Request) {
	place, err := placeOfFile(r)
	var letter message.DeadLetter
	if err == nil {
		letter, err = s.messages.DeadLetter(r.Context(), r.PathValue("id"))
	}
	if faults, ok := errors.AsType[accounts.Faults](err); ok {
		err = invalid("path.id", faults[0].Reason)
	}
	s.replyFile(w, r, &letter.Found, place, err)
}

// replyFile replies with a file of a message, or with the error of finding that.
func (s *Server) replyFile(w http.ResponseWriter, r *http.Request, found *circulate.Found, place int, err error) {
	if err != nil {
		s.fail(w, r, "get file", err)
		return
	}
	carried := s.options.Files.Carried(found.Kind, &found.Message)
	if place >= len(carried) {
		newErrorReply(http.StatusNotFound, noSuchFile).write(w, r)
		return
	}
	for try := 0; ; try++ {
		rows, err := s.options.Ring.Files().Look(r.Context(), r.Method == http.MethodGet, fileID(found, place))
		if err != nil {
			s.fail(w, r, "get file", err)
			return
		}
		f := s.fileOf(r.Context(), carrying{found: found}, place, carried[place], &rows[0])
		switch {
		case f.State == fileKept:
			s.serveFile(w, r, &rows[0])
		case f.State == fileLost:
			lostFile(f.Reason).write(w, r)
		case f.State == fileNone:
			newErrorReply(http.StatusNotFound, "files of this kind are not fetched: see ROUNDS_FILES_POLICY").write(w, r)
		case f.State == fileDemand && try == 0:
			err := s.options.Files.Fetch(r.Context(), found, place)
			later, isLater := errors.AsType[*FileLater](err)
			if _, lost := errors.AsType[*FileLost](err); err == nil || lost {
				continue // the row says more
			}
			if isLater {
				p := unavailable("the file cannot be fetched now: " + later.Reason)
				p.headers.Set("Retry-After", strconv.Itoa(max(1, int(later.After.Seconds()))))
				p.write(w, r)
				return
			}
			s.fail(w, r, "fetch file", err)
		default:
			f.URL = r.URL.RequestURI()
			w.Header().Set("Retry-After", strconv.Itoa(int(fileRetry.Seconds())))
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
			writeJSON(w, FilePending{f, int(fileRetry.Seconds())})
		}
		return
	}
}

// messageOfFile returns the message in a path, if the caller sees it, and the place of the file.
func (s *Server) messageOfFile(r *http.Request) (*circulate.Found, int, error) {
	place, err := placeOfFile(r)
	if err != nil {
		return nil, 0, err
	}
	found, err := s.messageAt(r)
	if err != nil {
		return nil, 0, err
	}
	visible, err := s.visible(r.Context(), []circulate.Found{*found})
	if err == nil && !visible(found) {
		err = message.ErrNoMessage
	}
	return found, place, err
}

// messageAt returns the message in a path. It does not ask whether the caller may see it.
func (s *Server) messageAt(r *http.Request) (*circulate.Found, error) {
	shard, position, err := message.ParseRef(r.PathValue("ref"))
	if err != nil {
		return nil, invalid("path.ref", err.Error())
	}
	return s.messages.At(r.Context(), shard, position)
}

func placeOfFile(r *http.Request) (int, error) {
	place, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || place < 0 {
		return 0, invalid("path.n", "must be the number of a file, from 0")
	}
	return place, nil
}

// serveFile writes the bytes of a kept file, or a range of them. They are a stranger's: no browser
// shows them as a page of this service.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, row *circulate.File) {
	bytes, err := s.options.Files.Open(r.Context(), row.Object)
	if err != nil {
		s.unread(row, err).write(w, r)
		return
	}
	defer func() { _ = bytes.Close() }() // it was only read
	inert(w.Header(), row.Hash, harmless(row.Type))
	w.Header().Set("Content-Disposition", disposition(row.Name))
	http.ServeContent(patient(w), r, "", row.Kept, bytes)
}

// unread returns the reply for a kept file that the store does not give.
func (s *Server) unread(row *circulate.File, err error) *errorReply {
	if errors.Is(err, ErrNoFile) {
		return newErrorReply(http.StatusGone, "the store has lost the file")
	}
	s.options.Log.Error("a file cannot be read", "account", row.Account, "file", row.ID, "error", err)
	return unavailable("the store of files does not answer")
}

// getStored returns the bytes of an object of the store, for a backup, whose list of files has its
// name. The object's hash is in its name.
func (s *Server) getStored(w http.ResponseWriter, r *http.Request) {
	folder, name := r.PathValue("folder"), r.PathValue("name")
	bytes, err := s.options.Files.Open(r.Context(), folder+"/"+name)
	if errors.Is(err, ErrNoFile) {
		newErrorReply(http.StatusNotFound, "the store has no such object").write(w, r)
		return
	}
	if err != nil {
		s.options.Log.Error("a file cannot be read", "object", folder+"/"+name, "error", err)
		unavailable("the store of files does not answer").write(w, r)
		return
	}
	defer func() { _ = bytes.Close() }() // it was only read
	hash, _, _ := strings.Cut(name, "-")
	inert(w.Header(), hash, harmless(""))
	http.ServeContent(patient(w), r, "", time.Time{}, bytes)
}

// inert sets the headers of bytes that no browser shows as a page of this service.
func inert(h http.Header, tag, mediaType string) {
	h.Set("ETag", `"`+tag+`"`)
	h.Set("Content-Type", mediaType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, max-age=86400, immutable")
}

// patientReply is a reply that may take any time, as long as the caller reads.
type patientReply struct {
	http.ResponseWriter
	patient *patientWriter
}

func patient(w http.ResponseWriter) patientReply {
	return patientReply{w, &patientWriter{out: w, connection: http.NewResponseController(w)}}
}

// Write writes with a deadline of its own.
func (p patientReply) Write(bytes []byte) (int, error) { return p.patient.Write(bytes) }

// harmless returns a media type as which a browser runs nothing.
func harmless(mediaType string) string {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "application/pdf", "application/zip", "text/plain", "text/csv",
		"audio/mpeg", "audio/ogg", "audio/amr", "audio/mp4", "audio/wav", "video/mp4", "video/webm", "video/quicktime":
		return mediaType
	}
	return "application/octet-stream"
}

// disposition returns a Content-Disposition with which browsers save a file under its name.
func disposition(name string) string {
	if name == "" {
		return "attachment"
	}
	if text := mime.FormatMediaType("attachment", map[string]string{"filename": name}); text != "" {
		return text
	}
	return "attachment"
}

// fileRoutes adds the routes of files, if there is a store.
func (s *Server) fileRoutes(mux *routeMux) {
	if s.options.Files != nil {
		mux.HandleFunc("GET /v1/messages/{ref}/files/{n}", s.getFile)
		mux.HandleFunc("GET /v1/messages/{ref}/files/{n}/thumbnail", s.getThumbnail)
		mux.HandleFunc("GET /v1/dead/{id}/files/{n}", s.getDeadFile)
		mux.HandleFunc("GET /v1/backup/files/{folder}/{name}", s.getStored)
		mux.HandleFunc("POST /v1/files", s.createFile)
		mux.HandleFunc("GET /v1/sends/{id}/file", s.getSendFile)
		mux.HandleFunc("GET /v1/sends/{id}/file/thumbnail", s.getSendThumbnail)
	}
}

// file describes the route of a message's file.
func (d describer) file() *huma.Operation {
	return d.problems(&huma.Operation{
		OperationID: "get-file", Method: http.MethodGet, Path: "/v1/messages/{ref}/files/{n}", Tags: []string{"messages"},
		Summary: "Read a file that a message carries",
		Description: "The bytes, as an attachment. Range, If-Range and If-None-Match work as usual, and the ETag is the SHA-256 of the bytes. " +
			"202 says that the file is being fetched, 410 that it is lost, with the reason. A file that is fetched on demand is fetched by this request.",
		Parameters: fileParameters(),
		Responses: map[string]*huma.Response{
			"200": {Description: "OK", Content: map[string]*huma.MediaType{"application/octet-stream": {}}},
			"202": {Description: "It is being fetched.", Content: map[string]*huma.MediaType{"application/json": d.media(reflect.TypeFor[FilePending]())}},
			"206": {Description: "A part of it.", Content: map[string]*huma.MediaType{"application/octet-stream": {}}},
			"304": {Description: "The caller has it."},
			"416": {Description: "It has no such part."},
		},
	}, http.StatusUnauthorized, http.StatusNotFound, http.StatusGone, http.StatusUnprocessableEntity, http.StatusServiceUnavailable)
}

// deadFile describes the route of a file of a dead letter.
func (d describer) deadFile() *huma.Operation {
	o := d.file()
	o.OperationID, o.Path, o.Tags, o.Summary = "get-dead-file", "/v1/dead/{id}/files/{n}", []string{"delivery"}, "Read a file that the message of a dead letter carries"
	o.Parameters[0] = &huma.Param{Name: "id", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "The letter's dead_id."}
	return o
}

// fileParameters are those of a path of a message's file.
func fileParameters() []*huma.Param {
	least := 0.0
	return []*huma.Param{
		{Name: "ref", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "SHARD:POSITION of the message."},
		{Name: "n", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &least}, Description: "The place of the file in the message, from 0."},
	}
}

// stored describes the route of an object of the store.
func (d describer) stored() *huma.Operation {
	path := func(name, description string) *huma.Param {
		return &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: description}
	}
	return d.problems(&huma.Operation{
		OperationID: "get-backup-file", Method: http.MethodGet, Path: "/v1/backup/files/{folder}/{name}", Tags: []string{"transfer"},
		Summary:     "The bytes of a file in a backup's list",
		Description: "A backup has the list of files, with the name of each object in the store, and no bytes. Range and If-Range work as usual, and the ETag is the SHA-256 of the bytes.",
		Parameters:  []*huma.Param{path("folder", "The object's name up to the slash."), path("name", "The object's name behind the slash.")},
		Responses: map[string]*huma.Response{
			"200": {Description: "OK", Content: map[string]*huma.MediaType{"application/octet-stream": {}}},
			"206": {Description: "A part of it.", Content: map[string]*huma.MediaType{"application/octet-stream": {}}},
			"304": {Description: "The caller has it."},
			"416": {Description: "It has no such part."},
		},
	}, http.StatusUnauthorized, http.StatusNotFound, http.StatusServiceUnavailable)
}
