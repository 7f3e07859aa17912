package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Message returns a message with its files and its state in each group, by SHARD:POSITION.
func (c *Client) Message(ctx context.Context, ref string) (m api.DeliveredMessage, err error) {
	return m, c.call(ctx, http.MethodGet, "/v1/messages/"+url.PathEscape(ref), nil, &m)
}

// FilePendingError reports a file that is still being fetched.
type FilePendingError struct{ After time.Duration } // when to ask again

// Error says so.
func (e *FilePendingError) Error() string { return "the file is still being fetched" }

// fileTries is how often a download may break off without any progress.
const fileTries = 5

// File writes a file of a message to w, given its File.URL. If the connection breaks it goes on
// where it stopped. It verifies the bytes. Its error is a *FilePendingError for a file that is not
// there yet.
func (c *Client) File(ctx context.Context, at string, w io.Writer) (size int64, err error) {
	d := &download{to: w, sum: sha256.New()}
	for tries := 0; ; tries++ {
		before := d.size
		done, err := d.part(ctx, c, at)
		if done || err != nil && (ctx.Err() != nil || Refused(err)) {
			return d.size, err
		}
		var pending *FilePendingError
		if errors.As(err, &pending) || errors.Is(err, errOther) || d.failed != nil {
			return d.size, err
		}
		if d.size > before {
			tries = 0
		}
		if tries == fileTries {
			return d.size, err
		}
		if !(&backoff{c.firstPause}).wait(ctx, err, func(error, time.Duration) {}) {
			return d.size, context.Cause(ctx)
		}
	}
}

// Stored writes the bytes of an object of the store to w, as File does, for a backup.
func (c *Client) Stored(ctx context.Context, object string, w io.Writer) (size int64, err error) {
	return c.File(ctx, "/v1/backup/files/"+object, w)
}

var errOther = errors.New("the file has other bytes than before, or not those of its SHA-256")

// uploadTries is how often an upload may break off.
const uploadTries = 3

// Upload stores a file for sends of an account to name. The media type may be empty. It reads the file
// twice, at first for its SHA-256, so that nothing but the whole file is taken. If the connection
// breaks, it sends the file again.
func (c *Client) Upload(ctx context.Context, account, name, mediaType string, from io.ReadSeeker) (f api.UploadedFile, err error) {
	sum := sha256.New()
	size, err := rewound(from, sum)
	if err != nil {
		return f, err
	}
	at := queryPath("/v1/files", "account", account, "name", name, "type", mediaType, "sha256", hex.EncodeToString(sum.Sum(nil)))
	for tries := 1; ; tries++ {
		if _, err := from.Seek(0, io.SeekStart); err != nil {
			return f, err
		}
		answer, err := c.sendSized(ctx, http.MethodPost, at, http.Header{"Accept": {"application/json"}, "Content-Type": {"application/octet-stream"}}, from, size)
		if err == nil {
			defer answer.Body.Close()
			return f, json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&f)
		}
		if tries == uploadTries || ctx.Err() != nil || Refused(err) {
			return f, err
		}
		if !(&backoff{c.firstPause}).wait(ctx, err, func(error, time.Duration) {}) {
			return f, context.Cause(ctx)
		}
	}
}

// rewound copies a file from its beginning, and returns its size.
func rewound(from io.ReadSeeker, to io.Writer) (int64, error) {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	return io.Copy(to, from)
}

// download is what has come of a file so far.
type download struct {
	to     io.Writer
	failed error // of to
	sum    hash.Hash
	size   int64
	tag    string
}

// Write writes what has come.
func (d *download) Write(bytes []byte) (int, error) {
	n, err := d.to.Write(bytes)
	d.sum.Write(bytes[:n])
	d.size += int64(n)
	d.failed = err
	return n, err
}

// part makes one request, and reports whether the file is complete.
func (d *download) part(ctx context.Context, c *Client, at string) (done bool, err error) {
	header := http.Header{"Accept": {"*/*"}}
	if d.size > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", d.size))
		header.Set("If-Range", d.tag)
	}
	answer, err := c.send(ctx, http.MethodGet, at, header, nil)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	tag := answer.Header.Get("ETag")
	switch {
	case answer.StatusCode == http.StatusAccepted:
		var pending api.FilePending
		if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&pending); err != nil {
			return false, err
		}
		return false, &FilePendingError{time.Duration(pending.After) * time.Second}
	case d.size > 0 && (answer.StatusCode != http.StatusPartialContent || tag != d.tag):
		return false, errOther
	}
	d.tag = tag
	if _, err := io.Copy(d, answer.Body); err != nil {
		return false, fmt.Errorf("the API's answer broke off: %w", err)
	}
	if want := strings.Trim(tag, `"`); want != hex.EncodeToString(d.sum.Sum(nil)) {
		return false, errOther
	}
	return true, nil
}
