package backup

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	accountsAtOnce = 256
	lettersAtOnce  = 16 // each may have 256 KiB
	// aheadAll is roughly how many bytes of messages are read ahead, in all shards together.
	aheadAll = 16 << 20
	aheadMax = 256 // the most messages of a shard that are read ahead
)

// Options are what a backup needs besides a ring.
type Options struct {
	Program string // the version of the program, for people
	// Secrets is the key for credentials. If it is set, the backup has the stored secrets, still
	// sealed, and credentials that are sealed for this key.
	Secrets *secret.PublicKey
	// Traced says that the service records traces. Messages then keep theirs, in a format that earlier
	// versions refuse. Sends keep theirs anyway.
	Traced bool
}

// writer writes lines and sums them up.
type writer struct {
	out    *bufio.Writer
	sum    hash.Hash
	parts  []part
	counts Counts
	seal   *secret.PublicKey // nil: no secrets
	traced bool              // messages keep their traces
	format int               // that it writes

	holding []line // the terms that there are
	added   []endpoint.Endpoint

	began time.Time // by Redis' clock
	bytes int64     // that it has written

	buffer  bytes.Buffer // of one line
	encoder *json.Encoder
}

func newWriter(out io.Writer, o Options) *writer {
	w := &writer{out: bufio.NewWriterSize(out, 256<<10), sum: sha256.New(), parts: parts(format), seal: o.Secrets, traced: o.Traced}
	w.encoder = json.NewEncoder(&w.buffer)
	w.encoder.SetEscapeHTML(false)
	return w
}

// write writes a line, and counts it.
func (w *writer) write(l line) error {
	w.buffer.Reset()
	if err := w.encoder.Encode(l); err != nil { // with a newline
		return err
	}
	encoded := w.buffer.Bytes()
	_, _ = w.sum.Write(encoded) // a hash takes everything
	for _, p := range w.parts {
		if p.there(&l) {
			*p.count(&w.counts)++
		}
	}
	n, err := w.out.Write(encoded)
	w.bytes += int64(n)
	return err
}

// Written describes a backup that was written whole.
type Written struct {
	Counts
	Began  time.Time // by Redis' clock, as its header has it
	Bytes  int64
	SHA256 string // as its trailer has it
}

// Write writes a backup of everything in the ring's namespace. It returns ErrResharding while the
// number of shards changes. A backup that ended with an error has no trailer, and cannot be
// restored.
func Write(ctx context.Context, ring *circulate.Ring, out io.Writer, o Options) (Written, error) {
	w := newWriter(out, o)
	sum, err := w.everything(ctx, ring, o.Program)
	if err != nil {
		return Written{Counts: w.counts}, fmt.Errorf("backup: %w", err)
	}
	return Written{w.counts, w.began, w.bytes, sum}, nil
}

// everything writes all lines, from the header to the trailer, and returns the
// checksum.
func (w *writer) everything(ctx context.Context, ring *circulate.Ring, program string) (sum string, err error) {
	if ring.Sources() > 0 {
		return "", circulate.ErrResharding
	}
	now, err := ring.Now(ctx, 0)
	if err != nil {
		return "", err
	}
	w.began, w.format = now.UTC(), formatForgetful
	if remembering, err := ring.Archive().Remembering(ctx); err != nil {
		return "", err
	} else if remembering {
		w.format = formatMemory
	}
	if totals, err := ring.Files().Totals(ctx); err != nil {
		return "", err
	} else if totals.Kept.Files+totals.Lost > 0 {
		w.format = formatFiles
	}
	if w.holding, err = holdingTerms(ctx, ring); err != nil {
		return "", err
	} else if len(w.holding) > 0 {
		w.format = formatTerms
	}
	if w.added, err = endpoint.Of(ring).All(ctx); err != nil {
		return "", err
	} else if len(w.added) > 0 || w.traced {
		w.format = format
	}
	header := &Header{Is: magic, Format: w.format, Program: program, Namespace: ring.Namespace(), Shards: ring.Shards(), Time: w.began}
	for shard := range ring.Shards() {
		n, err := ring.Count(ctx, shard)
		if err != nil {
			return "", err
		}
		header.About.Accounts += n.Registered
		header.About.Messages += n.Messages
	}
	if err := w.write(line{Header: header}); err != nil {
		return "", err
	}
	for _, part := range []func(context.Context, *circulate.Ring) error{w.groups, w.accounts, w.dead, w.messages, w.keys, w.webhooks, w.secrets, w.credentials, w.files, w.terms, w.endpoints} {
		if err := part(ctx, ring); err != nil {
			return "", err
		}
	}
	switch changed, err := ring.Changed(ctx); {
	case err != nil:
		return "", err
	case changed:
		return "", circulate.ErrResharding
	}
	sum = hex.EncodeToString(w.sum.Sum(nil))
	if err := w.write(line{End: &trailer{Counts: w.counts, SHA256: sum}}); err != nil {
		return "", err
	}
	return sum, w.out.Flush()
}

