package api

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// sendFileID returns the id of a send's file.
func sendFileID(account, send string) string {
	return circulate.NewFileID(account, circulate.FileOfSend, send, 0)
}

// TypeOfFile returns the type of a send for a file with this name.
func TypeOfFile(name string) string {
	switch kind, _, _ := strings.Cut(MediaTypeOf(name), "/"); kind {
	case "image", "video":
		if !strings.EqualFold(filepath.Ext(name), ".gif") { // third parties show one that moves only as a file
			return kind
		}
	case "audio":
		if strings.EqualFold(filepath.Ext(name), ".amr") || strings.EqualFold(filepath.Ext(name), ".ogg") { // others are no voices
			return "voice"
		}
	}
	return "file"
}

// MediaTypeOf returns the media type of a file with this name; empty: unknown. It does not depend on
// the machine.
func MediaTypeOf(name string) string {
	return map[string]string{
		".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".mp4": "video/mp4", ".amr": "audio/amr", ".ogg": "audio/ogg", ".mp3": "audio/mpeg",
		".gif": "image/gif", ".pdf": "application/pdf", ".txt": "text/plain", ".csv": "text/csv", ".zip": "application/zip",
	}[strings.ToLower(filepath.Ext(name))]
}

// tellSendFiles tells the files of sends, with one look at the list.
func (s *Server) tellSendFiles(ctx context.Context, all ...*Send) error {
	if s.options.Files == nil {
		return nil
	}
	var sends []*Send
	var ids []string
	for _, send := range all {
		fields, _ := strict.Members(send.Data)
		if named, _ := strict.TextIn(fields, "file"); named != "" {
			sends, ids = append(sends, send), append(ids, sendFileID(send.Account, send.ID))
		}
	}
	for from := 0; from < len(ids); from += filesAtOnce {
		rows, err := s.options.Ring.Files().Look(ctx, false, ids[from:min(from+filesAtOnce, len(ids))]...)
		if err != nil {
			return err
		}
		for i := range rows {
			sends[from+i].File = fileOfSend(sends[from+i].ID, &rows[i])
		}
	}
	return nil
}

// fileOfSend returns the file of a send as its row says; nil: the list has none.
func fileOfSend(send string, row *circulate.File) *File {
	f := &File{Name: row.Name, Type: row.Type, Size: row.Size}
	switch row.State {
	case circulate.FileKept:
		f.State, f.ID, f.URL = fileKept, row.ID, "/v1/sends/"+send+"/file"
		if mayBeImage(f.Type, f.Size) {
			f.Thumbnail = f.URL + "/thumbnail"
		}
	case circulate.FileLost:
		f.State, f.Reason = fileLost, row.Reason
	default:
		return nil
	}
	return f
}

// getSendFile returns the file of a send.
func (s *Server) getSendFile(w http.ResponseWriter, r *http.Request) {
	s.replySendFile(w, r, s.serveFile)
}

// getSendThumbnail returns a small image of the file of a send.
func (s *Server) getSendThumbnail(w http.ResponseWriter, r *http.Request) {
	s.replySendFile(w, r, s.serveThumbnail)
}

// replySendFile has the kept file of a send served, if the caller sees the send.
func (s *Server) replySendFile(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request, *circulate.File)) {
	send, err := s.registry(r.Context()).Send(r.Context(), r.PathValue("id"))
	var rows []circulate.File
	if err == nil {
		rows, err = s.options.Ring.Files().Look(r.Context(), false, sendFileID(send.Account, send.ID))
	}
	switch {
	case err != nil:
		s.fail(w, r, "get file of send", sendReply(err))
	case rows[0].State == circulate.FileLost:
		lostFile(rows[0].Reason).write(w, r)
	case rows[0].State != circulate.FileKept:
		newErrorReply(http.StatusNotFound, "the send has no file").write(w, r)
	default:
		serve(w, r, &rows[0])
	}
}

// sendFile describes the route of a send's file.
func (d describer) sendFile() *huma.Operation {
	o := d.file()
	o.OperationID, o.Path, o.Tags, o.Summary = "get-send-file", "/v1/sends/{id}/file", []string{"sends"}, "Read the file of a send"
	o.Description = "The bytes, as an attachment. Range, If-Range and If-None-Match work as usual, and the ETag is the SHA-256 of the bytes. 404 says that the send has no file."
	o.Parameters = sendFileParameters()
	delete(o.Responses, "202")
	return o
}

// sendThumbnail describes the route of the small image of a send's file.
func (d describer) sendThumbnail() *huma.Operation {
	o := d.thumbnail()
	o.OperationID, o.Path, o.Tags, o.Summary = "get-send-thumbnail", "/v1/sends/{id}/file/thumbnail", []string{"sends"}, "Get a small image of the file of a send"
	o.Parameters = sendFileParameters()
	return o
}

func sendFileParameters() []*huma.Param {
	return []*huma.Param{{Name: "id", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "The id of the send."}}
}
