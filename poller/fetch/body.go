package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// readBody reads an answer of at most the given number of bytes. Before it reads an
// answer larger than smallBody, it waits for room.
func (c *Client) readBody(ctx context.Context, answer *http.Response, most int64) ([]byte, error) {
	if answer.Body == http.NoBody {
		return nil, nil
	}
	coding, from := codingOf(answer), io.Reader(answer.Body)
	if coding == "gzip" {
		from, answer.ContentLength = &unzipped{from: from}, -1
	}
	packed := coding == "br" || coding == "zstd"
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		// Only the status counts: a body that breaks off changes nothing.
		body, err := io.ReadAll(io.LimitReader(from, errorBody))
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return nil, err
		}
		if packed {
			body, _ = c.unpack(ctx, coding, body, errorBody)
		}
		return body, nil
	}
	if packed {
		return c.readPacked(ctx, answer, coding, most)
	}
	if length := answer.ContentLength; length > 0 && length <= min(most, smallBody) {
		return readKnown(from, int(length))
	}
	body, err := io.ReadAll(io.LimitReader(from, min(most, smallBody)+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(body)) > most || answer.ContentLength > most:
		return nil, ErrTooLarge
	case len(body) <= smallBody:
		return body, nil
	}
	room := most
	if answer.ContentLength > 0 {
		room = answer.ContentLength
	}
	release, err := take(ctx, c.room.answers, room, answerRoom)
	if err != nil {
		return nil, err
	}
	body, err = readLarge(from, body, int(room), int(most))
	if err != nil {
		release()
		return nil, err
	}
	freeWhenWritten(ctx, release)
	return body, nil
}

// headOf returns up to so many first bytes of an answer's body.
func headOf(answer *http.Response, most int) []byte {
	if most <= 0 || answer.Body == http.NoBody {
		return nil
	}
	from := io.Reader(answer.Body)
	switch codingOf(answer) {
	case "gzip":
		from = &unzipped{from: from}
	case "br", "zstd":
		return nil // a decoder takes more memory than a few bytes are worth
	}
	head, _ := io.ReadAll(io.LimitReader(from, int64(most))) // what came before it broke off
	return head
}

// readKnown reads an answer that has stated its length, and refuses a longer one.
func readKnown(from io.Reader, length int) ([]byte, error) {
	body := make([]byte, length+1) // one more byte, to see the end
	for n := 0; ; {
		more, err := from.Read(body[n:])
		switch n += more; {
		case errors.Is(err, io.EOF):
			return body[:n], nil
		case err != nil:
			return nil, err
		case n > length:
			return nil, ErrTooLarge // a transport that did not enforce the stated length
		}
	}
}

// readLarge continues behind the bytes that were read. It rarely copies: an answer of a known
// length is read into a buffer of that size.
func readLarge(from io.Reader, body []byte, length, most int) ([]byte, error) {
	size := length + 1 // one more byte, to see the end
	if length == most {
		size = min(size, 16*len(body)) // the answer did not state its length
	}
	for {
		grown := make([]byte, len(body), size)
		copy(grown, body)
		body = grown
		for len(body) < cap(body) {
			n, err := from.Read(body[len(body):cap(body)])
			body = body[:len(body)+n]
			switch {
			case len(body) > most:
				return nil, ErrTooLarge
			case errors.Is(err, io.EOF):
				return body, nil
			case err != nil:
				return nil, err
			}
		}
		size = min(4*size, most+1)
	}
}
