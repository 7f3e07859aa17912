package datadir

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
)

// Write writes the image, with the version of the program. It may be called while the
// server goes on.
func (i *Image) Write(out io.Writer, program string) (Counts, error) {
	p := newPacker(out)
	w := &writer{packer: p}
	w.lines.to = p
	w.lines.line(&line{Header: &Header{Is: magic, Format: format, Program: program, Time: i.Time, Log: i.Log}})
	for n := range i.keys {
		if err := w.key(&i.keys[n], &replies{rest: i.replies[i.keys[n].from:i.keys[n].to]}); err != nil {
			return w.counts, fmt.Errorf("image: key %q: %w", i.keys[n].name, err)
		}
	}
	w.lines.line(&line{End: &w.counts})
	w.lines.push()
	if err := cmp.Or(w.lines.err, p.close()); err != nil {
		return w.counts, fmt.Errorf("image: %w", err)
	}
	return w.counts, nil
}

// writer writes the keys of one image.
type writer struct {
	packer *packer
	lines  lineWriter
	counts Counts
}

// key writes a key with its values.
func (w *writer) key(k *key, r *replies) error {
	w.counts.Keys++
	head := &keyLine{Name: k.name, Type: k.kind, Expires: k.expires, Last: k.last, First: k.first}
	for _, g := range k.groups { // packing a line must not change the image
		g.Consumers, g.Pending = append([]string(nil), g.Consumers...), append([]pending(nil), g.Pending...)
		head.Groups = append(head.Groups, g)
	}
	w.lines.head = head
	switch k.kind {
	case kindStream:
		w.stream(k)
		return w.lines.err
	case kindString:
		w.value(r.text())
	case kindHash, kindZSet:
		for range r.length() / 2 {
			w.value(r.text())
			w.value(r.text())
			if r.err != nil {
				break
			}
			w.lines.cut()
		}
	default:
		for range r.length() {
			w.value(r.text())
			if r.err != nil {
				break
			}
			w.lines.cut()
		}
	}
	w.lines.flush()
	return cmp.Or(r.err, w.lines.err)
}

func (w *writer) stream(k *key) {
	if len(k.chunks) > 0 {
		w.lines.flush()
		w.lines.push()
	}
	for _, c := range k.chunks {
		w.packer.frame(c.packed)
		w.counts.Values += c.values
	}
	for _, e := range k.tail {
		for _, v := range e.values {
			w.value(v)
		}
		w.lines.cut()
	}
	w.lines.flush()
}

func (w *writer) value(text string) {
	w.counts.Values++
	w.lines.value(text)
}

// lineWriter writes values as lines. After an error it writes nothing.
type lineWriter struct {
	to  io.Writer // nil: everything stays in out
	out bytes.Buffer
	err error

	head   *keyLine // of the key whose values are next; nil once it is written
	values []string
	bytes  int
}

func (w *lineWriter) line(l *line) {
	if w.err != nil {
		return
	}
	l.pack()
	e := json.NewEncoder(&w.out)
	e.SetEscapeHTML(false)
	if w.err = e.Encode(l); w.to != nil && w.out.Len() >= lineBytes {
		w.push()
	}
}

// push passes the content of out on.
func (w *lineWriter) push() {
	if w.err == nil {
		_, w.err = w.to.Write(w.out.Bytes())
	}
	w.out.Reset()
}

func (w *lineWriter) value(text string) {
	w.values = append(w.values, text)
	w.bytes += len(text)
}

// cut ends the line if it is long enough. It is called where values may be separated.
func (w *lineWriter) cut() {
	if w.bytes >= lineBytes || len(w.values) >= lineValues {
		w.flush()
	}
}

func (w *lineWriter) flush() {
	switch {
	case w.head != nil:
		w.head.Values = w.values
		w.line(&line{Key: w.head})
	case len(w.values) > 0:
		w.line(&line{More: w.values})
	}
	w.head, w.values, w.bytes = nil, w.values[:0], 0
}
