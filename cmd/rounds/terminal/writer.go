package terminal

import (
	"io"
	"sync"
)

// Writer writes what a terminal shows and does not obey. It is safe for concurrent use.
type Writer struct {
	raw io.Writer

	mu   sync.Mutex
	cut  []byte // a character that has not come whole
	text []byte // scratch
}

// NewWriter makes a Writer to a stream. Of a Writer it returns that one.
func NewWriter(raw io.Writer) *Writer {
	if w, ok := raw.(*Writer); ok {
		return w
	}
	return &Writer{raw: raw}
}

// Raw is the stream itself, for what the program itself tells the terminal to do; and for
// asking whether it is one.
func Raw(stream any) any {
	if w, ok := stream.(*Writer); ok {
		return w.raw
	}
	return stream
}

// Write writes text, with all that a terminal would obey written as \u and its number. The
// count is of the text that was given.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	given := len(text)
	if len(w.cut) > 0 {
		text = append(w.cut, text...)
	}
	out, taken := plain(w.text[:0], text)
	w.cut = append([]byte(nil), text[taken:]...)
	w.text = out
	if _, err := w.raw.Write(out); err != nil {
		return 0, err
	}
	if cap(w.text) > 1<<20 {
		w.text = nil
	}
	return given, nil
}
