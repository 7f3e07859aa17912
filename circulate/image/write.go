package image

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"strconv"
)

// Write writes the image, and says which version of the program did. It may be called while
// the server goes on.
func (i *Image) Write(out io.Writer, program string) (Counts, error) {
	w := newWriter(out)
	w.line(&line{Header: &Header{Is: magic, Format: Format, Program: program, Time: i.Time}})
	for n := range i.keys {
		if err := w.key(&i.keys[n], &replies{rest: i.replies[i.keys[n].from:i.keys[n].to]}); err != nil {
			return w.counts, fmt.Errorf("image: key %q: %w", i.keys[n].name, err)
		}
	}
	w.line(&line{End: &ending{Counts: w.counts, SHA256: hex.EncodeToString(w.sum.Sum(nil))}})
	if w.err == nil {
		w.err = w.out.Flush()
	}
	if w.err != nil {
		return w.counts, fmt.Errorf("image: %w", w.err)
	}
	return w.counts, nil
}

// writer writes lines. After an error it writes nothing.
type writer struct {
	out    *bufio.Writer
	sum    hash.Hash
	encode *json.Encoder
	counts Counts
	err    error

	head   *keyLine // of the key whose values are next; nil once it is written
	values []string
	bytes  int
}

func newWriter(out io.Writer) *writer {
	w := &writer{out: bufio.NewWriterSize(out, 64<<10), sum: sha256.New()}
	w.encode = json.NewEncoder(io.MultiWriter(w.out, w.sum))
	w.encode.SetEscapeHTML(false)
	return w
}

func (w *writer) line(l *line) {
	if w.err != nil {
		return
	}
	l.pack()
	w.err = w.encode.Encode(l)
}

// key writes a key with its values.
func (w *writer) key(k *key, r *replies) error {
	w.counts.Keys++
	w.head = &keyLine{Name: k.name, Type: k.kind, Expires: k.expires, Last: k.last}
	for _, g := range k.groups { // pack must not change the image's
		g.Consumers, g.Pending = append([]string(nil), g.Consumers...), append([]pending(nil), g.Pending...)
		w.head.Groups = append(w.head.Groups, g)
	}
	switch k.kind {
	case kindString:
		w.value(r.text())
	case kindStream:
		for range r.length() {
			r.length() // an id and its fields
			id := r.text()
			n := r.length()
			w.value(id)
			w.value(strconv.Itoa(n))
			for range n {
				w.value(r.text())
			}
			if r.err != nil {
				break
			}
			w.cut()
		}
	case kindHash, kindZSet:
		for range r.length() / 2 {
			w.value(r.text())
			w.value(r.text())
			if r.err != nil {
				break
			}
			w.cut()
		}
	default:
		for range r.length() {
			w.value(r.text())
			if r.err != nil {
				break
			}
			w.cut()
		}
	}
	w.flush()
	return r.err
}

func (w *writer) value(text string) {
	w.values = append(w.values, text)
	w.bytes += len(text)
	w.counts.Values++
}

// cut ends the line if it is long enough. It is called where the values may be cut.
func (w *writer) cut() {
	if w.bytes >= lineBytes || len(w.values) >= lineValues {
		w.flush()
	}
}

func (w *writer) flush() {
	switch {
	case w.head != nil:
		w.head.Values = w.values
		w.line(&line{Key: w.head})
	case len(w.values) > 0:
		w.line(&line{More: w.values})
	}
	w.head, w.values, w.bytes = nil, w.values[:0], 0
}
