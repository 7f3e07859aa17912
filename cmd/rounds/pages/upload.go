package pages

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	routeUpload = "POST /v1/files"

	// maxParts is the most parts of a form with a file.
	maxParts = 16
)

// errForm reports a form whose fields are too large, or whose parts are not those of a form of the
// dashboard.
var errForm = errors.New("dashboard: the form cannot be read")

// fileForm is a form that may have one file (multipart/form-data). The fields before the file are read
// at once. The file goes on to the API as it comes, and is never in memory as a whole.
type fileForm struct {
	body  *ration
	parts *multipart.Reader
	count int // of the parts so far
	file  *multipart.Part
	ended bool // the body was read to its end
}

// ration is a body of which only so many bytes may be read. By itself the multipart reader takes 10 MiB
// of headers for each part.
type ration struct {
	io.ReadCloser
	left int64
	read int64
}

// Read reads within the ration.
func (r *ration) Read(p []byte) (int, error) {
	if r.left <= 0 && len(p) > 0 {
		return 0, errForm
	}
	n, err := r.ReadCloser.Read(p[:min(int64(len(p)), r.left)])
	r.left, r.read = r.left-int64(n), r.read+int64(n)
	return n, err
}

// readFileForm reads the fields of the posted form up to its file, of which there may be so many bytes.
func (v *visit) readFileForm(most int64) error {
	body := &ration{ReadCloser: v.r.Body, left: most}
	v.r.Body = body
	parts, err := v.r.MultipartReader()
	if err != nil {
		return err
	}
	v.fileForm, v.r.PostForm = &fileForm{body: body, parts: parts}, url.Values{}
	return v.fileForm.fields(v.r.PostForm)
}

// fields reads fields into values, up to the file or to the end. After the file there may be more
// fields, but no second file.
func (f *fileForm) fields(values url.Values) error {
	for {
		part, err := f.parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			f.ended = true
			return nil
		}
		if err != nil {
			return err
		}
		f.count++
		switch {
		case f.count > maxParts, part.FormName() == "":
			return errForm
		case part.FileName() == "": // so is the part of a file that was not chosen
			value, err := io.ReadAll(part)
			if err != nil {
				return err
			}
			values.Add(part.FormName(), string(value))
		case f.file != nil:
			return errForm
		default:
			f.file = part
			return nil
		}
	}
}

// abandon closes a form that was not read to its end, without waiting for the rest.
func (f *fileForm) abandon(w http.ResponseWriter) {
	if f == nil || f.ended {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // a recorder in a test has none
	_ = f.body.Close()                                                 // the connection ends with the reply
}

// fileTooLarge reports a file that is larger than the server takes.
type fileTooLarge struct{ most int64 }

func (*fileTooLarge) Error() string { return "dashboard: the file is too large" }

// upload passes the form's file on to the API, for sends of an account, and then reads the fields
// after it. A file larger than most is a *fileTooLarge, and is not read if the form says its length.
func (v *visit) upload(account string, most int64) (*api.UploadedFile, error) {
	f := v.fileForm
	if v.r.ContentLength-f.body.read > most+maxForm {
		return nil, &fileTooLarge{most}
	}
	f.body.left = most + maxForm
	from := &tally{in: f.file}
	to := link("/v1/files", "account", account, "name", f.file.FileName())
	w := &uploadWriter{replyWriter{header: make(http.Header), status: http.StatusOK}, http.NewResponseController(v.out)}
	if err := v.site.serve(v.r.Context(), w, v.r.RemoteAddr, http.MethodPost, to, http.Header{"Content-Type": f.file.Header["Content-Type"]}, from); err != nil {
		return nil, err
	}
	reply, err := w.reply(to)
	if err != nil {
		if from.n > most {
			return nil, &fileTooLarge{most}
		}
		return nil, v.said(err)
	}
	up := &api.UploadedFile{}
	if err := decode(to, reply, up); err != nil {
		return nil, err
	}
	f.body.left = maxForm
	if err := f.fields(v.r.PostForm); err != nil {
		return nil, v.unreadable()
	}
	return up, nil
}

// tally counts what is read.
type tally struct {
	in io.Reader
	n  int64
}

// Read reads and counts.
func (t *tally) Read(p []byte) (int, error) {
	n, err := t.in.Read(p)
	t.n += int64(n)
	return n, err
}

// uploadWriter stores the reply to an upload. Its deadlines are those of the connection from which the
// file comes, so that an upload may take as long as one to the API.
type uploadWriter struct {
	replyWriter
	connection *http.ResponseController
}

// SetReadDeadline is for http.ResponseController.
func (w *uploadWriter) SetReadDeadline(at time.Time) error { return w.connection.SetReadDeadline(at) }

// SetWriteDeadline is for http.ResponseController.
func (w *uploadWriter) SetWriteDeadline(at time.Time) error { return w.connection.SetWriteDeadline(at) }
