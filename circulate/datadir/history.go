package datadir

import (
	"slices"
	"strconv"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	// chunkEntries and chunkBytes are how many entries of a stream, and about how many of
	// their bytes, are packed together once and for all.
	chunkEntries = 256
	chunkBytes   = 256 << 10
)

// history is the known entries of a stream. Entries never change; the oldest are dropped,
// and rarely others.
type history struct {
	chunks []chunk
	tail   []tailed // the entries after the chunks
	bytes  int      // of the tail
	ending []byte   // the last entry, as in the server's reply
}

// chunk is some packed entries: one frame of lines.
type chunk struct {
	packed []byte
	ids    []circulate.StreamID
	values int // in its lines
}

// tailed is an entry that is not packed yet.
type tailed struct {
	id     circulate.StreamID
	values []string // as in a line
}

// parseID reads an id of the embedded server. For other texts it returns the zero id.
func parseID(text string) circulate.StreamID {
	id, _ := circulate.ParseStreamID(text)
	return id
}

// known returns how many entries are known from one on, and the last one as in the
// server's reply.
func (h *history) known(from string) (int, []byte) {
	chunks, tail := h.from(from)
	n := len(tail)
	for _, c := range chunks {
		n += len(c.ids)
	}
	if len(chunks) > 0 {
		n -= before(chunks[0].ids, parseID(from))
	}
	return n, h.ending
}

// before returns how many ids come before a given one.
func before(ids []circulate.StreamID, from circulate.StreamID) int {
	n, _ := slices.BinarySearchFunc(ids, from, circulate.StreamID.Compare)
	return n
}

// last returns the id of the last entry.
func (h *history) last() string {
	if len(h.tail) > 0 {
		return h.tail[len(h.tail)-1].id.String()
	}
	ids := h.chunks[len(h.chunks)-1].ids
	return ids[len(ids)-1].String()
}

// from returns the chunks and entries from one entry on. The first chunk may have older
// ones, too.
func (h *history) from(first string) ([]chunk, []tailed) {
	if first == "" {
		return nil, nil // the stream is empty
	}
	id := parseID(first)
	n, _ := slices.BinarySearchFunc(h.chunks, id, func(c chunk, id circulate.StreamID) int { return c.ids[len(c.ids)-1].Compare(id) })
	m, _ := slices.BinarySearchFunc(h.tail, id, func(e tailed, id circulate.StreamID) int { return e.id.Compare(id) })
	return h.chunks[n:], h.tail[m:]
}

// take takes the server's reply. If anew, it has all entries. Otherwise it begins with
// the newest and ends with the last known entry.
func (h *history) take(reply []byte, anew bool) error {
	r := &replies{rest: reply}
	entries := make([]tailed, r.length())
	if len(entries) == 0 {
		return r.err
	}
	for i := range entries {
		whole := r.rest
		entries[i] = r.entry()
		if newest := 0; anew && i == len(entries)-1 || !anew && i == newest {
			h.ending = slices.Clone(whole[:len(whole)-len(r.rest)])
		}
	}
	if r.err != nil {
		return r.err
	}
	if !anew {
		entries = entries[:len(entries)-1]
		slices.Reverse(entries)
	}
	for _, e := range entries {
		h.tail = append(h.tail, e)
		for _, v := range e.values {
			h.bytes += len(v)
		}
		if len(h.tail) >= chunkEntries || h.bytes >= chunkBytes {
			if err := h.pack(); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry reads an entry of a stream.
func (r *replies) entry() tailed {
	r.length() // an id and its fields
	id := r.text()
	n := r.length()
	if r.err != nil {
		return tailed{}
	}
	e := tailed{id: parseID(id), values: append(make([]string, 0, n+2), id, strconv.Itoa(n))}
	for range n {
		e.values = append(e.values, r.text())
	}
	return e
}

// pack makes a chunk of the tail. It does not change the chunks and the tail that an image
// may still be writing.
func (h *history) pack() error {
	c := chunk{ids: make([]circulate.StreamID, len(h.tail))}
	var lines lineWriter
	for i, e := range h.tail {
		c.ids[i] = e.id
		c.values += len(e.values)
		for _, v := range e.values {
			lines.value(v)
		}
	}
	lines.flush()
	if lines.err != nil {
		return lines.err
	}
	packed, err := packAll(lines.out.Bytes())
	if err != nil {
		return err
	}
	c.packed = packed
	h.chunks = append(h.chunks[:len(h.chunks):len(h.chunks)], c)
	h.tail, h.bytes = nil, 0
	return nil
}

// drop drops the chunks that have no entry from the given one on.
func (h *history) drop(first string) {
	chunks, _ := h.from(first)
	h.chunks = slices.Clone(chunks)
}
