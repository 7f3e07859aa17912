package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	newestName   = "data.zst"
	previousName = "data.previous.zst"
	writtenName  = "data.new.zst"
	damagedName  = "data.damaged-"
	packedEnd    = ".zst"
)

// lostError reports that no image can be read though there are some.
type lostError struct {
	Path    string
	Damaged []Damaged
}

// Error names each file, and says what to do.
func (e *lostError) Error() string {
	var files []string
	for _, d := range e.Damaged {
		files = append(files, d.Name+" ("+d.Reason+")")
	}
	return fmt.Sprintf("data directory %s: nothing in it can be read: %s; nothing was changed. Put a copy of one of these files in its place, or restore a backup into another directory (rounds restore FILE --data DIR), or begin with nothing by moving the files away",
		e.Path, strings.Join(files, ", "))
}

// load fills the server from the newest image that can be read.
func (d *Dir) load(ctx context.Context) error {
	names, err := d.images()
	if err != nil {
		return err
	}
	numbers, err := segments(d.disk)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d.options.Path, reason(err))
	}
	if len(numbers) > 0 {
		d.log.number = numbers[len(numbers)-1]
	}
	var damaged []Damaged
	for _, name := range names {
		header, err := d.try(ctx, name)
		var later *newerError
		switch {
		case err == nil:
			return d.begin(name, header, numbers, damaged)
		case errors.As(err, &later):
			return fmt.Errorf("data directory %s: %s is not for this program: %w; nothing was changed", d.options.Path, name, err)
		case errors.Is(err, errDamaged):
			damaged = append(damaged, Damaged{Name: name, Reason: strings.TrimPrefix(err.Error(), errDamaged.Error()+": ")})
		default:
			return fmt.Errorf("data directory %s: %s: %w", d.options.Path, name, reason(err))
		}
	}
	if missed := d.missed(numbers); len(damaged) == 0 && missed != "" {
		damaged = []Damaged{{Name: newestName, Reason: "it is missing, and " + missed + " follows it"}}
	} else if len(damaged) == 0 || len(names) == 1 && names[0] == writtenName {
		// The first image ever was being written: there is nothing to lose.
		d.stale = true
		d.options.Log.Info("the data directory is new", "path", d.options.Path)
		return nil
	}
	return &lostError{Path: d.options.Path, Damaged: damaged}
}

// missed returns the first segment that is not empty.
func (d *Dir) missed(numbers []int) string {
	for _, n := range numbers {
		text, err := d.text(segmentName(n))
		if err != nil || len(text) > len(logMagic) {
			return segmentName(n)
		}
	}
	return ""
}

// images returns the existing images, the one to use first at the front.
func (d *Dir) images() ([]string, error) {
	var names []string
	there, err := d.disk.Names()
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", d.options.Path, reason(err))
	}
	for _, name := range []string{newestName, writtenName, previousName} {
		// If the newest exists, an image being written belongs to a save that did not
		// end.
		if slices.Contains(there, name) && (name != writtenName || len(names) == 0) {
			names = append(names, name)
		}
	}
	return names, nil
}

var errDamaged = errors.New("damaged")

// try reads an image to its end, and then fills the server from it.
func (d *Dir) try(ctx context.Context, name string) (Header, error) {
	var header Header
	size := &counter{out: io.Discard}
	if err := d.openImage(name, func(in io.Reader) (err error) {
		header, _, err = verify(io.TeeReader(in, size))
		return err
	}); err != nil {
		return header, err
	}
	d.state.Packed, d.wrote = size.n, time.Now()
	d.release = d.server.HoldClock(header.Time) // keys expire when the log reaches their time
	return header, d.openImage(name, func(in io.Reader) error {
		_, err := load(ctx, d.server, in, header.Time)
		return err
	})
}

// openImage opens an image and passes it to read. An error of read means that the image is damaged,
// unless a newer version wrote it.
func (d *Dir) openImage(name string, read func(io.Reader) error) error {
	file, err := d.disk.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the file was only read
	err = read(file)
	if err == nil || errors.As(err, new(*newerError)) {
		return err
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}

// begin repeats the log after the image that was used, and sets damaged files aside.
func (d *Dir) begin(used string, header Header, numbers []int, damaged []Damaged) error {
	log, of := d.options.Log, header.Time
	to, broken, err := d.redo(header, numbers)
	if err != nil {
		return err
	}
	for i := range damaged {
		was := damaged[i].Name
		damaged[i].Used = to
		if err := d.setAside(&damaged[i]); err != nil {
			return err
		}
		log.Error("a file of the data directory is damaged: it was set aside, and the one before it is used, with its log"+lost(broken),
			"path", d.options.Path, "file", was, "reason", damaged[i].Reason, "set_aside", damaged[i].Name, "used", used, "of", of, "to", to)
	}
	if len(damaged) == 0 && used == previousName {
		log.Error("the newest file of the data directory is missing: the one before it is used, with its log"+lost(broken),
			"path", d.options.Path, "file", newestName, "used", used, "of", of, "to", to)
	}
	if broken != nil {
		log.Error("the log of the data directory is damaged: what came after that is lost",
			"path", d.options.Path, "file", broken.Name, "reason", broken.Reason, "to", to)
		broken.Used = to
		damaged = append(damaged, *broken)
	}
	if used == writtenName { // the process ended between the two renamings
		if err := d.disk.Rename(writtenName, newestName); err != nil {
			return fmt.Errorf("data directory %s: cannot be written: %w", d.options.Path, reason(err))
		}
		used = newestName
	}
	if d.hasNewest = used == newestName; d.hasNewest {
		d.after = header.Log
	} else {
		d.previous = header.Log
	}
	// A program that knows no log must not go on from an image whose log it skips.
	d.stale = header.Log == 0 || broken != nil || !d.hasNewest
	d.state.Saved, d.state.Damaged = to, damaged
	// The first image reads everything. Nobody waits for that yet.
	loaded, err := d.taker.Take()
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d.options.Path, err)
	}
	d.state.Keys, d.state.Bytes = loaded.Keys(), loaded.Bytes()
	log.Info("data loaded", "path", d.options.Path, "of", of, "to", to, "log_bytes", d.log.total)
	return nil
}

func lost(broken *Damaged) string {
	if broken == nil {
		return ": nothing is lost"
	}
	return ""
}

// setAside gives a damaged file another name.
func (d *Dir) setAside(file *Damaged) error {
	was := file.Name
	end := packedEnd
	if strings.HasPrefix(was, logName) {
		end = "-" + was
	}
	file.Name = damagedName + time.Now().UTC().Format("20060102T150405.000") + end
	if err := d.disk.Rename(was, file.Name); err != nil {
		return fmt.Errorf("data directory %s: %s is damaged (%s) and cannot be set aside: %w", d.options.Path, was, file.Reason, reason(err))
	}
	return nil
}

// missing is the reason of a file that does not exist.
const missing = "it is missing"

// redo repeats the commands of the log after an image, and returns the moment of the last
// one. If a process ended while it wrote, the unfinished end is cut off. At damage redo
// stops.
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

// text returns the content of a file.
func (d *Dir) text(name string) ([]byte, error) {
	in, err := d.disk.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(in)
	_ = in.Close() // the file was only read
	return text, err
}
