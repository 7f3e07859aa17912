package accounts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	// A block of lines is read, judged by several goroutines at once, and handed on in
	// its order. It ends early if the next line has not come yet.
	blockLines = 512
	blockBytes = 256 << 10

	// judgedTogether is the least number of lines that is worth a goroutine.
	judgedTogether = 32
)

// line is one line of a block, and the result of judging it.
type line struct {
	number  int
	text    []byte
	account Account
	record  []byte           // as Encode writes it
	begin   *circulate.Begin // the state that a new account begins with
	faults  Faults
	err     error // why it could not be judged
	taken   func() error
}

// readLines hands every good line on to the writer, and reports the bad ones.
func (r *Registry) readLines(in lineSource, w *batchWriter, o Importing) (Summary, error) {
	var s Summary
	var seen repeats
	clock := r.clock(w.ctx)
	flushed := time.Now()
	for {
		if in.mayBlock() && time.Since(flushed) > heldTime {
			if err := w.flush(); err != nil {
				return s, err
			}
			flushed = time.Now()
		}
		block, readErr := readBlock(in)
		if s.Lines == 0 && len(block) > 0 {
			if err := notLines(block[0].text); err != nil {
				return s, fmt.Errorf("line %d: %w", block[0].number, err)
			}
		}
		r.judge(w.ctx, block, clock)
		if err := w.tellRefused(o, &s); err != nil {
			return s, err
		}
		for i := range block {
			if err := block[i].hand(w, o, &s, &seen); err != nil {
				return s, err
			}
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return s, nil
		case readErr != nil:
			return s, in.failed(readErr)
		}
	}
}

// readBlock waits for a line, and adds the lines that have come already. With an error it
// also returns the lines before it.
func readBlock(in lineSource) ([]line, error) {
	var block []line
	text := make([]byte, 0, 32<<10)
	for size := 0; len(block) == 0 || len(block) < blockLines && size < blockBytes && !in.mayBlock(); {
		next, err := in.line()
		if err != nil {
			return block, err
		}
		if next.Faults == nil && len(next.Record) > MaxRecord {
			next.Record, next.Faults = nil, tooLong()
		}
		// The source reuses its buffer for the next line.
		start := len(text)
		text = append(text, next.Record...)
		block = append(block, line{number: next.Number, text: text[start:len(text):len(text)], account: Account{ID: next.ID}, faults: next.Faults, taken: next.Taken})
		size += len(next.Record)
	}
	return block, nil
}

// judge reads and judges the lines of a block.
func (r *Registry) judge(ctx context.Context, block []line, clock func() (time.Time, error)) {
	workers := max(1, min(runtime.GOMAXPROCS(0), len(block)/judgedTogether))
	each := (len(block) + workers - 1) / workers
	var wg sync.WaitGroup
	for len(block) > each {
		part := block[:each]
		block = block[each:]
		wg.Go(func() { r.judgePart(ctx, part, clock) })
	}
	r.judgePart(ctx, block, clock)
	wg.Wait()
}

func (r *Registry) judgePart(ctx context.Context, part []line, clock func() (time.Time, error)) {
	for i := range part {
		l := &part[i]
		if l.faults != nil {
			continue
		}
		a, begin, err := readLine(l.text, r.kinds)
		l.begin = begin
		if err = r.bind(&a, err); err == nil {
			l.record, err = a.Encode()
		} else {
			err = a.withPast(err, clock)
		}
		if err == nil {
			err = r.inTime(ctx, a, l.record, begin, clock)
		}
		if err != nil && !errors.As(err, &l.faults) {
			l.err = err
		}
		l.account = a
	}
}

// hand passes a good line to the writer and a bad one to o.Bad, and counts it.
func (l *line) hand(w *batchWriter, o Importing, s *Summary, seen *repeats) error {
	if l.err != nil {
		return l.err
	}
	s.Lines++
	if l.faults == nil {
		if before := seen.add(l.account.ID, l.number); before > 0 {
			s.Repeated++
			if err := o.Repeated(RepeatedLine{Line: l.number, Before: before, ID: l.account.ID}); err != nil {
				return err
			}
		}
		if l.taken != nil && !o.DryRun {
			if err := l.taken(); err != nil {
				return err
			}
		}
		return w.add(l.account, l.record, l.begin, l.number)
	}
	s.Failed++
	bad := BadLine{Line: l.number, Faults: l.faults}
	if circulate.ValidateID(l.account.ID) == nil {
		bad.ID = l.account.ID
	}
	return o.Bad(bad)
}
