package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxEvent is the most bytes that an event may have. A message's data may be 256 KiB, and
// JSON may write each byte as six.
const maxEvent = 4 << 20

// event is one server-sent event.
type event struct {
	name string
	data []byte
}

// eventReader reads server-sent events as the HTML standard defines them.
type eventReader struct {
	lines *bufio.Reader
	id    string // of the last complete event
	size  int
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{lines: bufio.NewReaderSize(r, 64<<10)}
}

var errEventSize = errors.New("an event of the API is too long")

// next returns the next event that has data. It drops an event that the stream's end cuts
// off.
func (r *eventReader) next() (event, error) {
	var e event
	id, hasData := r.id, false
	for r.size = 0; ; {
		line, err := r.line()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if r.id = id; hasData {
				return e, nil
			}
			e, r.size = event{}, 0
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			if !bytes.ContainsRune(value, 0) {
				id = string(value)
			}
		case "event":
			e.name = string(value)
		case "data":
			if hasData {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
			hasData = true
		}
	}
}

func (r *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		if r.size += len(part); r.size > maxEvent {
			return nil, errEventSize
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