func (w *writer) groups(ctx context.Context, ring *circulate.Ring) error {
	for shard := range ring.Shards() {
		positions, err := ring.Archive().Groups(ctx, shard)
		if err != nil {
			return err
		}
		for _, p := range positions {
			l := &groupLine{Name: p.Group, Shard: shard, After: p.After.String(), Events: p.Events}
			for _, m := range p.Pending {
				l.Pending = append(l.Pending, pendingMessage{m.Position.String(), m.Deliveries})
			}
			if err := w.write(line{Group: l}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writer) accounts(ctx context.Context, ring *circulate.Ring) error {
	for shard := range ring.Shards() {
		for cursor := ""; cursor != circulate.ScanDone; {
			all, next, err := ring.Archive().Accounts(ctx, shard, cursor, accountsAtOnce)
			if err == nil {
				err = ring.Archive().Sends(ctx, shard, all)
			}
			if err != nil {
				return err
			}
			for i := range all {
				l := accountOf(&all[i])
				if w.format == formatForgetful { // it began to remember only now
					l.KnownFor, l.Known, l.KnownBeforeFor, l.KnownBefore = "", "", "", ""
				}
				if err := w.write(line{Account: l}); err != nil {
					return err
				}
			}
			cursor = next
		}
	}
	return nil
}

func (w *writer) dead(ctx context.Context, ring *circulate.Ring) error {
	for shard := range ring.Shards() {
		for after := circulate.StreamStart; ; {
			letters, err := ring.Archive().Letters(ctx, shard, after, lettersAtOnce)
			if err != nil {
				return err
			}
			for i := range letters {
				l := &deadLine{Fields: make([]text, len(letters[i].Fields))}
				for j, f := range letters[i].Fields {
					l.Fields[j] = text(f)
				}
				if err := w.write(line{Dead: l}); err != nil {
					return err
				}
				after = letters[i].Position
			}
			if len(letters) < lettersAtOnce {
				break
			}
		}
	}
	return nil
}

// messages writes the messages of all shards in the order of their positions, so that they can be
// put into any number of shards at growing positions. In each shard, it leaves out messages that
// were found after that shard's turn came.
func (w *writer) messages(ctx context.Context, ring *circulate.Ring) error {
	var heads merge
	for shard := range ring.Shards() {
		last, err := ring.Streams().Last(ctx, shard)
		if err != nil {
			return err
		}
		end, err := circulate.ParseStreamID(last)
		if err != nil {
			return err
		}
		s := &source{shard: shard, after: circulate.StreamStart, end: end, ahead: max(1, min(aheadMax, aheadAll/(ring.Shards()*1024)))}
		more, err := s.fill(ctx, ring)
		if err != nil {
			return err
		}
		if more {
			heads = append(heads, s)
		}
	}
	heap.Init(&heads)
	for len(heads) > 0 {
		s := heads[0]
		l := messageOf(&s.found[0])
		if !w.traced {
			l.Trace = ""
		}
		if err := w.write(line{Message: l}); err != nil {
			return err
		}
		s.found = s.found[1:]
		more, err := s.fill(ctx, ring)
		if err != nil {
			return err
		}
		if more {
			heap.Fix(&heads, 0)
		} else {
			heap.Pop(&heads)
		}
	}
	return nil
}

// source is the messages of a shard that must still be written.
type source struct {
	shard int
	after string             // the position of the last message that was read
	end   circulate.StreamID // the position of the last message to write
	found []circulate.Found
	at    circulate.StreamID // the position of the first message in found
	ahead int                // how many messages are read at once
}

// fill reads more if everything was written. It reports whether there is a next message.
func (s *source) fill(ctx context.Context, ring *circulate.Ring) (bool, error) {
	if len(s.found) == 0 {
		found, err := ring.Streams().Messages(ctx, s.shard, s.after, s.ahead)
		if err != nil || len(found) == 0 {
			return false, err
		}
		size := 0
		for i := range found {
			size += len(found[i].Message.Data) + 256
		}
		s.found, s.after = found, found[len(found)-1].Position
		// Large messages are read ahead in smaller numbers.
		s.ahead = max(1, min(aheadMax, aheadAll/ring.Shards()*len(found)/size))
	}
	at, err := circulate.ParseStreamID(s.found[0].Position)
	if err != nil {
		return false, err
	}
	s.at = at
	return !s.end.Before(at), nil
}

// merge is a heap of sources, the one with the first position on top.
type merge []*source

func (m merge) Len() int { return len(m) }
func (m merge) Less(i, j int) bool {
	if c := m[i].at.Compare(m[j].at); c != 0 {
		return c < 0
	}
	return m[i].shard < m[j].shard
}
func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }

// Push implements heap.Interface.
func (m *merge) Push(s any) { *m = append(*m, s.(*source)) }

// Pop implements heap.Interface.
func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
