package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
)

// FileRule says what a third party takes as a file of some type.
type FileRule struct {
	Who     string // the third party's name, for errors
	Most    int64  // bytes; 0: any number
	Caption int    // the most characters of a caption; 0: it takes none
}

var errFile = errors.New(`data.file: must be the id of a file, as POST /v1/files or a message's files have it`)

// Read reads the data of a send that is a file, {"file": "ID", "caption": "…"}, and judges the file
// if it is known. It returns the caption.
func (r FileRule) Read(data json.RawMessage, f *poller.File) (caption string, err error) {
	fields, ok := strict.Members(data)
	if !ok {
		return "", errors.New(`data: must be {"file": "ID"}`)
	}
	var faults []error
	if id, is := strict.TextIn(fields, "file"); !is || id == "" {
		faults = append(faults, errFile)
	}
	named := len(fields["caption"]) > 0
	caption, is := strict.TextIn(fields, "caption")
	switch {
	case !named:
	case r.Caption == 0:
		faults = append(faults, fmt.Errorf("data.caption: %s takes a file without a caption: send a text besides", r.Who))
	case !is || !utf8.ValidString(caption) || strings.ContainsRune(caption, 0) || utf8.RuneCountInString(caption) > r.Caption:
		faults = append(faults, fmt.Errorf("data.caption: must be a text of at most %d characters without NUL", r.Caption))
	}
	delete(fields, "file")
	delete(fields, "caption")
	if len(fields) > 0 {
		faults = append(faults, errors.New("data: has other members than file and caption"))
	}
	if f != nil {
		faults = append(faults, r.fits(f.Size))
	}
	return caption, errors.Join(faults...)
}

// Fits judges the file of an attempt.
func (r FileRule) Fits(f *poller.SendFile) error {
	if f == nil {
		return poller.Refused("no_file", "the send has no file")
	}
	if err := r.fits(f.Size); err != nil {
		return poller.Refused("file_size", strings.TrimPrefix(err.Error(), "data.file: "))
	}
	return nil
}

func (r FileRule) fits(size int64) error {
	switch {
	case size == 0:
		return errors.New("data.file: is empty, and nobody takes an empty file")
	case r.Most > 0 && size > r.Most:
		return fmt.Errorf("data.file: has %d bytes, and %s takes at most %d", size, r.Who, r.Most)
	}
	return nil
}

// FileName returns a name for a file: its own, or one that says what it is.
func FileName(f *poller.File) string {
	if f.Name != "" {
		return f.Name
	}
	endings := map[string]string{
		"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "video/mp4": ".mp4", "video/webm": ".webm",
		"audio/amr": ".amr", "audio/ogg": ".ogg", "audio/mpeg": ".mp3", "application/pdf": ".pdf", "text/plain": ".txt",
	}
	return "file" + endings[f.Type]
}
