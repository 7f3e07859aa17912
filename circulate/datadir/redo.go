package datadir

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// missing is what is wrong with a file that is not there.
const missing = "it is missing"

// redo does what the log has after an image, and returns the moment of what it did last. What
// was being written when a process ended is cut off. At damage it stops.
func (d *Dir) redo(header Header, numbers []int) (to time.Time, broken *Damaged, err error) {
	defer func() {
		if d.release != nil {
			d.release()
			d.release = nil
		}
	}()
	to = header.Time
	first := max(header.Log, 1)
	last := first - 1 // an image of a program without a log has none
	if header.Log > 0 {
		last = first
	}
	if len(numbers) > 0 {
		last = max(last, numbers[len(numbers)-1])
	}
	for n := first; n <= last; n++ {
		name := segmentName(n)
		if !slices.Contains(numbers, n) {
			return to, &Damaged{Name: name, Reason: missing}, nil
		}
		text, err := d.text(name)
		if err != nil {
			return to, nil, fmt.Errorf("data directory %s: %s: %w", d.options.Path, name, reason(err))
		}
		good, wrong := readSegment(text, func(at time.Time, effects [][]string) error {
			if err := d.server.Redo(at, effects); err != nil {
				return err
			}
			to = at
			return nil
		})
		d.log.total += int64(max(good-len(logMagic), 0))
		if wrong != nil {
			return to, &Damaged{Name: name, Reason: wrong.Error()}, nil
		}
		if good < len(text) {
			d.options.Log.Info("the end of the log was being written when the process ended: it was cut off", "path", d.options.Path, "file", name, "bytes", len(text)-good)
			if err := d.disk.Truncate(name, int64(good)); err != nil {
				return to, nil, fmt.Errorf("data directory %s: %s cannot be cut off: %w", d.options.Path, name, reason(err))
			}
		}
	}
	d.log.found = d.log.total
	return to, nil, nil
}

// text returns what a file has.
func (d *Dir) text(name string) ([]byte, error) {
	in, err := d.disk.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(in)
	_ = in.Close() // it was only read
	return text, err
}
