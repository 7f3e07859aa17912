package poller

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// A FileKeeper is a Checker whose messages may carry files: images, voices, attachments. What a
// message names, the third party forgets, so rounds fetches it and keeps it. It must be safe for
// concurrent use.
type FileKeeper interface {
	Checker

	// Files returns the files that a message of this kind carries, in an order that never changes.
	// It reads the message and nothing else, so the files of a message can be told at any time.
	// Strangers made the message: Files returns at most MaxFiles, and never fails.
	Files(m *Message) []File

	// FetchFile makes the call that gives a file. An error says like one of Check what is at
	// fault; of kind Gone it says that the third party has the file no more. The caller closes
	// the body, and reads at most its own bound.
	FetchFile(ctx context.Context, r FileRequest) (*FileBody, error)
}

// MaxFiles is the most files that a message has.
const MaxFiles = 64

// File is a file that a message carries, as the message tells it. Nothing of it is trusted.
type File struct {
	Name   string    // for people; empty: it has none
	Type   string    // the media type; empty: unknown
	Size   int64     // bytes, of the file as it is kept; 0: unknown
	SHA256 string    // of its bytes, in hex; empty: unknown
	Until  time.Time // from when the third party may have forgotten it; zero: unknown
}

// FileRequest is what a FileKeeper gets for one file.
type FileRequest struct {
	Account string
	Config  json.RawMessage // as registered; it may have changed since the message was found
	Message *Message
	File    int // its place in what Files returned
}

// FileBody is a file while it is fetched. Type and Name are what the third party says of it now,
// if the message did not.
type FileBody struct {
	io.ReadCloser
	Name string
	Type string
	Size int64 // bytes; 0: unknown
}
