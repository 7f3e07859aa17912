package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// codings are the content codings that an answer may have (RFC 9110, 12.5.3).
const codings = "gzip, br, zstd"

const (
	// zstdWindow is the largest window that a host may demand of its readers (RFC 9659).
	zstdWindow = 8 << 20
	// unpackRoom is the memory that one decoder may take: Brotli's largest window is 16 MiB (RFC 7932,
	// 9.1), and its tables take some more.
	unpackRoom = 24 << 20
)

// errCoding reports an answer that is not in its declared coding.
var errCoding = &Error{Code: CodeHTTP, text: "the answer's compression is broken"}

// codingOf returns the coding of an answer's body, and removes it from the header, if the coding is
// one that was asked for. The caller must handle any other.
func codingOf(answer *http.Response) string {
	coding := strings.ToLower(strings.TrimSpace(answer.Header.Get("Content-Encoding")))
	switch coding {
	case "gzip", "br", "zstd":
		answer.Header.Del("Content-Encoding")
		answer.Header.Del("Content-Length")
		return coding
	}
	return ""
}

// readPacked reads an answer in a coding whose window the host chooses. It reads the whole answer
// before it unpacks it, so that a slow host does not occupy the memory for unpacking.
func (c *Client) readPacked(ctx context.Context, answer *http.Response, coding string, most int64) ([]byte, error) {
	packed, err := io.ReadAll(io.LimitReader(answer.Body, min(most, smallBody)+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(packed)) > most:
		return nil, ErrTooLarge
	case len(packed) <= smallBody:
		body, err := c.unpack(ctx, coding, packed, min(most, smallBody))
		if !errors.Is(err, ErrTooLarge) || most <= smallBody {
			return body, err
		}
	}
	release, err := take(ctx, c.room.answers, 2*most, answerRoom)
	if err != nil {
		return nil, err
	}
	if packed, err = readLarge(answer.Body, packed, int(most), int(most)); err == nil {
		packed, err = c.unpack(ctx, coding, packed, most)
	}
	if err != nil {
		release()
		return nil, err
	}
	freeWhenWritten(ctx, release)
	return packed, nil
}

// unpack returns the unpacked answer. Of a larger one it returns as much as is wanted, and
// ErrTooLarge.
func (c *Client) unpack(ctx context.Context, coding string, packed []byte, most int64) ([]byte, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	release, err := c.Reserve(ctx, unpackRoom)
	if err != nil {
		return nil, err
	}
	defer release()
	var from io.Reader = brotli.NewReader(bytes.NewReader(packed))
	if coding == "zstd" {
		unzstd, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, errCoding
		}
		defer unzstd.Close()
		from = unzstd
	}
	body, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, errCoding
	case int64(len(body)) > most:
		return body[:most], ErrTooLarge
	}
	return body, nil
}

// unzipped is the content of a gzip body. It reads nothing until it is read itself.
type unzipped struct {
	from io.Reader
	zip  *gzip.Reader
}

// Read implements io.Reader.
func (z *unzipped) Read(p []byte) (int, error) {
	if z.zip == nil {
		zip, err := gzip.NewReader(z.from)
		if err != nil {
			return 0, err
		}
		z.zip = zip
	}
	return z.zip.Read(p)
}
