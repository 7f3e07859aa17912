package connector

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// sentFile is the file of a send. Its bytes come last, so that they are written while they are read.
type sentFile struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // empty: unknown
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Data   string `json:"data"` // the bytes, as base64
}

// fileTypes are the types of sends that are files.
func fileTypes() []string { return []string{"image", "voice", "video", "file"} }

func isFile(name string) bool { return slices.Contains(fileTypes(), name) }

// fileRule is what a send of a file may have. Connectors read a request into memory.
func fileRule() message.FileRule {
	return message.FileRule{Who: "a connector", Most: 20 << 20, Caption: 4096}
}

// fileBody returns the body of a request whose JSON has an empty data of a file at its end.
func fileBody(raw []byte, f *poller.SendFile) (*fetch.Stream, error) {
	head, ok := bytes.CutSuffix(raw, []byte(`"}}`))
	if !ok {
		return nil, errors.New("the file is not at the end of the request")
	}
	return &fetch.Stream{
		Length: int64(len(head)) + (f.Size+2)/3*4 + 3,
		Open: func(ctx context.Context) (io.ReadCloser, error) {
			from, err := f.Whole(ctx)
			if err != nil {
				return nil, err
			}
			return struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(head), &base64Reader{from: from}, bytes.NewReader([]byte(`"}}`))), from}, nil
		},
	}, nil
}

// base64Reader encodes what it reads.
type base64Reader struct {
	from  io.Reader
	plain [48 << 10]byte // a multiple of three
	text  [64 << 10]byte
	ready []byte // within text
	err   error  // after ready
}

// Read implements io.Reader.
func (b *base64Reader) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		n, err := io.ReadFull(b.from, b.plain[:])
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF // the end, which the length of the whole judges
		}
		b.err = err
		base64.StdEncoding.Encode(b.text[:], b.plain[:n])
		b.ready = b.text[:base64.StdEncoding.EncodedLen(n)]
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// judgeFile judges the data of a send that is a file.
func judgeFile(data json.RawMessage, f *poller.File) error {
	_, err := fileRule().Read(data, f)
	return err
}
