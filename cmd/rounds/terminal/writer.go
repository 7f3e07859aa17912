package terminal

import (
	"io"
	"sync"
)

// Writer escapes characters that a terminal would obey, and writes the rest as it is. It is safe
// for concurrent use.
type Writer struct {
	raw io.Writer

	mu   sync.Mutex
	cut  []byte // the first bytes of an incomplete character
	text []byte // reused buffer
}

// NewWriter returns a Writer to a stream. If the stream is a Writer, it returns that.
func NewWriter(raw io.Writer) *Writer {
	if w, ok := raw.(*Writer); ok {
		return w
	}
	return &Writer{raw: raw}
}

// Raw returns the stream that a Writer writes to, or any other stream unchanged. The program
// uses it for its own terminal commands, and to ask whether the stream is a terminal.
func Raw(stream any) any {
	if w, ok := stream.(*Writer); ok {
		return w.raw
	}
	return stream
}

// Write writes text. It replaces each character that a terminal would obey by an escape, such
// as \u001b. It returns the number of bytes of the given text, not of what it wrote.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	given := len(text)
	if len(w.cut) > 0 {
		text = append(w.cut, text...)
	}
	out, taken := Append(w.text[:0], text)
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
