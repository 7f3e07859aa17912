package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/thumbnail"
)

// imageReadTime is how long reading an image from the store may take for its thumbnail. Others
// wait meanwhile.
const imageReadTime = 15 * time.Second

// mayBeImage reports whether a file may be an image of which there is a thumbnail. Its bytes decide
// when the thumbnail is asked for.
func mayBeImage(mediaType string, size int64) bool {
	switch mediaType {
	case "image/jpeg", "image/png", "image/gif", "image/webp", "image/jpg", "application/octet-stream", "":
		return size <= thumbnail.MaxBytes
	}
	return false
}

// getThumbnail returns a small image of a kept file. It fetches nothing, and does not count as
// reading the file.
func (s *Server) getThumbnail(w http.ResponseWriter, r *http.Request) {
	found, place, err := s.messageOfFile(r)
	var rows []circulate.File
	if err == nil {
		rows, err = s.options.Ring.Files().Look(r.Context(), false, fileID(found, place))
	}
	if err != nil {
		s.fail(w, r, "get thumbnail", err)
		return
	}
	s.serveThumbnail(w, r, &rows[0])
}

// serveThumbnail writes a small image of a file.
func (s *Server) serveThumbnail(w http.ResponseWriter, r *http.Request, row *circulate.File) {
	if row.State != circulate.FileKept || !mayBeImage(row.Type, row.Size) {
		newErrorReply(http.StatusNotFound, "the file has no thumbnail: it is not kept, or is not an image").write(w, r)
		return
	}
	small, err := s.thumbnails.Of(r.Context(), row.Hash, func(ctx context.Context) ([]byte, error) { return s.readImage(ctx, row.Object) })
	refused, isRefused := errors.AsType[*thumbnail.Refusal](err)
	switch {
	case isRefused:
		newErrorReply(http.StatusNotFound, "the file has no thumbnail: "+refused.Reason).write(w, r)
		return
	case r.Context().Err() != nil && !errors.Is(err, ErrNoFile): // the caller has gone, or the server ends
		unavailable("the thumbnail was not made in time").write(w, r)
		return
	case err != nil:
		s.unread(row, err).write(w, r)
		return
	}
	inert(w.Header(), row.Hash+"-upright", small.Type) // browsers may still have sideways thumbnails under the tag of before
	http.ServeContent(w, r, "", row.Kept, bytes.NewReader(small.Bytes))
}

// readImage reads a file into memory.
func (s *Server) readImage(ctx context.Context, object string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, imageReadTime)
	defer cancel()
	file, err := s.options.Files.Open(ctx, object)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(file, thumbnail.MaxBytes+1))
}

// thumbnail describes the route of a file's thumbnail.
func (d describer) thumbnail() *huma.Operation {
	return d.problems(&huma.Operation{
		OperationID: "get-file-thumbnail", Method: http.MethodGet, Path: "/v1/messages/{ref}/files/{n}/thumbnail", Tags: []string{"messages"},
		Summary: "Get a small image of a file that a message carries",
		Description: "A JPEG or PNG image of at most 256 × 256 pixels, which the service makes of a kept JPEG, PNG, GIF or WebP image. " +
			"404 says that there is none: the file is not kept, is no such image, or has more than 32 MiB or 64 megapixels.",
		Parameters: fileParameters(),
		Responses: map[string]*huma.Response{
			"200": {Description: "OK", Content: map[string]*huma.MediaType{"image/jpeg": {}, "image/png": {}}},
			"304": {Description: "The caller has it."},
		},
	}, http.StatusUnauthorized, http.StatusNotFound, http.StatusGone, http.StatusUnprocessableEntity, http.StatusServiceUnavailable)
}
